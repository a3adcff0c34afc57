"""The sessions of the handshake era: each a loop of its own, fed by the requests that name it.

The SDK has sessions too, but there a client that begins one for every call shuts everybody else out.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp_types import JSONRPCMessage, JSONRPCRequest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from tools_app.mcp_server.refusals import Refused

log = logging.getLogger("tools_app.mcp")

UNKNOWN: Final = "Session not found"


@dataclass(eq=False)
class _Session:
    owner: str
    transport: StreamableHTTPServerTransport
    used: float = field(default_factory=monotonic)
    requests: int = 0
    # Of the requests under way. The SDK would give the answer of one to another with the same id.
    ids: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return str(self.transport.mcp_session_id)


class Sessions:
    """At most `most` at once. Unused for `idle_seconds`, one ends."""

    def __init__(self, server: Server[Any], most: int, idle_seconds: float) -> None:
        self._server = server
        self._most = most
        self._idle_seconds = idle_seconds
        self._sessions: dict[str, _Session] = {}
        self._tasks: TaskGroup

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Inside this there can be sessions; at its end they end."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def serve(
        self, owner: str, message: JSONRPCMessage | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a session, or one that opens a session.

        Raises:
            Refused: there is no such session, or none for this owner.
        """
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session_id is None:
            if not isinstance(message, JSONRPCRequest) or message.method != "initialize":
                raise Refused.because(HTTPStatus.BAD_REQUEST, "There is no session yet: begin with initialize")
            await self._open(owner, message, scope, receive, send)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise Refused.because(HTTPStatus.NOT_FOUND, UNKNOWN)
        await self._pass_on(session, message, scope, receive, send)
        if session.transport.is_terminated:
            await self._end(session)

    async def _open(self, owner: str, message: JSONRPCMessage, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make_room(owner)
        transport = StreamableHTTPServerTransport(secrets.token_hex(16), idle_timeout=self._idle_seconds)
        session = self._sessions[str(transport.mcp_session_id)] = _Session(owner, transport)
        opened = False

        async def noticed(answer: Message) -> None:
            nonlocal opened
            opened = opened or answer.get("status") == HTTPStatus.OK
            await send(answer)

        try:
            await self._tasks.start(self._run, session)
            await self._pass_on(session, message, scope, receive, noticed)
        finally:
            if not opened:
                await self._end(session)

    async def _pass_on(
        self, session: _Session, message: JSONRPCMessage | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request_id = str(message.id) if isinstance(message, JSONRPCRequest) else None
        if request_id in session.ids:
            raise Refused.because(HTTPStatus.BAD_REQUEST, "A request with this id is still under way")
        if request_id is not None:
            session.ids.add(request_id)
        session.requests += 1
        session.used = monotonic()
        try:
            await session.transport.handle_request(scope, receive, send)
        finally:
            session.requests -= 1
            session.used = monotonic()
            if request_id is not None:
                session.ids.discard(request_id)

    async def _make_room(self, newcomer: str) -> None:
        """Whoever has most sessions loses the one that is unused longest.

        Raises:
            Refused: that would be the newcomer, who needs them all.
        """
        if len(self._sessions) < self._most:
            return
        owner, _ = Counter(session.owner for session in self._sessions.values()).most_common(1)[0]
        theirs = [session for session in self._sessions.values() if session.owner == owner]
        victim = min(theirs, key=lambda session: (session.requests > 0, session.used))
        if owner == newcomer and victim.requests:
            raise Refused.because(HTTPStatus.SERVICE_UNAVAILABLE, "Too many sessions are open")
        log.warning("there are %d sessions: %s loses the one unused longest", self._most, owner)
        await self._end(victim)

    async def _run(self, session: _Session, *, task_status: TaskStatus[None]) -> None:
        transport = session.transport
        try:
            async with transport.connect() as (incoming, outgoing):
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await serve_loop(self._server, incoming, outgoing, lifespan_state={}, session_id=session.id)
        except Exception:
            log.exception("a session broke")
        finally:
            await self._end(session)

    async def _end(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()
