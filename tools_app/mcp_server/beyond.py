"""Prompts, resources and completions: everything that agents can request apart from tools.

Most agents never do, so the modules are imported at the first request: it keeps the start short.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp_types import (
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from tools_app import engine
from tools_app.catalog.entry import Entry
from tools_app.engine import Result
from tools_app.mcp_server.changes import Changes, RequestContext
from tools_app.mcp_server.conversation import Conversation
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.offered import typed
from tools_app.sdk.questions import Ask

# Method → type of its parameters, module and function of the handler.
_METHODS: Final[dict[str, tuple[type[RequestParams], str, str]]] = {
    "prompts/list": (PaginatedRequestParams, "prompts", "list_prompts"),
    "prompts/get": (GetPromptRequestParams, "prompts", "get_prompt"),
    "resources/list": (PaginatedRequestParams, "resources", "list_resources"),
    "resources/templates/list": (PaginatedRequestParams, "resources", "list_templates"),
    "resources/read": (ReadResourceRequestParams, "resources", "read_resource"),
    "completion/complete": (CompleteRequestParams, "completions", "complete"),
    "skills/list": (PaginatedRequestParams, "skills", "list_skills"),
    "skills/get": (ReadResourceRequestParams, "skills", "get_skill"),
}
# Declared, as `skills/list` and `skills/get` are answered. https://github.com/modelcontextprotocol/ext-skills
SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
# The parameters that identify the request, to which answers to its questions are bound.
_ABOUT: Final = ("name", "arguments", "uri")


@dataclass(frozen=True, slots=True)
class Requester:
    """The caller of a request, its protocol revision, and the client that running code can ask questions."""

    caller: Caller
    version: str
    client: Conversation

    async def run(self, entry: Entry, texts: Mapping[str, str]) -> Result | Ask:
        """Run a prompt or resource of a pack.

        Raises:
            ToolError
        """
        spec = entry.spec
        arguments = typed(spec, texts)
        return await engine.call(spec.address, arguments, self.caller, door="mcp", client=self.client, kind=spec.kind)


def serve(server: Server[Any], changes: Changes, caller_of: Callable[[RequestContext], Caller], *, tells: bool) -> None:
    """Register the handlers. `tells`: clients of the handshake era can receive change notifications."""
    for method, (params, module, name) in _METHODS.items():
        server.add_request_handler(method, params, _later(f"{__package__}.{module}", name, caller_of))
    server.extensions[SKILLS_EXTENSION] = {}
    if tells:
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, changes.subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, changes.unsubscribe)


def _later(
    module: str, name: str, caller_of: Callable[[RequestContext], Caller]
) -> Callable[[RequestContext, Any], Awaitable[Any]]:
    async def answer(context: RequestContext, params: Any) -> Any:
        caller = caller_of(context)
        about = [context.method, {key: (context.params or {}).get(key) for key in _ABOUT}]
        client = Conversation(context, caller, about)
        client.check()
        try:
            requester = Requester(caller, context.protocol_version, client)
            answer = await getattr(importlib.import_module(module), name)(requester, params)
            return client.result(answer) if isinstance(answer, Ask) else answer
        except InputRequiredError as error:
            if (refusal := client.refusal(error)) is not None:
                raise refusal from error
            raise
        finally:
            await client.end()

    return answer
