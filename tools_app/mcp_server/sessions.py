"""The sessions of the handshake era: each is a loop of its own that gets the requests with its session id.

Not the SDK's sessions: with those, a client that opens a session for every call locks out all others.
"""

from __future__ import annotations

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
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.streamable_http import GET_STREAM_KEY, MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tools_app import engine
from tools_app.mcp_server import exchange, presence
from tools_app.mcp_server.answering import Answer
from tools_app.mcp_server.changes import CAN_NOTIFY
from tools_app.mcp_server.conversation import RequestContext, connection_of
from tools_app.mcp_server.exchange import Exchange, Questions, is_taken
from tools_app.mcp_server.refusals import RequestRefused
from tools_app.models import Agent
from tools_app.sdk.context import Caller

log = logging.getLogger("tools_app.mcp")

SESSION_NOT_FOUND: Final = "Session not found"
# In the scope of the request that opens a session: the session and its caller.
_SESSION: Final = "toolhub.session"


@dataclass(eq=False)
class _Session:
    owner: str
    transport: StreamableHTTPServerTransport
    idle_seconds: float
    # From the handshake on.
    connection: Connection | None = None
    used_at: float = field(default_factory=monotonic)
    requests: int = 0
    # The connected agent as operators see it; set when the session is open.
    agent: engine.Presence | None = None
    # Ids of requests in progress, and the exchanges among them.
    ids: set[str] = field(default_factory=set)
    answers: dict[str, Answer] = field(default_factory=dict)
    questions: Questions = field(default_factory=Questions)

    @property
    def id(self) -> str:
        return str(self.transport.mcp_session_id)

    @contextmanager
    def busy(self, message: JSONRPCMessage | None) -> Iterator[None]:
        """No idle timeout meanwhile, and no other request with this id.

        Raises:
            RequestRefused: there is one in progress.
        """
        ids = {str(message.id)} if isinstance(message, JSONRPCRequest) else set()
        if ids & self.ids:
            raise RequestRefused.because(HTTPStatus.BAD_REQUEST, "A request with this id is still in progress")
        self.ids |= ids
        self.requests += 1
        self._not_idle_before(math.inf)
        try:
            yield
        finally:
            self.ids -= ids
            self.requests -= 1
            # Also if others are in progress: the SDK has set it at the end of its own last request.
            self._not_idle_before(math.inf if self.requests else anyio.current_time() + self.idle_seconds)

    def greeted(self) -> Connection:
        """The connection of a session whose handshake was successful."""
        assert self.connection is not None  # noqa: S101 – others do not get here
        return self.connection

    def _not_idle_before(self, deadline: float) -> None:
        self.used_at = monotonic()
        # The SDK does the same, but only for the requests that it handles.
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.deadline = deadline

    def follow(self, message: JSONRPCMessage | None) -> None:
        """Handle the cancellation of an exchange."""
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            answer = self.answers.get(str((message.params or {}).get("requestId")))
            if answer is not None:
                answer.cancel()


class Sessions:
    """All sessions of a process: at most `most`, each with an idle timeout of `idle_seconds`."""

    def __init__(self, most: int, idle_seconds: float) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._sessions: dict[str, _Session] = {}
        self._server: Server[Any]
        self._tasks: TaskGroup

    @asynccontextmanager
    async def run(self, server: Server[Any]) -> AsyncIterator[None]:
        """Allow sessions of `server` inside this context; they end with it."""
        self._server = server
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def serve(
        self, owner: str, message: JSONRPCMessage | None, caller: Caller, request: Request, receive: Receive, send: Send
    ) -> None:
        """Handle a request of a session, or one that opens a session.

        Raises:
            RequestRefused: the session does not exist or belongs to another owner.
        """
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        if session_id is None:
            if not isinstance(message, JSONRPCRequest) or message.method != "initialize":
                raise RequestRefused.because(HTTPStatus.BAD_REQUEST, "There is no session yet: begin with initialize")
            await self._open(owner, message, caller, request.scope, receive, send)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise RequestRefused.because(HTTPStatus.NOT_FOUND, SESSION_NOT_FOUND)
        session.follow(message)
        if session.agent is not None:
            presence.follow(session.agent, message)
        if session.questions.takes(message):
            await Response(status_code=HTTPStatus.ACCEPTED)(request.scope, receive, send)
            return
        if isinstance(message, JSONRPCRequest) and is_taken(message) and session.connection is not None:
            await self._exchange(session, message, request, receive, send)
            return
        with session.busy(message):
            await session.transport.handle_request(request.scope, receive, send)
        if session.transport.is_terminated:
            await self._end(session)

    async def _exchange(
        self, session: _Session, message: JSONRPCRequest, request: Request, receive: Receive, send: Send
    ) -> None:
        async def work(tell: exchange.Send) -> tuple[int, bytes]:
            one = Exchange(message, tell, session.questions, request)
            _, frame = await one.response(self._server, session.greeted)
            return HTTPStatus.OK, frame

        with session.busy(message):
            header = {MCP_SESSION_ID_HEADER.encode(): session.id.encode()}
            answer = session.answers[str(message.id)] = Answer(receive, send, header, leaves=False)
            try:
                await answer.run(work)
            finally:
                del session.answers[str(message.id)]

    async def _open(
        self, owner: str, message: JSONRPCRequest, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        await self._make_room(owner)
        transport = StreamableHTTPServerTransport(secrets.token_hex(16), idle_timeout=self._idle_seconds)
        session = self._sessions[str(transport.mcp_session_id)] = _Session(owner, transport, self._idle_seconds)
        scope[_SESSION] = session, caller
        try:
            await self._tasks.start(self._run, session)
            with session.busy(message):
                await transport.handle_request(scope, receive, send)
        finally:
            if session.connection is None:
                await self._end(session)

    def shake_hands(self, context: RequestContext, version: str) -> None:
        """Handle a successful `initialize`."""
        request: Any = context.request
        opening: tuple[_Session, Caller] | None = request.scope.get(_SESSION)
        if opening is not None:
            session, caller = opening
            session.connection = connection = connection_of(context)
            # Without it, the SDK drops what is sent.
            connection.state[CAN_NOTIFY] = lambda: GET_STREAM_KEY in session.transport._request_streams
            client = (context.params or {}).get("clientInfo")
            agent = presence.new_presence(Agent.Door.HTTP, caller, client, version, modern=False)
            session.agent = engine.arrived(agent)

    async def _make_room(self, newcomer: str) -> None:
        """LRU eviction: the owner with the most sessions loses the one unused longest.

        Raises:
            RequestRefused: that owner is the newcomer, and all its sessions are in use.
        """
        if len(self._sessions) < self._most:
            return
        owner, _ = Counter(session.owner for session in self._sessions.values()).most_common(1)[0]
        candidates = [session for session in self._sessions.values() if session.owner == owner]
        victim = min(candidates, key=lambda session: (session.requests > 0, session.used_at))
        if owner == newcomer and victim.requests:
            raise RequestRefused.because(HTTPStatus.SERVICE_UNAVAILABLE, "Too many sessions are open")
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
        session.questions.close()
        for answer in session.answers.values():
            answer.cancel()
        if session.agent is not None:
            engine.left(session.agent)
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()
