"""Runs the tools, prompts and resources of a source outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError

from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError
from tools_app.sdk.outside import Origin
from tools_app.sdk.questions import LEVELS, Ask, InputRequired
from tools_app.sdk.runner import InThread, Returned
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sources.foreign import original_arguments, original_uri
from tools_app.upstream import questions, results
from tools_app.upstream.links import Log, PendingRequest
from tools_app.upstream.wire import Broken

if TYPE_CHECKING:
    from tools_app.upstream.upstreams import Upstreams

# Before the deadline, so that the caller gets a better error than that of the deadline.
MARGIN_SECONDS: Final = 0.1
MOST_LOG: Final = 4_000


class McpRunner:
    explain: Callable[[Any], ToolError | None] | None = None

    def __init__(self, upstreams: Upstreams, origin: Origin, spec: ToolSpec) -> None:
        self._upstreams = upstreams
        self._origin = origin
        self._spec = spec

    def prepared(self, arguments: Mapping[str, Any]) -> Any:
        """With the names that the source uses. Nothing is added to what the caller sent."""
        if self._spec.kind is Kind.TEMPLATE:
            return {"uri": original_uri(self._spec, arguments)}
        return original_arguments(self._spec, arguments)

    async def run(self, context: Context, arguments: Any, in_thread: InThread) -> Returned | Ask:
        method, params = self._request(arguments)
        pending = PendingRequest(
            remaining=lambda: max(0.0, context.remaining() - MARGIN_SECONDS),
            progress=context.progress,
            log=_log(context),
            answer=lambda method, params: self._answer(context, method, params),
        )
        try:
            session = self._upstreams.session(self._origin, context.account, _client_of(context))
            result = await session.ask(method, params, pending)
            for _ in range(questions.MOST_ROUNDS):
                if result.get("resultType") != "input_required":
                    break
                # It has not begun: the same request, with the answers.
                answers = await questions.answered(context, self._origin, result.get("inputRequests") or {})
                state = {"requestState": result["requestState"]} if "requestState" in result else {}
                result = await session.ask(method, {**params, "inputResponses": answers, **state}, pending)
            return results.returned(self._origin, self._spec, result)
        except InputRequired as unanswered:
            return unanswered.ask
        except MCPError as error:
            raise self._noted(results.refused(self._origin, self._spec, error)) from error
        except Broken as error:
            raise results.broken(self._origin, self._spec, error) from error
        except results.GoneError as error:
            raise self._noted(error) from None
        finally:
            context.note_sent(pending.sent, pending.session)

    async def _answer(self, context: Context, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The client's answer to a question of a source of the handshake era."""
        request = {"question": {"method": method, "params": params}}
        answers = await questions.answered(context, self._origin, request)
        answer: Mapping[str, Any] = answers["question"]
        return answer

    def _request(self, arguments: Any) -> tuple[str, dict[str, Any]]:
        spec = self._spec
        match spec.kind:
            case Kind.PROMPT:
                return "prompts/get", {"name": spec.key, "arguments": arguments}
            case Kind.RESOURCE:
                return "resources/read", {"uri": spec.key}
            case Kind.TEMPLATE:
                return "resources/read", arguments
        return "tools/call", {"name": spec.key, "arguments": arguments}

    def _noted(self, error: ToolError) -> ToolError:
        if isinstance(error, results.GoneError):
            self._upstreams.list_again(self._origin.name)
        return error


def _client_of(context: Context) -> str:
    """Whose session it is, for sources with one for each client."""
    session = getattr(context.client, "session_id", "")
    return f"{context.caller.kind}:{context.caller.id}:{session}"


def _log(context: Context) -> Log:
    def tell(params: Mapping[str, Any]) -> None:
        level, data = params.get("level"), params.get("data")
        text = data if isinstance(data, str) else str(data)
        context.tell(text[:MOST_LOG], level if level in LEVELS else "info")

    return tell
