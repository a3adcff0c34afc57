"""Tells connected clients that the list of tools has changed, in the way of their era."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, NotificationParams, SubscriptionsListenRequestParams, SubscriptionsListenResult

from tools_app import catalog, conf
from tools_app.catalog import Snapshot
from tools_app.errors import StorageBusyError, ToolError
from tools_app.mcp_server.connections import connection_of
from tools_app.tool import Caller

log = logging.getLogger("tools_app.mcp")

RequestContext: TypeAlias = ServerRequestContext[Any, Any]
# Who somebody is at the moment when it is asked: what a key may see can change while its client is connected.
Asked: TypeAlias = Callable[[], Awaitable[Caller]]

PATIENCE_SECONDS: Final = 5.0
TROUBLE_TIMES: Final = 10


def always(caller: Caller) -> Callable[[RequestContext], Asked]:
    """For a server that has one caller only."""

    async def asked() -> Caller:
        return caller

    return lambda _: asked


@dataclass(eq=False)
class _Listener:
    """A client that wants to know, and what it could see when it was last told."""

    asked: Asked
    tell: Callable[[], Awaitable[None]]
    seen: str | None
    telling: asyncio.Task[None] | None = None


class Changes:
    """Every client is told of what changes for its caller, and of nothing else. `tell` does it until it is cancelled.

    `most_listening` bounds the subscriptions that are open at once, over all clients.
    """

    def __init__(self, caller_of: Callable[[RequestContext], Asked], most_listening: int = 1024) -> None:
        self._caller_of = caller_of
        self._most_listening = most_listening
        self._listeners: dict[int, _Listener] = {}
        self._streams: set[ListenHandler] = set()
        self._somebody = asyncio.Event()
        self._snapshot: Snapshot | None = None

    async def join(self, context: RequestContext, _: NotificationParams) -> None:
        """A client of the handshake era is ready: from now on it is told, until it leaves."""
        connection = connection_of(context)
        if id(connection) not in self._listeners:
            connection.exit_stack.callback(self._listeners.pop, id(connection), None)
            self._add(id(connection), await self._listener(context, context.session.send_tool_list_changed))

    async def listen(
        self, context: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """A client of the modern era subscribes: it is told on the stream of this request, until it ends that."""
        if len(self._streams) >= self._most_listening:
            raise MCPError(INTERNAL_ERROR, "Too many subscriptions are open")
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        listener = await self._listener(context, lambda: bus.publish(ToolsListChanged()))
        self._streams.add(stream)
        try:
            self._add(id(stream), listener)
            return await stream(context, params)
        finally:
            self._listeners.pop(id(stream), None)
            self._streams.discard(stream)

    def close(self) -> None:
        """End every subscription, and let its client know that it was meant."""
        for stream in list(self._streams):
            stream.close()

    async def tell(self) -> None:
        trouble = False
        while True:
            await self._somebody.wait()
            try:
                await self._look()
                trouble = False
            except StorageBusyError as error:
                self._snapshot = None
                if not trouble:
                    log.warning("cannot look for changes: %s", error.detail)
                trouble = True
            except Exception:
                self._snapshot = None
                log.exception("looking for changes failed")
            await asyncio.sleep(conf.value("TOOLHUB_WATCH_SECONDS") * (TROUBLE_TIMES if trouble else 1))

    async def _listener(self, context: RequestContext, tell: Callable[[], Awaitable[None]]) -> _Listener:
        asked = self._caller_of(context)
        try:
            seen = await _digest(await catalog.fresh(), asked)
        except ToolError as error:
            log.warning("what a client sees cannot be read yet: %r", error)
            seen = None
        return _Listener(asked, tell, seen)

    def _add(self, key: int, listener: _Listener) -> None:
        self._listeners[key] = listener
        self._snapshot = None
        self._somebody.set()

    async def _look(self) -> None:
        """Tell whoever sees something else now. What changes while somebody is being told is told after that."""
        if not self._listeners:
            self._somebody.clear()
            return
        snapshot = await catalog.fresh()
        if snapshot is self._snapshot:
            return
        # Set before it is true: whoever joins while others are looked after takes it away again.
        self._snapshot = snapshot
        for listener in list(self._listeners.values()):
            if listener.telling is not None and not listener.telling.done():
                self._snapshot = None
                continue
            seen = await _digest(snapshot, listener.asked)
            if seen is not None and seen != listener.seen:
                listener.seen = seen
                # In a task of its own: whoever does not read keeps nobody else waiting.
                listener.telling = asyncio.create_task(_told(listener))


async def _told(listener: _Listener) -> None:
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            await listener.tell()
    except Exception as error:
        log.warning("a client could not be told that the list of tools has changed: %r", error)


async def _digest(snapshot: Snapshot, asked: Asked) -> str | None:
    try:
        return snapshot.seen_by(await asked()).digest
    except StorageBusyError:
        raise
    except ToolError:
        return None  # Its key holds no more: it is told nothing, and its stream is about to end.
