"""One open connection to an MCP server: negotiated, with raw requests. Entered and left by one task.

The SDK negotiates, and answers what the server asks. Requests of callers go directly over the transport. The only
module that uses a private name of the SDK's client: `ClientSession._stamp`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tools_app.sdk import traces
from tools_app.sdk.errors import ToolError, shortened
from tools_app.sdk.questions import InputRequired
from tools_app.sdk.traces import Span
from tools_app.upstream.http import OLD_TRANSPORT, HttpTransport
from tools_app.upstream.wire import FIRST_KEY, Broken, Fate, Outcome, Transport

Log = Callable[[Mapping[str, Any]], None]
Progress = Callable[[float, float | None, str], None]
Answer = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
# Between the last error of a connection and its end.
END_SECONDS: Final = 0.2
_CLIENT: Final = types.Implementation(name="toolhub", version="1")
# Statuses with which servers of the handshake era answer what they do not know.
_UNKNOWN: Final = frozenset({400, 404, 405, 406, 415, 422})
_CHANGES: Final = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
_LISTENS: Final = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@dataclass
class PendingRequest:
    """A request of a caller: what the caller hears meanwhile, and what becomes of it."""

    # Seconds that the caller still has. Cancelling the request is up to the caller.
    remaining: Callable[[], float]
    progress: Progress | None = None
    log: Log | None = None
    # Answers a question of the server: its method and params.
    answer: Answer | None = None
    # `no`, `maybe` or `yes`; and the connection that it took.
    sent: str = "no"
    session: str = ""


class _Dispatcher(JSONRPCDispatcher):
    """The connection ends with its loop."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport.reads, transport.writes)
        self._transport = transport

    async def run(self, *arguments: Any, **options: Any) -> None:
        try:
            await super().run(*arguments, **options)
        finally:
            self._transport.finish()


