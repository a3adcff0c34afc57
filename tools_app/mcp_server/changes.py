"""Tells connected clients that the list of tools has changed, in the way of their era."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import NotificationParams

from tools_app import catalog
from tools_app.catalog import Snapshot
from tools_app.tool import Caller

log = logging.getLogger("tools_app.mcp")

PATIENCE_SECONDS: Final = 5.0


class Changes:
    """Made on the server's event loop; `tell` does the work until it is cancelled.

    All its clients are one caller's: they are told of what changes for it. `most_listening` bounds the subscriptions
    that are open at once, over all of them.
    """

    def __init__(self, caller: Caller, most_listening: int = 1024) -> None:
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._sessions: dict[int, ServerSession] = {}
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus, max_subscriptions=most_listening)

    async def join(self, context: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        """A client of the handshake era is ready: from now on it is told, until it leaves."""
        # The session is made anew for every message; only the connection behind it lasts, and the SDK hides it.
        connection = context.session._connection
        if id(connection) not in self._sessions:
            self._sessions[id(connection)] = context.session
            connection.exit_stack.callback(self._sessions.pop, id(connection), None)

    def note(self, _: Snapshot) -> None:
        """Something visible has changed. Called by the watcher, from its thread."""
        with contextlib.suppress(RuntimeError):  # The loop has ended, and everybody has left.
            self._loop.call_soon_threadsafe(self._changed.set)

    async def tell(self) -> None:
        watcher = catalog.Watcher(self.note, caller=self._caller)
        watcher.start(await _seen())
        try:
            while True:
                await self._changed.wait()
                # Whatever changes while we are telling makes one more round, not one for each change.
                self._changed.clear()
                await self._announce()
        finally:
            # In a thread: it may have to wait for the database.
            await self._loop.run_in_executor(None, watcher.stop)

    async def _announce(self) -> None:
        await self._bus.publish(ToolsListChanged())
        for session in list(self._sessions.values()):
            try:
                with anyio.fail_after(PATIENCE_SECONDS):
                    await session.send_tool_list_changed()
            except Exception as error:
                log.warning("a client could not be told that the list of tools has changed: %r", error)


async def _seen() -> Snapshot | None:
    """What clients that connect now are shown. Changes after it are told."""
    try:
        return await catalog.fresh()
    except Exception as error:
        log.warning("the tools cannot be read yet: %r", error)
        return None
