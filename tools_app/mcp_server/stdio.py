"""MCP over stdin and stdout: one client, from its first line until it disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any, Final

import anyio
from mcp_types import (
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import LATEST_MODERN_VERSION

from tools_app import engine
from tools_app.mcp_server import presence, server
from tools_app.mcp_server.changes import Changes, always
from tools_app.mcp_server.opening import Opening
from tools_app.mcp_server.pipes import Pipes
from tools_app.mcp_server.shortcut import VERSIONS, Plain, ShortCut
from tools_app.models import Agent
from tools_app.sdk.context import Caller

# Together with the timeouts in `pipes` less than two seconds, after which clients kill the process.
CLOSE_SECONDS: Final = 0.5

# A client needs one. Each is an open request, which `pipes` limits.
MOST_LISTENING: Final = 16

# Delays of background work: an agent waits for the start.
LATER_SECONDS: Final = 60.0
SOON_SECONDS: Final = 0.5


async def serve(readable: int, writable: int, caller: Caller, opening: Opening | None = None) -> None:
    """Serve until the client closes its side, or until SIGTERM or SIGINT. `opening` refuses requests until ready."""
    engine.adopt_running_loop()
    loop = asyncio.get_running_loop()
    changes = Changes(always(caller), MOST_LISTENING)
    served = server.build(changes, lambda _: caller)
    pipes = Pipes(leaving=changes.close)
    pipes.aside = aside = Aside(pipes, ShortCut(served.server_info_stamp), caller, opening)
    await pipes.connect(readable, writable)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pipes.stop)
    if opening is not None:
        served.middleware.insert(0, opening.guard)
    tasks = [
        asyncio.create_task(_notify(changes, opening)),
        asyncio.create_task(_watch()),
        asyncio.create_task(_prune()),
    ]
    try:
        await served.run(pipes, pipes, served.create_initialization_options())
    finally:
        for task in tasks:
            task.cancel()
        aside.close()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await engine.close(CLOSE_SECONDS / 2)
        await pipes.close()


class Aside:
    """Handles the plain requests of a client, after the SDK has negotiated the protocol with it."""

    def __init__(self, pipes: Pipes, short: ShortCut, caller: Caller, opening: Opening | None = None) -> None:
        self._pipes = pipes
        self._opening = opening
        self._short = short
        self._caller = caller
        self._version = ""
        self._ready = False
        # The request that negotiates the protocol: its id, and the modern version if it asks for that.
        self._settling: tuple[RequestId, str] | None = None
        self._client: Any = None
        self._agent: engine.Presence | None = None
        self._work: dict[RequestId, asyncio.Task[None]] = {}
        self._cancelled: set[RequestId] = set()

    def takes(self, message: JSONRPCMessage) -> bool:
        if self._agent is not None:
            presence.follow(self._agent, message)
        if not self._ready:
            self._negotiate(message)
            return False
        if isinstance(message, JSONRPCNotification):
            self._cancel(message)
            return False
        if isinstance(message, JSONRPCRequest) and (message.method == "initialize" or message.id in self._work):
            self._ready = False
            return False
        if self._opening is not None and self._opening.refuses:
            return False
        plain = self._short.takes(message, self._caller, modern=self._version == LATEST_MODERN_VERSION)
        if plain is None:
            return False
        self._work[plain.id] = asyncio.create_task(self._answer(plain))
        return True

    def sent(self, message: JSONRPCMessage) -> None:
        """Called with each message that the SDK sends."""
        if self._settling is None or not isinstance(message, JSONRPCResponse) or message.id != self._settling[0]:
            return
        modern = self._settling[1] == LATEST_MODERN_VERSION
        self._version = LATEST_MODERN_VERSION if modern else message.result.get("protocolVersion", "")
        self._ready, self._settling = modern, None
        if self._agent is not None:
            engine.left(self._agent)
        agent = presence.introduced(Agent.Door.STDIO, self._caller, self._client, self._version, modern=modern)
        self._agent = engine.arrived(agent)

    def close(self) -> None:
        for work in self._work.values():
            work.cancel()

    def _negotiate(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            meta = (message.params or {}).get("_meta") or {}
            if message.method == "initialize":
                self._settling = message.id, ""
                self._client = (message.params or {}).get("clientInfo")
            elif isinstance(meta, dict) and meta.get(PROTOCOL_VERSION_META_KEY) == LATEST_MODERN_VERSION:
                self._settling = message.id, LATEST_MODERN_VERSION
                self._client = meta.get(CLIENT_INFO_META_KEY)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/initialized":
            self._ready = self._version in VERSIONS

    def _cancel(self, message: JSONRPCNotification) -> None:
        cancelled = (message.params or {}).get("requestId")
        if message.method == "notifications/cancelled" and isinstance(cancelled, str | int):
            work = self._work.get(cancelled)
            if work is not None:
                # A cancelled request gets no response.
                self._cancelled.add(cancelled)
                work.cancel()

    async def _answer(self, plain: Plain) -> None:
        try:
            _, frame = await self._short.answer(plain, self._caller)
            if plain.id not in self._cancelled:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await self._pipes.put(frame + b"\n", plain.id)
        finally:
            self._work.pop(plain.id, None)
            self._cancelled.discard(plain.id)


async def _notify(changes: Changes, opening: Opening | None) -> None:
    """Send change notifications until cancelled, beginning when the hub is ready."""
    if opening is not None:
        await opening.look()
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
