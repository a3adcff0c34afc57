"""Change notifications to connected clients: lists, and resources that they subscribed to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
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
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from tools_app.base import conf, loops, news
from tools_app.catalog import catalog, listed, offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server.conversation import connection_of
from tools_app.models.revision import Numbers
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
FEWEST_SECONDS: Final = 0.02
MOST_SUBSCRIBED: Final = 256
# In the state of a connection: the snapshot at its handshake; whether it has ended; and, if it cannot always be sent
# to, a function that tells whether it can now.
_SNAPSHOT: Final = "toolhub.snapshot"
_ENDED: Final = "toolhub.ended"
CAN_NOTIFY: Final = "toolhub.can_notify"
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
    events: set[ServerEvent]
    last_state: State
    # Whether a notification would arrive. Until then, it stays pending.
    can_notify: Callable[[], bool] = lambda: True
    pending_events: set[ServerEvent] = field(default_factory=set)
    send_task: asyncio.Task[None] | None = None
    # Whether it did not read the last notification in time.
    is_slow: bool = False

    @property
    def is_due(self) -> bool:
        is_busy = self.send_task is not None and not self.send_task.done()
        return bool(self.pending_events) and not is_busy and self.can_notify()


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
        self._has_listeners = asyncio.Event()
        self._numbers: Numbers | None = None
        # Whether clients get their lists; until then, they are refused.
        self.is_ready = True
        # Resources that packs reported as changed.
        self._uris: set[str] = set()

    async def remember(self, context: RequestContext) -> None:
        """Handshake era: remember what there is now, before the client can list any of it.

        It is compared with once the client has joined. A state that was read only then could already contain a change
        after the client's first list, which would never be told.
        """
        with suppress(StorageBusyError):
            connection_of(context).state[_SNAPSHOT] = await catalog.fresh()

    async def join(self, context: RequestContext, _: NotificationParams) -> None:
        """Handshake era: notify the client, which is ready now, until it disconnects."""
        await self._listener_of(context)

    async def subscribe(self, context: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        """Handshake era: subscribe to changes of a resource."""
        from tools_app.mcp_server import resources

        listener = await self._listener_of(context)
        event = ResourceUpdated(params.uri)
        caller = await listener.current_caller()
        snapshot = await catalog.fresh()
        if not resources.can_change(params.uri, snapshot.seen_by(caller), caller):
            raise resources.not_found(params.uri, context.protocol_version)
        if len(listener.events) >= MOST_SUBSCRIBED + len(LISTS):
            raise MCPError(INVALID_PARAMS, f"At most {MOST_SUBSCRIBED} resources can be subscribed to at once")
        if event not in listener.events:
            listener.last_state |= await _state(snapshot, caller, [event])
            listener.events.add(event)
        return EmptyResult()

    async def unsubscribe(self, context: RequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
        listener = self._listeners.get(id(connection_of(context)))
        if listener is not None:
            event = ResourceUpdated(params.uri)
            listener.events.discard(event)
            listener.pending_events.discard(event)
            listener.last_state.pop(event, None)
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
            accepted = await _accepted_part(params.notifications, current_caller)
            self._add(id(stream), await self._listener(current_caller, bus.publish, _events(accepted)))
            return await stream(context, params.model_copy(update={"notifications": accepted}))
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

        def on_change(uri: str) -> None:
            loops.post(loop, self._note, uri)

        unwatch = resource.watch(on_change)
        try:
            await self._tell()
        finally:
            unwatch()

    async def _tell(self) -> None:
        trouble = False
        while True:
            await self._has_listeners.wait()
            seen = news.of_hub().told()
            try:
                await self._look()
                trouble = False
            except StorageBusyError as error:
                self._numbers = None
                if not trouble:
                    log.warning("cannot look for changes: %s", error.detail)
                trouble = True
            except Exception:
                self._numbers = None
                log.exception("looking for changes failed")
            # Changes that follow each other quickly are looked at together.
            await asyncio.sleep(FEWEST_SECONDS)
            await news.of_hub().wait(conf.value("TOOLHUB_WATCH_SECONDS") * (TROUBLE_TIMES if trouble else 1), seen)

    async def _listener_of(self, context: RequestContext) -> _Listener:
        connection = connection_of(context)
        if id(connection) not in self._listeners:
            # Before it is waited for: the connection may end meanwhile.
            connection.exit_stack.callback(self._leave, connection)
            first: Snapshot | None = connection.state.pop(_SNAPSHOT, None)
            listener = await self._listener(self._caller_of(context), _sender(connection), LISTS, first)
            if _ENDED in connection.state:
                raise MCPError(CONNECTION_CLOSED, "Connection closed")
            if id(connection) not in self._listeners:
                listener.can_notify = connection.state.get(CAN_NOTIFY, listener.can_notify)
                self._add(id(connection), listener)
        return self._listeners[id(connection)]

    async def _listener(self, *parts: Any) -> _Listener:
        """A client that began before the hub was ready is notified, also if its lists could be read meanwhile."""
        is_ready = self.is_ready
        listener = await _listener(*parts)
        if not is_ready:
            listener.last_state = {}
        return listener

    def _leave(self, connection: Connection) -> None:
        connection.state[_ENDED] = True
        self._listeners.pop(id(connection), None)

    def _add(self, key: int, listener: _Listener) -> None:
        self._listeners[key] = listener
        self._numbers = None
        self._has_listeners.set()

    def _note(self, uri: str) -> None:
        """Handle a pack's report that a resource has changed."""
        event = ResourceUpdated(uri)
        if any(event in listener.events for listener in self._listeners.values()):
            self._uris.add(uri)

    async def _look(self) -> None:
        """Notify the clients whose state has changed. Changes during a notification are sent after it."""
        if not self._listeners:
            self._has_listeners.clear()
            return
        snapshot = await catalog.fresh()
        numbers = catalog.numbers()
        uris, self._uris = self._uris, set()
        if numbers != self._numbers or uris:
            # Set before the loop: a client that joins during it resets this to None, so that it gets checked next time.
            if self._numbers is not None and numbers.access != self._numbers.access:
                news.of_hub().tell(news.ACCESS)  # For those who wait where the database does not notify.
            self._numbers = numbers
            try:
                for listener in list(self._listeners.values()):
                    await _notice(listener, snapshot, uris)
            except BaseException:
                self._uris |= uris
                raise
        for listener in list(self._listeners.values()):
            if listener.is_due:
                events, listener.pending_events = listener.pending_events, set()
                # In a task of its own: a client that does not read must not delay the others.
                listener.send_task = asyncio.create_task(_send(listener, events))