@dataclass(eq=False)
class Link:
    """An open connection."""

    transport: Transport
    client: ClientSession
    # Called when the server says that its lists have changed.
    on_change: Callable[[], None]
    # Requests of callers without an answer.
    waiting: dict[RequestId, PendingRequest] = field(default_factory=dict)
    # Set whenever there are none.
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    is_doubted: bool = False
    _keys: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_KEY))

    @property
    def version(self) -> str:
        return self.client.protocol_version or ""

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, method: str, params: Mapping[str, Any], pending: PendingRequest) -> dict[str, Any]:
        """The raw result of a caller's request, however long it takes.

        Raises:
            Broken: there is no answer; or it could not be sent within the caller's time.
            MCPError: the answer is an error.
        """
        key, fate = self._next()
        self.waiting[key] = pending
        self.quiet.clear()
        try:
            with traces.client(method) as span:
                self._describe(span, key, method, params)
                result = await self._send(key, fate, method, params, pending)
                if result.get("isError") is True:
                    span.fail("tool_error")
                return result
        except MCPError:
            fate.sent = "yes"
            raise
        finally:
            pending.sent = fate.sent
            del self.waiting[key]
            if not self.waiting:
                self.quiet.set()

    def _describe(self, span: Span, key: int, method: str, params: Mapping[str, Any]) -> None:
        if not span.is_sampled:
            return
        place = self.transport.place
        span.set("mcp.method.name", method)
        span.set("mcp.protocol.version", self.version)
        span.set("jsonrpc.request.id", str(key))
        span.set("network.transport", "tcp" if place else "pipe")
        if place:
            span.set("network.protocol.name", "http")
            span.set("server.address", place[0])
            span.set("server.port", place[1])
        span.prefix = method
        if method == "tools/call":
            span.set("gen_ai.operation.name", "execute_tool")
            span.resolve("tool", params["name"])
        elif method == "prompts/get":
            span.resolve("prompt", params["name"])

    async def request(self, method: str, params: Mapping[str, Any], seconds: float | None) -> dict[str, Any]:
        """The raw result of a request of the hub.

        Raises:
            Broken, MCPError, TimeoutError
        """
        key, fate = self._next()
        async with asyncio.timeout(seconds):
            return await self._send(key, fate, method, params)

    async def listen(self) -> None:
        """In the modern era: hold a stream of changes open. Returns when the server ends it."""
        await self.request("subscriptions/listen", {"notifications": _LISTENS}, None)

    def _next(self) -> tuple[int, Fate]:
        key = next(self._keys)
        fate = self.transport.fates[key] = Fate()
        return key, fate

    async def _send(
        self, key: int, fate: Fate, method: str, params: Mapping[str, Any], pending: PendingRequest | None = None
    ) -> dict[str, Any]:
        data: dict[str, Any] = {"method": method, "params": {**params, "_meta": {**params.get("_meta", {})}}}
        options: CallOptions = {}
        self.client._stamp(data, options)
        meta = data["params"]["_meta"]
        if pending is not None and pending.log is not None and self.is_modern:
            meta.setdefault(LOG_LEVEL_META_KEY, "info")
        if pending is not None and pending.progress is not None:
            meta["progressToken"] = key
        if pending is not None:
            traces.carry(meta)
        if not meta:
            del data["params"]["_meta"]
        transport, loop = self.transport, asyncio.get_running_loop()
        fate.answer = loop.create_future()
        # A caller without time is cancelled. This is about requests that could not even be sent.
        timer = loop.call_later(max(0.0, pending.remaining()), fate.expire) if pending is not None else None
        try:
            if transport.ended.is_set():
                raise Broken(transport.end or "the connection has ended")
            transport.send(key, fate, method, data["params"], options.get("headers") or {})
            outcome = await fate.answer
        except ValueError as error:
            raise Broken(f"the request cannot be written as JSON: {shortened(str(error))}") from None
        except BaseException:
            fate.answer.cancel()
            if options.get("cancel_on_abandon", True):
                transport.give_up(key, fate)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            del transport.fates[key]
        return await self._result(fate, outcome)

    async def _result(self, fate: Fate, outcome: Outcome) -> dict[str, Any]:
        if not isinstance(outcome, ErrorData):
            fate.sent = "yes"
            return outcome
        if fate.failure:
            raise fate.broken()
        if outcome.code == CONNECTION_CLOSED and await self._has_ended():
            # The supervisor of children says more than the end of its stream.
            reason = "" if outcome.message == "Connection closed" else shortened(outcome.message)
            raise Broken(reason or self.transport.end or "the connection ended", sent=fate.sent)
        raise MCPError(code=outcome.code, message=outcome.message, data=outcome.data)

    async def _has_ended(self) -> bool:
        """Whether that error was the end of the connection: servers use its code for others as well."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.transport.ended.wait()
        return self.transport.ended.is_set()

    def heard(self, method: str, params: Mapping[str, Any], related: RequestId | None) -> None:
        if method in _CHANGES:
            self.on_change()
        elif method == "notifications/progress":
            self._progressed(params)
        elif method == "notifications/message":
            # A pipe does not say which request a message belongs to: only a single one can be meant.
            if related is None and len(self.waiting) == 1:
                related = next(iter(self.waiting))
            pending = self.waiting.get(related) if related is not None else None
            if pending is not None and pending.log is not None:
                pending.log(params)

    def _progressed(self, params: Mapping[str, Any]) -> None:
        token, done, total = params.get("progressToken"), params.get("progress"), params.get("total")
        message = params.get("message")
        pending = self.waiting.get(coerce_request_id(token)) if isinstance(token, int | str) else None
        if pending is None or pending.progress is None or not isinstance(done, int | float):
            return
        text = message if isinstance(message, str) else ""
        pending.progress(float(done), float(total) if isinstance(total, int | float) else None, text)

    async def question(self, method: str, params: Any, kind: type[Any]) -> Any:
        """The answer to a question of the handshake era, which does not say which call it belongs to."""
        pending = next(iter(self.waiting.values())) if len(self.waiting) == 1 else None
        if pending is None or pending.answer is None:
            return types.ErrorData(code=INVALID_REQUEST, message="There is not exactly one call that this can be about")
        wire = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params is not None else {}
        try:
            return kind.model_validate(await pending.answer(method, wire))
        except (ToolError, InputRequired, ValidationError):
            # A client that answers by repeating the call cannot answer while it runs.
            return types.ErrorData(code=INVALID_REQUEST, message="The client cannot answer this")


@asynccontextmanager
async def opened(
    transport: Transport,
    *,
    era: str,
    seconds: float,
    on_change: Callable[[], None],
    declares: frozenset[str] = frozenset(),
) -> AsyncIterator[Link]:
    """Connect over a transport. `era`: the version that was negotiated before, if known. `declares`: the capabilities
    that are declared to the server.

    Raises:
        Broken: the server cannot be reached, or is none that the hub can use. May be in an exception group.
    """
    async with transport:
        dispatcher = _Dispatcher(transport)

        async def elicit(_: Any, params: Any) -> Any:
            return await link.question("elicitation/create", params, types.ElicitResult)

        async def sample(_: Any, params: Any) -> Any:
            return await link.question("sampling/createMessage", params, types.CreateMessageResult)

        async def roots(_: Any) -> Any:
            return await link.question("roots/list", None, types.ListRootsResult)

        # What is missing is not declared.
        callbacks: dict[str, Any] = {
            "elicitation_callback": elicit if "elicitation" in declares else None,
            "sampling_callback": sample if "sampling" in declares else None,
            "list_roots_callback": roots if "roots" in declares else None,
        }
        client = ClientSession(dispatcher=dispatcher, client_info=_CLIENT, **callbacks)
        link = Link(transport, client, on_change)
        transport.heard = link.heard
        async with client:
            try:
                async with asyncio.timeout(seconds):
                    await _negotiate(client, transport, era)
            except TimeoutError:
                raise Broken(f"it did not answer within {seconds:.0f} s") from None
            yield link


def unwrapped(error: BaseException) -> BaseException:
    """The first cause in exception groups, which anyio makes of every exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Unsupported(Exception):
    """The server does not speak the handshake era."""


