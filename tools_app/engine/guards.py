"""Rate limits for callers, and a circuit breaker and a bulkhead for each upstream.

All counters are per process: with several processes the limits add up. The storage is private to this module, so that
a shared store can replace it.
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
        self._buckets: Buckets[tuple[str, str]] = Buckets(MOST_BUCKETS)
        self._upstreams: dict[str, Upstream] = {}

    def count(self, caller: str, tool: str, rate: Rate | None) -> None:
        """Count a call against its limit.

        Raises:
            RateLimitError: the caller has exhausted it.
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
        """The state of the circuit breaker and the bulkhead of an upstream."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            return {"name": name, "circuit": Circuit.CLOSED, "running": 0, "waiting": 0}
        circuit = upstream.breaker.state(self._clock())
        return {"name": name, "circuit": circuit, "running": upstream.running, "waiting": len(upstream.waiting)}

    def upstream(self, name: str) -> Upstream:
        upstream = self._upstreams.get(name)
        if upstream is None:
            upstream = self._upstreams[name] = Upstream(
                name, conf.value("TOOLHUB_UPSTREAM_RUNNING"), conf.value("TOOLHUB_UPSTREAM_WAITING"), self._clock
            )
        return upstream


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

    async def enter(self) -> Place:
        """Wait for a place among the running calls (bulkhead). First in, first out.

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
            # After waiting, the circuit may have opened; and only a call that really starts may be the probe.
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
    is_reported: bool = False
    is_left: bool = False

    def succeeded(self) -> None:
        self._report(self.upstream.breaker.succeeded)

    def failed(self, error: ToolError) -> None:
        """The call failed: through the upstream, or with an error that shows that the upstream responds."""
        self._report(self.upstream.breaker.failed if error.blames_upstream else self.upstream.breaker.succeeded)

    def leave(self) -> None:
        """The call has ended. Without a reported outcome it says nothing about the upstream."""
        if self.probe and not self.is_reported:
            self.upstream.breaker.abandoned()
        self.is_reported = True
        if not self.is_left:
            self.is_left = True
            self.upstream._leave()

    def _report(self, outcome: Callable[[float], None]) -> None:
        # A call that began before the circuit opened says nothing about the present state.
        if not self.is_reported and (self.probe or self.upstream.breaker.opened_at is None):
            outcome(self.upstream.clock())
        self.is_reported = True
