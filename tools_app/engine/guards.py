"""Rate limits for callers, and a circuit breaker and a bulkhead for each upstream.

Where TOOLHUB_REDIS_URL is set, all processes of the hub count together, and know of the same circuit breakers. Where it
is not, and while Redis does not answer, each counts for itself: with several processes the limits add up.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.base import conf, shared
from tools_app.base.counters import Counters
from tools_app.base.scripts import ENTER, LEAVE
from tools_app.sdk.errors import RateLimitError, ToolError
from tools_app.sdk.hub_errors import CircuitOpenError, OverloadedError
from tools_app.sdk.policies import Breaker, Circuit, Rate

MOST_BUCKETS: Final = 10_000
# How often the first call that waits asks whether another process has left a place.
ASK_SECONDS: Final = 0.05
# For how long a place of all processes is held at most, if its call has no deadline.
LONGEST_SECONDS: Final = 120.0
# Until the end of a call is known to Redis.
GRACE_SECONDS: Final = 1.0

Clock = Callable[[], float]


def in_words(processes: int) -> str:
    """The effective limits of the hub, given that every process counts for itself."""
    running = conf.value("TOOLHUB_UPSTREAM_RUNNING") * processes
    text = f"{running:,} calls of one upstream at once"
    if calls := conf.value("TOOLHUB_RATE_CALLS"):
        text += f", {calls * processes:,} calls of a tool by one caller in {conf.value('TOOLHUB_RATE_SECONDS'):,} s"
    return text


class Guards:
    """Rate limits by caller and tool; a circuit breaker and a bulkhead by upstream."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._counters = Counters("tool", MOST_BUCKETS, clock)
        self._upstreams: dict[str, Upstream] = {}

    async def count(self, caller: str, tool: str, rate: Rate | None) -> None:
        """Count a call against its limit.

        Raises:
            RateLimitError: the caller has exhausted it.
        """
        if rate is None:
            return
        if wait := (await self._counters.take(f"{caller}\n{tool}", rate)).wait:
            raise RateLimitError(
                f"Rate limit exceeded: at most {rate.most} calls of {tool} in {rate.seconds:g} seconds",
                context={"limit": rate.most, "windowSeconds": rate.seconds},
                retry_after=round(wait + 0.05, 1),
                next_step="Wait that long, and call less often.",
            )

    def state(self, name: str) -> dict[str, Any]:
        """The state of the circuit breaker and the bulkhead of an upstream, as this process has seen it."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            return {"name": name, "circuit": Circuit.CLOSED, "running": 0, "waiting": 0}
        circuit = upstream.breaker.state(self._clock())
        running, waiting = upstream.running - upstream.asking, len(upstream.waiting) + upstream.asking
        return {"name": name, "circuit": circuit, "running": running, "waiting": waiting}

    def upstream(self, name: str) -> Upstream:
        upstream = self._upstreams.get(name)
        if upstream is None:
            upstream = self._upstreams[name] = Upstream(
                name, conf.value("TOOLHUB_UPSTREAM_RUNNING"), conf.value("TOOLHUB_UPSTREAM_WAITING"), self._clock
            )
        return upstream

    async def aclose(self) -> None:
        """Wait until the places of ended calls are returned."""
        for upstream in self._upstreams.values():
            await asyncio.gather(*upstream.returning)


@dataclass(slots=True)
class Upstream:
    """The circuit breaker and the bulkhead of one upstream. Used on one event loop."""

    name: str
    most_running: int
    most_waiting: int
    clock: Clock
    breaker: Breaker = field(default_factory=Breaker)
    running: int = 0
    waiting: OrderedDict[asyncio.Future[None], None] = field(default_factory=OrderedDict)
    # Calls with a place in this process that wait for one of all processes; one of them asks at a time.
    asking: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    was_left: asyncio.Event = field(default_factory=asyncio.Event)
    returning: set[asyncio.Task[None]] = field(default_factory=set)

    async def enter(self, seconds: float = LONGEST_SECONDS) -> Place:
        """Wait for a place among the running calls (bulkhead), for a call with this time limit. First in, first out.

        Raises:
            CircuitOpenError: the circuit breaker is open.
            OverloadedError: the queue is full (backpressure).
        """
        self._refuse_while_open()
        if self.running < self.most_running and not self.waiting:
            self.running += 1
        else:
            await self._wait()
        try:
            place = await self._enter_shared(seconds)
            if place is None:
                # After waiting, the circuit may have opened; and only a call that really starts may be the probe.
                self._admit()
                place = Place(self, self.breaker.opened_at is not None)
        except BaseException:
            self._leave()
            raise
        return place

    async def _enter_shared(self, seconds: float) -> Place | None:
        """A place among the calls of all processes, which lapses with the call. None: Redis does not answer.

        Raises:
            CircuitOpenError
        """
        if not shared.of_hub().is_used():
            return None
        lease = secrets.token_hex(8)
        # Redis may have given it also if the answer does not arrive here.
        place = Place(self, probe=False, lease=lease, lapses_at=self.clock() + seconds + GRACE_SECONDS)
        self.asking += 1
        try:
            async with self.turn:
                if await self._ask(place):
                    return place
            self._return(place)
            return None
        except asyncio.CancelledError:
            self._return(place)
            raise
        finally:
            self.asking -= 1

    async def _ask(self, place: Place) -> bool:
        """Ask until there is a place. False: Redis does not answer."""
        while True:
            self.was_left.clear()
            milliseconds = max(1, round(1000 * (place.lapses_at - self.clock())))
            arguments = (self.most_running, place.lease, milliseconds, self.breaker.rest)
            answer = await shared.of_hub().run(ENTER, self.keys, *arguments)
            if answer is None:
                return False
            state, since, wait = answer[0].decode(), float(answer[1]), float(answer[2])
            if state == "full":
                with suppress(TimeoutError):
                    async with asyncio.timeout(ASK_SECONDS * (0.5 + random.random())):  # noqa: S311 – not a secret
                        await self.was_left.wait()
                continue
            self._mirror(since if state != "in" else None)
            if state == "open":
                raise CircuitOpenError.of(self.name, since, wait)
            if state == "probe":
                place.probe, self.breaker.probing_since = True, self.clock()
            return True

    def _return(self, place: Place) -> None:
        """Return a place of all processes, with the outcome of its call, without waiting for it."""
        task = asyncio.get_running_loop().create_task(self._return_shared(place))
        self.returning.add(task)
        task.add_done_callback(self.returning.discard)

    async def _return_shared(self, place: Place) -> None:
        breaker, redis = self.breaker, shared.of_hub()
        numbers = (breaker.consecutive, breaker.share, breaker.enough, breaker.window, breaker.rest)
        answer = await redis.run(LEAVE, self.keys, place.lease, place.outcome, *numbers)
        if answer is None:
            place.count()
            # What has been counted here is not counted there, too; but a probe decides for all.
            outcome = place.outcome if place.probe else ""
            redis.insist(place.lapses_at - self.clock(), LEAVE, self.keys, place.lease, outcome, *numbers)
        else:
            self._mirror(float(answer[1]) if answer[0] == b"open" else None)
        self.was_left.set()

    def _mirror(self, since: float | None) -> None:
        """What all processes know of the circuit, for when Redis does not answer. `since`: for how long it is open."""
        self.breaker.opened_at = None if since is None else self.clock() - since
        self.breaker.probing_since = None
        self.breaker.in_a_row = 0

    @property
    def keys(self) -> tuple[str, str]:
        return shared.name("circuit", self.name), shared.name("places", self.name)

    async def _wait(self) -> None:
        if len(self.waiting) >= self.most_waiting:
            raise OverloadedError.of(self.name, self.running, len(self.waiting))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # Race condition: the place was assigned at the moment of the cancellation.
            raise
        finally:
            self.waiting.pop(turn, None)

    def _leave(self) -> None:
        """Pass the place to the call that has waited longest."""
        while self.waiting:
            turn, _ = self.waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1

    def _refuse_while_open(self) -> None:
        now = self.clock()
        opened_at = self.breaker.opened_at
        if opened_at is not None and now - opened_at < self.breaker.rest:
            raise CircuitOpenError.of(self.name, now - opened_at, opened_at + self.breaker.rest - now)

    def _admit(self) -> None:
        now = self.clock()
        if (wait := self.breaker.admit(now)) is not None:
            raise CircuitOpenError.of(self.name, now - (self.breaker.opened_at or now), wait)


@dataclass(slots=True)
class Place:
    """A place in the bulkhead of an upstream, held until the call has really ended."""

    upstream: Upstream
    probe: bool
    # The name of the place among those of all processes; empty: this process decided alone.
    lease: str = ""
    # When Redis takes it back by itself.
    lapses_at: float = 0.0
    # "good" or "bad"; empty if the call says nothing about the upstream.
    outcome: str = ""
    is_left: bool = False

    def succeeded(self) -> None:
        self._report("good")

    def failed(self, error: ToolError) -> None:
        """The call failed: through the upstream, or with an error that shows that the upstream responds."""
        self._report("bad" if error.blames_upstream else "good")

    def leave(self) -> None:
        """The call has ended. Without a reported outcome it says nothing about the upstream."""
        if self.is_left:
            return
        self.is_left = True
        self.upstream._leave()
        if self.lease:
            self.upstream._return(self)
        elif not self.outcome:
            self.count()

    def _report(self, outcome: str) -> None:
        if self.outcome or self.is_left:
            return
        self.outcome = outcome
        if not self.lease:
            self.count()

    def count(self) -> None:
        """Count the outcome in this process."""
        breaker, now = self.upstream.breaker, self.upstream.clock()
        # A call that began before the circuit opened says nothing about the present state.
        if not self.probe and breaker.opened_at is not None:
            return
        if self.outcome:
            (breaker.succeeded if self.outcome == "good" else breaker.failed)(now)
        elif self.probe:
            breaker.abandoned()
