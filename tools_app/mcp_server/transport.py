"""The SDK's side of MCP over HTTP: handles authenticated requests.

Clients of the handshake era have sessions if a single process serves. With several, a process could not find the
sessions of the others, so every request is stateless, as in the modern era.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)
from mcp_types import DEFAULT_NEGOTIATED_VERSION, HEADER_MISMATCH, JSONRPCMessage, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Receive, Send

from tools_app.base import conf, news
from tools_app.base.loops import post
from tools_app.catalog import catalog
from tools_app.mcp_server import exchange, server
from tools_app.mcp_server.answering import Answer
from tools_app.mcp_server.changes import Changes, CurrentCaller, RequestContext
from tools_app.mcp_server.exchange import Exchange, is_taken, modern_connection
from tools_app.mcp_server.gate import Visitor
from tools_app.mcp_server.presence import SessionlessClients
from tools_app.mcp_server.sessions import Sessions
from tools_app.sdk.context import Caller

_CALLER: Final = "toolhub.caller"
_VISITOR: Final = "toolhub.visitor"


class Transport:
    """Created on the server's event loop; runs until it is closed."""

    def __init__(self) -> None:
        most_sessions: int = conf.value("TOOLHUB_MCP_SESSIONS")
        self.has_sessions = most_sessions > 0
        self.leaving = asyncio.Event()
        self._changes = Changes(_current_caller)
        self._sessions = Sessions(most_sessions, conf.value("TOOLHUB_MCP_IDLE_SECONDS"))
        self._server = server.build(self._changes, _caller, self._sessions.shake_hands, tells=self.has_sessions)
        self._alone = StreamableHTTPSessionManager(self._server, stateless=True)
        self._loop = asyncio.get_running_loop()
        self._sessionless = SessionlessClients()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._closing = asyncio.Event()
        # Session tasks need a parent task that outlives the request.
        self._running = asyncio.create_task(self._run(), name="toolhub-mcp")

    async def ready(self) -> None:
        await asyncio.shield(self._started)

    def leave(self) -> None:
        post(self._loop, self._leave)

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
        """Raises: RequestRefused, when the session does not exist or belongs to another caller."""
        scope = request.scope
        scope[_VISITOR], scope[_CALLER] = visitor, caller
        modern = is_modern(request)
        if self.has_sessions and not modern:
            owner = f"{caller.id} {visitor.toolset or ''}"
            await self._sessions.serve(owner, message, caller, request, receive, send)
            return
        agent = self._sessionless.presence_of(caller, message, modern=modern)
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
        if not isinstance(message, JSONRPCRequest) or not is_taken(message):
            await self._alone.handle_request(request.scope, receive, send)
            return
        connection = partial(_modern_connection if modern else _handshake_connection, message, request, caller)

        async def work(tell: exchange.Send) -> tuple[int, bytes]:
            error, frame = await Exchange(message, tell, None, request).response(self._server, connection)
            # In the handshake era, responses with errors are OK, too.
            code = error.code if modern and error is not None else 0
            return ERROR_CODE_HTTP_STATUS.get(code, HTTPStatus.OK), frame

        await Answer(receive, send, {}, leaves=True).run(work)

    def _leave(self) -> None:
        self.leaving.set()
        news.of_hub().tell(news.ACCESS)  # Streams wait for that.
        self._changes.close()

    async def _run(self) -> None:
        try:
            async with self._alone.run(), self._sessions.run(self._server), anyio.create_task_group() as tasks:
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


def _handshake_connection(message: JSONRPCRequest, request: Request, caller: Caller) -> Connection:
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
    return Connection.from_envelope(version, None, None)


def _modern_connection(message: JSONRPCRequest, request: Request, caller: Caller) -> Connection:
    """Raises: MCPError, when the headers do not repeat what is in the message."""
    headers, params = dict(request.headers), message.params or {}
    if (name := find_duplicated_routing_header(request.headers.items())) is not None:
        raise MCPError(HEADER_MISMATCH, f"{name} header appears more than once")
    connection = modern_connection(message, headers)
    tool_name, arguments = params.get("name"), params.get("arguments", {})
    if message.method == "tools/call" and isinstance(tool_name, str) and isinstance(arguments, dict):
        entry = catalog.latest().seen_by(caller).find(tool_name)
        schema = entry.input_schema if entry is not None else {}
        if (rejection := validate_mcp_param_headers(schema, arguments, headers)) is not None:
            raise MCPError(rejection.code, rejection.message, rejection.data)
    return connection


def _caller(context: RequestContext) -> Caller:
    request: Any = context.request
    caller: Caller = request.scope[_CALLER]
    return caller


def _current_caller(context: RequestContext) -> CurrentCaller:
    request: Any = context.request
    visitor: Visitor = request.scope[_VISITOR]
    return visitor.caller
