"""The SDK's side of MCP over HTTP: handles authenticated requests.

Clients of the handshake era have sessions if a single process serves. With several, a process could not find the
sessions of the others, so every request is stateless, as in the modern era.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import JSONRPCMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from starlette.requests import Request
from starlette.types import Receive, Send

from tools_app.base import conf
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import NOTHING, Snapshot
from tools_app.mcp_server import answering, server
from tools_app.mcp_server.changes import Changes, CurrentCaller, RequestContext
from tools_app.mcp_server.gate import Visitor
from tools_app.mcp_server.presence import Passing
from tools_app.mcp_server.sessions import Sessions
from tools_app.mcp_server.shortcut import Plain, ShortCut
from tools_app.sdk.context import Caller

_CALLER: Final = "toolhub.caller"
_VISITOR: Final = "toolhub.visitor"
_view: ContextVar[Snapshot] = ContextVar("seen", default=NOTHING)


class Transport:
    """Created on the server's event loop; runs until it is closed."""

    def __init__(self) -> None:
        most_sessions: int = conf.value("TOOLHUB_MCP_SESSIONS")
        self.has_sessions = most_sessions > 0
        self.leaving = asyncio.Event()
        self._changes = Changes(_current_caller)
        self._server = server.build(self._changes, _caller, tells=self.has_sessions, schema_of=_schema)
        self._alone = StreamableHTTPSessionManager(self._server, stateless=True)
        self._short = ShortCut(self._server.server_info_stamp)
        self._sessions = Sessions(self._server, self._short, most_sessions, conf.value("TOOLHUB_MCP_IDLE_SECONDS"))
        self._loop = asyncio.get_running_loop()
        self._passing = Passing()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._closing = asyncio.Event()
        # Session tasks need a parent task that outlives the request.
        self._running = asyncio.create_task(self._run(), name="toolhub-mcp")

    async def ready(self) -> None:
        await asyncio.shield(self._started)

    def leave(self) -> None:
        self._loop.call_soon_threadsafe(self._leave)

    async def close(self) -> None:
        self._closing.set()
        await asyncio.wait((self._running,))

    async def answer(
        self,
        message: JSONRPCMessage | None,
        request: Request,
        visitor: Visitor,
        caller: Caller,
        receive: Receive,
        send: Send,
    ) -> None:
        """Raises: Refused, when the session does not exist or belongs to another caller."""
        scope = request.scope
        scope[_VISITOR], scope[_CALLER] = visitor, caller
        modern = is_modern(request)
        if self.has_sessions and not modern:
            owner = f"{caller.id} {visitor.toolset or ''}"
            await self._sessions.serve(owner, message, caller, scope, receive, send)
            return
        agent = self._passing.seen(caller, message, modern=modern)
        if agent is not None:
            agent.busy += 1
        try:
            await self._answer_alone(message, request, caller, receive, send, modern=modern)
        finally:
            if agent is not None:
                agent.busy -= 1

    async def _answer_alone(
        self,
        message: JSONRPCMessage | None,
        request: Request,
        caller: Caller,
        receive: Receive,
        send: Send,
        *,
        modern: bool,
    ) -> None:
        """Handle a request without a session."""
        if modern:
            plain = self._short.takes(message, caller, modern=True)
            if plain is not None and _headers_match(plain, request) and not self._short.wants_headers(plain, caller):
                work = asyncio.create_task(self._short.answer(plain, caller))
                await answering.respond(work, receive, send, {}, leaves=True)
                return
        _view.set((await catalog.fresh()).seen_by(caller))
        await self._alone.handle_request(request.scope, receive, send)

    def _leave(self) -> None:
        self.leaving.set()
        self._changes.close()

    async def _run(self) -> None:
        try:
            async with self._alone.run(), self._sessions.run(), anyio.create_task_group() as tasks:
                tasks.start_soon(self._changes.tell)
                self._started.set_result(None)
                await self._closing.wait()
                tasks.cancel_scope.cancel()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)


def is_modern(request: Request) -> bool:
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


def _headers_match(plain: Plain, request: Request) -> bool:
    """Whether the MCP headers match the body: each once, not encoded, and without parameters."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        if name.startswith("mcp-") and (name in headers or name.startswith("mcp-param-")):
            return False
        headers[name] = value
    name = headers.get("mcp-name", "")
    return (
        headers.get("mcp-method") == plain.method
        and headers.get("mcp-protocol-version") == LATEST_MODERN_VERSION
        and (name == plain.name and not name.startswith("=?"))
    )


def _caller(context: RequestContext) -> Caller:
    request: Any = context.request
    caller: Caller = request.scope[_CALLER]
    return caller


def _current_caller(context: RequestContext) -> CurrentCaller:
    request: Any = context.request
    visitor: Visitor = request.scope[_VISITOR]
    return visitor.caller


def _schema(name: str) -> Mapping[str, Any] | None:
    """The input schema of a tool, if the current caller can see it."""
    entry = _view.get().find(name)
    return entry.input_schema if entry is not None and entry.tool is not None else None
