"""Keeps callers and upstreams from being too much for each other.

What is counted here is counted in this process: with several processes the limits add up. Nothing outside this module
knows how it is kept, so that a store shared by all can take its place.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.base import conf
from tools_app.sdk.errors import RateLimitError, ToolError
from tools_app.sdk.hub_errors import CircuitOpenError, OverloadedError
from tools_app.sdk.policies import Breaker, Buckets, Circuit, Rate

MOST_BUCKETS: Final = 10_000

Clock = Callable[[], float]


def in_words(processes: int) -> str:
    """What the limits come to, as every process counts for itself."""
    running = conf.value("TOOLHUB_UPSTREAM_RUNNING") * processes
    said = f"{running:,} calls of one upstream at once"
    if calls := conf.value("TOOLHUB_RATE_CALLS"):
        said += f", {calls * processes:,} calls of a tool by one caller in {conf.value('TOOLHUB_RATE_SECONDS'):,} s"
    return said


class Guards:
    """Rate limits by caller and tool; a breaker and a bulkhead for each upstream."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets: Buckets[tuple[str, str]] = Buckets(MOST_BUCKETS)
        self._upstreams: dict[str, Upstream] = {}

    def count(self, caller: str, tool: str, rate: Rate | None) -> None:
        """Count a call against its limit.

        Raises:
            RateLimitError: the caller has used it up.
        """
        if rate is None:
            return
        if wait := self._buckets.of((caller, tool), rate).take(self._clock()):
            raise RateLimitError(
                f"Rate limit exceeded: at most {rate.most} calls of {tool} in {rate.seconds:g} seconds",
                context={"limit": rate.most, "windowSeconds": rate.seconds},
                retry_after=round(wait + 0.05, 1),
                next_step="Wait that long, and call less often.",
            )

    def state(self, name: str) -> dict[str, Any]:
        """How things stand with an upstream."""
        known = self._upstreams.get(name)
        if known is None:
            return {"name": name, "circuit": Circuit.CLOSED, "running": 0, "waiting": 0}
        circuit = known.breaker.state(self._clock())
        return {"name": name, "circuit": circuit, "running": known.running, "waiting": len(known.waiting)}

    def upstream(self, name: str) -> Upstream:
        found = self._upstreams.get(name)
        if found is None:
            found = self._upstreams[name] = Upstream(
                name, conf.value("TOOLHUB_UPSTREAM_RUNNING"), conf.value("TOOLHUB_UPSTREAM_WAITING"), self._clock
            )
        return found


@dataclass(slots=True)
class Upstream:
    """One upstream: how many calls of it run and wait, and whether it is well. Used on one event loop."""

    name: str
    most_running: int
    most_waiting: int
    clock: Clock
    breaker: Breaker = field(default_factory=Breaker)
    running: int = 0
    waiting: OrderedDict[asyncio.Future[None], None] = field(default_factory=OrderedDict)

    async def enter(self) -> Place:
        """Wait for a place among the running calls. First come, first served.

        Raises:
            CircuitOpenError: the upstream has a rest.
            OverloadedError: there are too many waiting already.
        """
        self._refuse_while_open()
        if self.running < self.most_running and not self.waiting:
            self.running += 1
        else:
            await self._wait()
        try:
            # Whoever waited may find it failing by now; and only who really goes ahead may be the probe.
            self._admit()
        except ToolError:
            self._leave()
            raise
        return Place(self, probe=self.breaker.opened_at is not None)

    async def _wait(self) -> None:
        if len(self.waiting) >= self.most_waiting:
            raise OverloadedError.of(self.name, self.running, len(self.waiting))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # The place was given at the very moment at which nobody wanted it any more.
            raise
        finally:
            self.waiting.pop(turn, None)

    def _leave(self) -> None:
        """Give the place to whoever waits longest."""
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
    """A place among the running calls of an upstream, held until the call has really ended."""

    upstream: Upstream
    probe: bool
    told: bool = False
    left: bool = False

    def succeeded(self) -> None:
        self._tell(self.upstream.breaker.succeeded)

    def failed(self, error: ToolError) -> None:
        """A call ended with an error: the upstream's, or one that shows that it answers."""
        self._tell(self.upstream.breaker.failed if error.blames_upstream else self.upstream.breaker.succeeded)

    def leave(self) -> None:
        """The call has ended. Without a word about the outcome it says nothing about the upstream."""
        if self.probe and not self.told:
            self.upstream.breaker.abandoned()
        self.told = True
        if not self.left:
            self.left = True
            self.upstream._leave()

    def _tell(self, outcome: Callable[[float], None]) -> None:
        # What began before the circuit opened says nothing about how things are now.
        if not self.told and (self.probe or self.upstream.breaker.opened_at is None):
            outcome(self.upstream.clock())
        self.told = True