async def _negotiate(client: ClientSession, transport: Transport, era: str) -> None:
    """Find out the era: the modern one if the server speaks it. A known era is tried first.

    Raises:
        Broken
    """
    is_legacy = era in HANDSHAKE_PROTOCOL_VERSIONS
    if not is_legacy and await _discover(client, transport):
        return
    try:
        await _initialize(client, transport)
    except _Unsupported as error:
        # It speaks only the modern era by now; or was slow, and took the probe for the beginning of such a connection.
        if not await _discover(client, transport):
            raise Broken(f"it speaks no version of MCP that this hub speaks ({shortened(str(error))})") from None


async def _discover(client: ClientSession, transport: Transport) -> bool:
    try:
        raw = await client.send_discover(LATEST_MODERN_VERSION)
    except MCPError as error:
        _check(transport, error)
        return False
    try:
        result = types.DiscoverResult.model_validate(raw)
    except ValidationError:
        return False
    if not any(version in MODERN_PROTOCOL_VERSIONS for version in result.supported_versions):
        return False
    client.adopt(result)
    return True


async def _initialize(client: ClientSession, transport: Transport) -> None:
    try:
        await client.initialize()
    except MCPError as error:
        if error.error.code == UNSUPPORTED_PROTOCOL_VERSION:
            raise _Unsupported(error.error.message) from None
        _check(transport, error)
        if isinstance(transport, HttpTransport) and await transport.speaks_old_transport():
            raise Broken(OLD_TRANSPORT) from None
        reason = transport.opening.failure or f"it refuses the handshake: {shortened(error.error.message)}"
        needs_sign_in = transport.opening.needs_sign_in
        raise Broken(reason, status=transport.opening.status, needs_sign_in=needs_sign_in) from None
    except ValidationError:
        # Its message would quote what was sent.
        raise Broken("its answer to the handshake is not valid") from None
    except RuntimeError as error:
        raise Broken(shortened(str(error))) from None


def _check(transport: Transport, error: MCPError) -> None:
    """Raises: Broken, if the error says nothing about the era: the server cannot be reached, or refuses everybody."""
    fate = transport.opening
    if error.error.code == CONNECTION_CLOSED and transport.end:
        raise Broken(transport.end) from None
    if fate.failure and fate.status not in _UNKNOWN:
        raise fate.broken() from None