async def _listener(
    current_caller: CurrentCaller,
    send: Callable[[ServerEvent], Awaitable[None]],
    subscription: Iterable[ServerEvent],
    first: Snapshot | None = None,
) -> _Listener:
    """`first` is the snapshot with which the client began; without it, it begins with the current one."""
    events = set(subscription)
    try:
        last_state = await _state(first or await catalog.fresh(), await current_caller(), events)
    except ToolError as error:
        log.warning("the state of a client's subscriptions cannot be read yet: %r", error)
        last_state = {}
    return _Listener(current_caller, send, events, last_state)


async def _notice(listener: _Listener, snapshot: Snapshot, uris: set[str]) -> None:
    """Mark the changes that a client must be notified of."""
    try:
        caller = await listener.current_caller()
        state = await _state(snapshot, caller, list(listener.events))
    except StorageBusyError:
        raise
    except ToolError:
        return  # Its key is no longer valid: it gets no notifications, and its stream is about to end.
    state = {event: now for event, now in state.items() if event in listener.events}
    listener.pending_events |= {event for event, now in state.items() if listener.last_state.get(event) != now}
    listener.pending_events |= {event for event in map(ResourceUpdated, uris) if state.get(event)}
    listener.last_state |= state


async def _state(snapshot: Snapshot, caller: Caller, subscribed_events: Iterable[ServerEvent]) -> State:
    """The current state of each event; empty for what this caller cannot see."""
    view = snapshot.seen_by(caller)
    state: State = {}
    for event in subscribed_events:
        match event:
            case ToolsListChanged():
                state[event] = listed.digest(view)
            case PromptsListChanged():
                state[event] = offers.of(view).prompts_digest
            case ResourcesListChanged():
                state[event] = offers.of(view).resources_digest
            case ResourceUpdated(uri):
                # Imported at first use, here and below: few clients subscribe, and all wait for the start.
                from tools_app.mcp_server import resources

                state[event] = await resources.state(uri, view, caller)
    return state


async def _accepted_part(subscription: SubscriptionFilter, current_caller: CurrentCaller) -> SubscriptionFilter:
    """The accepted part of a subscription: only resources that the caller can read and that can change."""
    uris = list(dict.fromkeys(subscription.resource_subscriptions or ()))
    if not uris:
        return subscription
    if len(uris) > MOST_SUBSCRIBED:
        raise MCPError(INVALID_PARAMS, f"At most {MOST_SUBSCRIBED} resources can be subscribed to at once")
    from tools_app.mcp_server import resources

    caller = await current_caller()
    view = (await catalog.fresh()).seen_by(caller)
    readable = [uri for uri in uris if resources.can_change(uri, view, caller)]
    return subscription.model_copy(update={"resource_subscriptions": readable})


def _events(accepted: SubscriptionFilter) -> set[ServerEvent]:
    flags = (accepted.tools_list_changed, accepted.prompts_list_changed, accepted.resources_list_changed)
    lists = {event for event, is_subscribed in zip(LISTS, flags, strict=True) if is_subscribed}
    return lists | {ResourceUpdated(uri) for uri in accepted.resource_subscriptions or ()}


def _sender(connection: Connection) -> Callable[[ServerEvent], Awaitable[None]]:
    """Not through the session of a request, which would stay in memory as long as the connection."""

    async def send(event: ServerEvent) -> None:
        match event:
            case ToolsListChanged():
                await connection.notify("notifications/tools/list_changed", None)
            case PromptsListChanged():
                await connection.notify("notifications/prompts/list_changed", None)
            case ResourcesListChanged():
                await connection.notify("notifications/resources/list_changed", None)
            case ResourceUpdated(uri):
                await connection.notify("notifications/resources/updated", {"uri": uri})

    return send


async def _send(listener: _Listener, events: set[ServerEvent]) -> None:
    unsent = set(events)
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            for event in events:
                await listener.send(event)
                unsent.discard(event)
    except TimeoutError:
        # It does not read now. What it missed is sent when it does.
        listener.pending_events |= unsent
        if not listener.is_slow:
            log.warning("a client does not read: it will be notified of changes later")
        listener.is_slow = True
    except Exception as error:
        log.warning("a client could not be notified of changes: %r", error)
    else:
        listener.is_slow = False
