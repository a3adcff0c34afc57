"""Change notifications to connected clients: lists, and resources that they subscribed to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from tools_app.base import conf
from tools_app.catalog import catalog, listed, offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server.conversation import connection_of
from tools_app.sdk import resource
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import RateLimitError, ToolError
from tools_app.sdk.hub_errors import OverloadedError, StorageBusyError

log = logging.getLogger("tools_app.mcp")

RequestContext: TypeAlias = ServerRequestContext[Any, Any]
# Looks the caller up each time: what a key can see may change while its client is connected.
CurrentCaller: TypeAlias = Callable[[], Awaitable[Caller]]
# Events that a client subscribed to, each with a digest of the state that the client was last notified of.
State: TypeAlias = dict[ServerEvent, str]

PATIENCE_SECONDS: Final = 5.0
TROUBLE_TIMES: Final = 10
MOST_SUBSCRIBED: Final = 256
LISTS: Final[tuple[ServerEvent, ...]] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())


def always(caller: Caller) -> Callable[[RequestContext], CurrentCaller]:
    """For a server with a single caller."""

    async def current_caller() -> Caller:
        return caller

    return lambda _: current_caller


@dataclass(eq=False)
class _Listener:
    """A client with its subscriptions, their last known state, and the notifications that are due."""

    current_caller: CurrentCaller
    send: Callable[[ServerEvent], Awaitable[None]]
    wanted: set[ServerEvent]
    seen: State
    due: set[ServerEvent] = field(default_factory=set)
    telling: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self.telling is not None and not self.telling.done()


class Changes:
    """Notifies each client of changes that its caller can see. `tell` runs until it is cancelled.

    `most_listening` limits the open subscriptions of all clients, `most_of_one` those of one caller.
    """

    def __init__(
        self, caller_of: Callable[[RequestContext], CurrentCaller], most_listening: int = 700, most_of_one: int = 100
    ) -> None:
        self._caller_of = caller_of
        self._most_listening = most_listening
        self._most_of_one = most_of_one
        self._listeners: dict[int, _Listener] = {}
        # Open streams → caller ids.
        self._streams: dict[ListenHandler, str] = {}
        self._somebody = asyncio.Event()
        self._snapshot: Snapshot | None = None
        # Resources that packs reported as changed.
        self._uris: set[str] = set()

    async def join(self, context: RequestContext, _: NotificationParams) -> None:
        """Handshake era: notify the client, which is ready now, until it disconnects."""
        await self._joined(context)

    async def subscribe(self, context: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        """Handshake era: subscribe to changes of a resource."""
        from tools_app.mcp_server import resources

        listener = await self._joined(context)
        event = ResourceUpdated(params.uri)
        caller = await listener.current_caller()
        snapshot = await catalog.fresh()
        if not resources.can_change(params.uri, snapshot.seen_by(caller), caller):
            raise resources.not_found(params.uri, context.protocol_version)
        if len(listener.wanted) >= MOST_SUBSCRIBED + len(LISTS):
            raise MCPError(INVALID_PARAMS, f"At most {MOST_SUBSCRIBED} resources can be subscribed to at once")
        if event not in listener.wanted:
            listener.seen |= await _state(snapshot, caller, [event])
            listener.wanted.add(event)
        return EmptyResult()

    async def unsubscribe(self, context: RequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
        listener = self._listeners.get(id(connection_of(context)))
        if listener is not None:
            event = ResourceUpdated(params.uri)
            listener.wanted.discard(event)
            listener.due.discard(event)
            listener.seen.pop(event, None)
        return EmptyResult()

    async def listen(
        self, context: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Modern era: send notifications on the stream of this request until the client closes it."""
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        current_caller = self._caller_of(context)
        caller = await current_caller()
        self._check_room(caller)
        self._streams[stream] = caller.id
        try:
            chosen = await _honoured(params.notifications, current_caller)
            self._add(id(stream), await _listener(current_caller, bus.publish, _events(chosen)))
            return await stream(context, params.model_copy(update={"notifications": chosen}))
        finally:
            self._listeners.pop(id(stream), None)
            del self._streams[stream]

    def _check_room(self, caller: Caller) -> None:
        """Raises: OverloadedError, RateLimitError."""
        if list(self._streams.values()).count(caller.id) >= self._most_of_one:
            raise RateLimitError(
                f"Too many subscriptions: a caller can have at most {self._most_of_one} open",
                context={"limit": self._most_of_one},
                next_step="Close some of them, or combine them into one subscription.",
            )
        if len(self._streams) >= self._most_listening:
            raise OverloadedError(
                f"Too many subscriptions: the hub can have at most {self._most_listening} open",
                context={"limit": self._most_listening},
                next_step="Try again later.",
            )

    def close(self) -> None:
        """End every subscription properly, so that clients know that it was intended."""
        for stream in list(self._streams):
            stream.close()

    async def tell(self) -> None:
        loop = asyncio.get_running_loop()

        def changed(uri: str) -> None:
            loop.call_soon_threadsafe(self._note, uri)

        unwatch = resource.watch(changed)
        try:
            await self._tell()
        finally:
            unwatch()

    async def _tell(self) -> None:
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

    async def _joined(self, context: RequestContext) -> _Listener:
        connection = connection_of(context)
        if id(connection) not in self._listeners:
            listener = await _listener(self._caller_of(context), _sender(context.session), LISTS)
            if id(connection) not in self._listeners:
                connection.exit_stack.callback(self._listeners.pop, id(connection), None)
                self._add(id(connection), listener)
        return self._listeners[id(connection)]

    def _add(self, key: int, listener: _Listener) -> None:
        self._listeners[key] = listener
        self._snapshot = None
        self._somebody.set()

    def _note(self, uri: str) -> None:
        """Handle a pack's report that a resource has changed."""
        event = ResourceUpdated(uri)
        if any(event in listener.wanted for listener in self._listeners.values()):
            self._uris.add(uri)

    async def _look(self) -> None:
        """Notify the clients whose state has changed. Changes during a notification are sent after it."""
        if not self._listeners:
            self._somebody.clear()
            return
        snapshot = await catalog.fresh()
        uris, self._uris = self._uris, set()
        if snapshot is not self._snapshot or uris:
            # Set before the loop: a client that joins during it resets this to None, so that it gets checked next time.
            self._snapshot = snapshot
            try:
                for listener in list(self._listeners.values()):
                    await _notice(listener, snapshot, uris)
            except BaseException:
                self._uris |= uris
                raise
        for listener in list(self._listeners.values()):
            if listener.due and not listener.busy:
                events, listener.due = listener.due, set()
                # In a task of its own: a client that does not read must not delay the others.
                listener.telling = asyncio.create_task(_send(listener, events))


