"""The sessions of the handshake era: each is a loop of its own that gets the requests with its session id.

Not the SDK's sessions: with those, a client that opens a session for every call locks out all others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from tools_app import engine
from tools_app.mcp_server import answering, presence, shortcut
from tools_app.mcp_server.refusals import Refused
from tools_app.mcp_server.shortcut import ShortCut
from tools_app.models import Agent
from tools_app.sdk.context import Caller

log = logging.getLogger("tools_app.mcp")

UNKNOWN: Final = "Session not found"


@dataclass(eq=False)
class _Session:
    owner: str
    transport: StreamableHTTPServerTransport
    idle_seconds: float
    version: str
    used: float = field(default_factory=monotonic)
    requests: int = 0
    # Ids of open requests. The SDK would confuse the responses of two requests with the same id.
    ids: set[str] = field(default_factory=set)
    # Whether the client has sent notifications/initialized.
    ready: bool = False
    # The connected agent as operators see it; set when the session is open.
    agent: engine.Presence | None = None
    # Requests handled by the short cut, by request id.
    work: dict[str, answering.Work] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.transport.mcp_session_id)

    @contextmanager
    def busy(self, request_id: RequestId | None) -> Iterator[None]:
        """Raises: Refused, while another request with this id is open."""
        key = str(request_id)
        if request_id is not None and key in self.ids:
            raise Refused.because(HTTPStatus.BAD_REQUEST, "A request with this id is still in progress")
        if request_id is not None:
            self.ids.add(key)
        self.requests += 1
        self._not_idle_before(math.inf)
        try:
            yield
        finally:
            self.requests -= 1
            self.ids.discard(key)
            if not self.requests:
                self._not_idle_before(anyio.current_time() + self.idle_seconds)

    def _not_idle_before(self, when: float) -> None:
        self.used = monotonic()
        # The SDK does the same, but only for the requests that it handles.
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.deadline = when

    def follow(self, message: JSONRPCMessage | None) -> None:
        """Handle notifications about the session and about requests of the short cut."""
        if not isinstance(message, JSONRPCNotification):
            return
        if message.method == "notifications/initialized":
            self.ready = True
        elif message.method == "notifications/cancelled":
            work = self.work.get(str((message.params or {}).get("requestId")))
            if work is not None:
                work.cancel()

    def takes_short_cuts(self, scope: Scope) -> bool:
        versions = Headers(scope=scope).getlist(MCP_PROTOCOL_VERSION_HEADER)
        return self.ready and self.version in shortcut.VERSIONS and versions in ([], [self.version])


class Sessions:
    """All sessions of a process: at most `most`, each with an idle timeout of `idle_seconds`."""

    def __init__(self, server: Server[Any], short: ShortCut, most: int, idle_seconds: float) -> None:
        self._server = server
        self._short = short
        self._most = most
        self._idle_seconds = idle_seconds
        self._sessions: dict[str, _Session] = {}
        self._tasks: TaskGroup

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Allow sessions inside this context; they end with it."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def serve(
        self, owner: str, message: JSONRPCMessage | None, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Handle a request of a session, or one that opens a session.

        Raises:
            Refused: the session does not exist or belongs to another owner.
        """
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session_id is None:
            if not isinstance(message, JSONRPCRequest) or message.method != "initialize":
                raise Refused.because(HTTPStatus.BAD_REQUEST, "There is no session yet: begin with initialize")
            await self._open(owner, message, caller, scope, receive, send)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise Refused.because(HTTPStatus.NOT_FOUND, UNKNOWN)
        session.follow(message)
        if session.agent is not None:
            presence.follow(session.agent, message)
        plain = self._short.takes(message, caller, modern=False) if session.takes_short_cuts(scope) else None
        if plain is not None:
            with session.busy(plain.id):
                work = session.work[str(plain.id)] = asyncio.create_task(self._short.answer(plain, caller))
                try:
                    header = {MCP_SESSION_ID_HEADER.encode(): session.id.encode()}
                    await answering.respond(work, receive, send, header, leaves=False)
                finally:
                    del session.work[str(plain.id)]
                return
        await self._pass_on(session, message, scope, receive, send)
        if session.transport.is_terminated:
            await self._end(session)

    async def _open(
        self, owner: str, message: JSONRPCRequest, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        await self._make_room(owner)
        transport = StreamableHTTPServerTransport(secrets.token_hex(16), idle_timeout=self._idle_seconds)
        session = self._sessions[str(transport.mcp_session_id)] = _Session(
            owner, transport, self._idle_seconds, _version(message)
        )
        is_open = False

        async def tracked_send(answer: Message) -> None:
            nonlocal is_open
            is_open = is_open or answer.get("status") == HTTPStatus.OK
            await send(answer)

        try:
            await self._tasks.start(self._run, session)
            await self._pass_on(session, message, scope, receive, tracked_send)
        finally:
            if not is_open:
                await self._end(session)
        if session.id in self._sessions:
            client = (message.params or {}).get("clientInfo")
            agent = presence.introduced(Agent.Door.HTTP, caller, client, session.version, modern=False)
            session.agent = engine.arrived(agent)

    async def _pass_on(
        self, session: _Session, message: JSONRPCMessage | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        with session.busy(message.id if isinstance(message, JSONRPCRequest) else None):
            await session.transport.handle_request(scope, receive, send)

    async def _make_room(self, newcomer: str) -> None:
        """LRU eviction: the owner with the most sessions loses the one unused longest.

        Raises:
            Refused: that owner is the newcomer, and all its sessions are in use.
        """
        if len(self._sessions) < self._most:
            return
        owner, _ = Counter(session.owner for session in self._sessions.values()).most_common(1)[0]
        candidates = [session for session in self._sessions.values() if session.owner == owner]
        victim = min(candidates, key=lambda session: (session.requests > 0, session.used))
        if owner == newcomer and victim.requests:
            raise Refused.because(HTTPStatus.SERVICE_UNAVAILABLE, "Too many sessions are open")
        log.warning("session limit of %d reached: closing the least recently used session of %s", self._most, owner)
        await self._end(victim)

    async def _run(self, session: _Session, *, task_status: TaskStatus[None]) -> None:
        transport = session.transport
        try:
            async with transport.connect() as (incoming, outgoing):
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await serve_loop(self._server, incoming, outgoing, lifespan_state={}, session_id=session.id)
        except Exception:
            log.exception("a session failed")
        finally:
            await self._end(session)

    async def _end(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        if session.agent is not None:
            engine.left(session.agent)
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()


def _version(message: JSONRPCMessage) -> str:
    """The protocol version that the SDK negotiates for this `initialize` request."""
    requested = (message.params or {}).get("protocolVersion") if isinstance(message, JSONRPCRequest) else None
    return requested if requested in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
