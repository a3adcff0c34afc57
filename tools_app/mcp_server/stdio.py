"""MCP over stdin and stdout: one client, from its first line until it disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_INFO_META_KEY,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_app import engine, models
from tools_app.mcp_server import exchange, frames, presence, server
from tools_app.mcp_server.changes import Changes, always
from tools_app.mcp_server.conversation import RequestContext, connection_of
from tools_app.mcp_server.exchange import Exchange, Questions, is_taken, modern_connection
from tools_app.mcp_server.opening import Opening
from tools_app.mcp_server.pipes import Pipes
from tools_app.sdk.context import Caller

# Together with the timeouts in `pipes` less than two seconds, after which clients kill the process.
CLOSE_SECONDS: Final = 0.5

# A client needs one. Each is an open request, which `pipes` limits.
MOST_LISTENING: Final = 16

# Delays of background work: an agent waits for the start.
LATER_SECONDS: Final = 60.0
# Until alerts are sent, and between two looks: most hubs have a server that does it.
TELL_SECONDS: Final = 10.0
SOON_SECONDS: Final = 0.5


async def serve(readable: int, writable: int, caller: Caller, opening: Opening | None = None) -> None:
    """Serve until the client closes its side, or until SIGTERM or SIGINT. `opening` refuses requests until ready."""
    engine.adopt_running_loop()
    loop = asyncio.get_running_loop()
    changes = Changes(always(caller), MOST_LISTENING)
    pipes = Pipes(on_leave=changes.close)
    peer = Peer(pipes, caller)
    mcp = server.build(changes, lambda _: caller, on_handshake=peer.shake_hands)
    peer.serve(mcp)
    await pipes.connect(readable, writable)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pipes.stop)
    if opening is not None:
        mcp.middleware.insert(0, opening.guard)
    tasks = [
        asyncio.create_task(_notify(changes, opening)),
        asyncio.create_task(_watch()),
        asyncio.create_task(_prune()),
        asyncio.create_task(_tell()),
    ]
    try:
        await mcp.run(pipes, pipes, mcp.create_initialization_options())
    finally:
        for task in tasks:
            task.cancel()
        peer.close()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await engine.close(CLOSE_SECONDS / 2)
        await pipes.close()


class Peer:
    """The client at the other end. Its first request decides its era."""

    def __init__(self, pipes: Pipes, caller: Caller) -> None:
        self._pipes = pipes
        self._caller = caller
        self._server: Server[Any]
        # Handshake era: the connection, from `initialize` on.
        self._connection: Connection | None = None
        # Whether the first request was of the modern era; None before it.
        self._is_modern: bool | None = None
        self._questions = Questions()
        self._presence: engine.Presence | None = None
        self._work: dict[RequestId, asyncio.Task[None]] = {}
        self._cancelled_ids: set[RequestId] = set()
        self._refusals: set[asyncio.Task[None]] = set()

    def serve(self, server: Server[Any]) -> None:
        self._server = server
        self._pipes.interceptor = self.takes

    def takes(self, message: JSONRPCMessage) -> bool:
        if self._presence is not None:
            presence.follow(self._presence, message)
        if not isinstance(message, JSONRPCRequest):
            self._cancel(message)
            return self._questions.takes(message)
        connection = self._connection_of(message)
        if connection is None or (message.id in self._work and not self._is_modern):
            return False
        if message.id in self._work:
            self._refusals.add(task := asyncio.create_task(self._refuse(message.id)))
            task.add_done_callback(self._refusals.discard)
            return True
        self._work[message.id] = asyncio.create_task(self._answer(message, connection))
        return True

    def shake_hands(self, context: RequestContext, version: str) -> None:
        """Handle a successful `initialize`."""
        self._connection = connection_of(context)
        self._arrive((context.params or {}).get("clientInfo"), version, modern=False)

    def close(self) -> None:
        self._questions.close()
        for work in self._work.values():
            work.cancel()

    def _connection_of(self, message: JSONRPCRequest) -> Callable[[], Connection] | None:
        """For an exchange; None: the SDK's dispatcher handles the request, and refuses it in the wrong era."""
        meta = (message.params or {}).get("_meta")
        is_enveloped = isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
        if self._is_modern is None:
            self._is_modern = is_enveloped and message.method != "initialize"
        if self._is_modern:
            # The SDK never sees an invalid request: its dispatcher would take its first one for the era.
            is_valid = is_enveloped and message.method != "initialize"
            return partial(self._modern, message) if is_taken(message) or not is_valid else None
        connection = self._connection
        if is_enveloped or not is_taken(message) or connection is None or not connection.initialize_accepted:
            return None
        return lambda: connection

    def _modern(self, message: JSONRPCRequest) -> Connection:
        if message.method == "initialize":
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS)}
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "This connection is of the modern era: no initialize", data)
        connection = modern_connection(message)
        if self._presence is None:
            client = (message.params or {})["_meta"].get(CLIENT_INFO_META_KEY)
            self._arrive(client, connection.protocol_version, modern=True)
        return connection

    def _arrive(self, client: Any, version: str, *, modern: bool) -> None:
        if self._presence is not None:
            engine.left(self._presence)
        agent = presence.new_presence(models.Agent.Door.STDIO, self._caller, client, version, modern=modern)
        self._presence = engine.arrived(agent)

    def _cancel(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled_id: Any = (message.params or {}).get("requestId")
            work = self._work.get(cancelled_id) if isinstance(cancelled_id, str | int) else None
            if work is not None and cancelled_id not in self._cancelled_ids:
                # A cancelled request gets no response.
                self._cancelled_ids.add(cancelled_id)
                exchange.cancel(work)

    async def _answer(self, message: JSONRPCRequest, connection: Callable[[], Connection]) -> None:
        try:
            questions = None if self._is_modern else self._questions
            _, frame = await Exchange(message, self._send, questions).response(self._server, connection)
            if message.id not in self._cancelled_ids:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await self._pipes.put(frame + b"\n", message.id)
        finally:
            self._work.pop(message.id, None)
            self._cancelled_ids.discard(message.id)

    async def _refuse(self, request_id: RequestId) -> None:
        """Not by the SDK's dispatcher, which would take its first request for the era of the connection."""
        error = ErrorData(code=INVALID_REQUEST, message="A request with this id is still in progress")
        with contextlib.suppress(anyio.BrokenResourceError):
            await self._send(frames.error(request_id, error))

    async def _send(self, frame: bytes) -> None:
        await self._pipes.put(frame + b"\n", None)


async def _notify(changes: Changes, opening: Opening | None) -> None:
    """Send change notifications until cancelled, beginning when the hub is ready."""
    if opening is not None:
        changes.is_ready = False
        await opening.look()
        changes.is_ready = True
    await changes.tell()


async def _watch() -> None:
    """Watch the tools directory until cancelled."""
    await asyncio.sleep(SOON_SECONDS)
    from tools_app.sources.watcher import Watcher

    watcher = Watcher()
    watcher.start()
    try:
        await asyncio.Event().wait()
    finally:
        # Without waiting for the thread, which may be executing a file.
        watcher.stop(0)


async def _tell() -> None:
    """Send alerts until cancelled, while no other process does."""
    await asyncio.sleep(TELL_SECONDS)
    from tools_app.alerts.sender import Sender

    # A hub with a server leaves this to the server, which looks more often.
    sender = Sender(look_seconds=TELL_SECONDS, first_seconds=0)
    sender.start()
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.get_running_loop().run_in_executor(None, sender.stop)


async def _prune() -> None:
    """Prune old records until cancelled."""
    await asyncio.sleep(LATER_SECONDS)
    from tools_app.journal import retention

    keeper = retention.Keeper(first_seconds=0)
    keeper.start()
    try:
        await asyncio.Event().wait()
    finally:
        # In a thread: it waits for a batch in progress.
        await asyncio.get_running_loop().run_in_executor(None, keeper.stop)