async def _listener(
    current_caller: CurrentCaller, send: Callable[[ServerEvent], Awaitable[None]], wanted: Iterable[ServerEvent]
) -> _Listener:
    events = set(wanted)
    try:
        seen = await _state(await catalog.fresh(), await current_caller(), events)
    except ToolError as error:
        log.warning("the state of a client's subscriptions cannot be read yet: %r", error)
        seen = {}
    return _Listener(current_caller, send, events, seen)


async def _notice(listener: _Listener, snapshot: Snapshot, uris: set[str]) -> None:
    """Mark the changes that a client must be notified of."""
    try:
        caller = await listener.current_caller()
        state = await _state(snapshot, caller, list(listener.wanted))
    except StorageBusyError:
        raise
    except ToolError:
        return  # Its key is no longer valid: it gets no notifications, and its stream is about to end.
    state = {event: now for event, now in state.items() if event in listener.wanted}
    listener.due |= {event for event, now in state.items() if listener.seen.get(event) != now}
    listener.due |= {event for event in map(ResourceUpdated, uris) if state.get(event)}
    listener.seen |= state


async def _state(snapshot: Snapshot, caller: Caller, wanted: Iterable[ServerEvent]) -> State:
    """The current state of each event; empty for what this caller cannot see."""
    view = snapshot.seen_by(caller)
    state: State = {}
    for event in wanted:
        match event:
            case ToolsListChanged():
                state[event] = listed.digest(view)
            case PromptsListChanged():
                state[event] = offers.of(view, caller.reach).prompts_digest
            case ResourcesListChanged():
                state[event] = offers.of(view, caller.reach).resources_digest
            case ResourceUpdated(uri):
                # Imported at first use, here and below: few clients subscribe, and all wait for the start.
                from tools_app.mcp_server import resources

                state[event] = await resources.state(uri, view, caller)
    return state


async def _honoured(requested: SubscriptionFilter, current_caller: CurrentCaller) -> SubscriptionFilter:
    """The accepted part of a subscription: only resources that the caller can read and that can change."""
    uris = list(dict.fromkeys(requested.resource_subscriptions or ()))
    if not uris:
        return requested
    if len(uris) > MOST_SUBSCRIBED:
        raise MCPError(INVALID_PARAMS, f"At most {MOST_SUBSCRIBED} resources can be subscribed to at once")
    from tools_app.mcp_server import resources

    caller = await current_caller()
    view = (await catalog.fresh()).seen_by(caller)
    readable = [uri for uri in uris if resources.can_change(uri, view, caller)]
    return requested.model_copy(update={"resource_subscriptions": readable})


def _events(chosen: SubscriptionFilter) -> set[ServerEvent]:
    flags = (chosen.tools_list_changed, chosen.prompts_list_changed, chosen.resources_list_changed)
    lists = {event for event, wanted in zip(LISTS, flags, strict=True) if wanted}
    return lists | {ResourceUpdated(uri) for uri in chosen.resource_subscriptions or ()}


def _sender(session: ServerSession) -> Callable[[ServerEvent], Awaitable[None]]:
    async def send(event: ServerEvent) -> None:
        match event:
            case ToolsListChanged():
                await session.send_tool_list_changed()
            case PromptsListChanged():
                await session.send_prompt_list_changed()
            case ResourcesListChanged():
                await session.send_resource_list_changed()
            case ResourceUpdated(uri):
                await session.send_resource_updated(uri)

    return send


async def _send(listener: _Listener, events: set[ServerEvent]) -> None:
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            for event in events:
                await listener.send(event)
    except Exception as error:
        log.warning("a client could not be notified of changes: %r", error)
