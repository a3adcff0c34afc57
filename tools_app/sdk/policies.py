"""Backoff, rate limits (token buckets) and circuit breakers. Pure: callers pass the time in.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Longer values of Retry-After are ignored: a call cannot wait that long.
LONGEST_RETRY_AFTER: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with a cap and jitter."""

    base: float = 1.0
    cap: float = 30.0
    jitter: float = 0.25

    def wait(self, attempt: int, chance: float, asked_for: float | None = None) -> float:
        """Seconds before attempt number `attempt` + 1; `chance` is from 0 to 1, `asked_for` is Retry-After."""
        # The exponent is bounded, since a large attempt number would overflow.
        seconds = min(self.cap, self.base * 2.0 ** min(attempt, 32))
        spread = seconds * (1 + self.jitter * (2 * chance - 1))
        if asked_for is not None and 0 < asked_for <= LONGEST_RETRY_AFTER:
            return max(spread, asked_for)
        return spread


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `most` calls in `seconds`."""

    most: int
    seconds: float

    def within(self, other: Rate) -> bool:
        """Whether it never allows more than another, neither in a burst nor on average."""
        return self.most <= other.most and self.most * other.seconds <= other.most * self.seconds


@dataclass(slots=True)
class Bucket:
    """A token bucket: full at first, refilled evenly, one token per call."""

    rate: Rate
    tokens: float = field(init=False)
    filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = float(self.rate.most)
        self.filled_at = float("-inf")

    def take(self, now: float) -> float:
        """Take a token and return 0, or take none and return the seconds until one is available."""
        per_second = self.rate.most / self.rate.seconds
        passed = now - self.filled_at
        self.tokens = min(float(self.rate.most), self.tokens + max(0.0, passed) * per_second)
        self.filled_at = max(now, self.filled_at)
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / per_second

    def set(self, tokens: float, now: float) -> None:
        """What is left now, as it was counted elsewhere."""
        self.tokens, self.filled_at = tokens, now

    def owe(self, tokens: float) -> None:
        """Take tokens in advance: the next call waits for them, at most as long as it takes to fill the bucket."""
        self.tokens = max(self.tokens - tokens, -float(self.rate.most))

    @property
    def left(self) -> int:
        """The number of available tokens, as of the last `take`."""
        return max(0, int(self.tokens))

    @property
    def full_in(self) -> float:
        """Seconds until the bucket is full, as of the last `take`."""
        return (self.rate.most - self.tokens) * self.rate.seconds / self.rate.most


class Buckets(Generic[K]):
    """One bucket per key, at most `most` (LRU): the bucket unused longest is evicted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buckets: OrderedDict[K, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: K, rate: Rate) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[key] = Bucket(rate)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return bucket


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class Breaker:
    """Circuit breaker: stops calls to a failing upstream, then lets a single call probe whether it has recovered.

    It opens after `consecutive` failures in a row, or when `share` of at least `enough` outcomes within `window`
    were failures. It stays open for `rest`, then admits one probe.
    """

    consecutive: int = 5
    share: float = 0.5
    enough: int = 10
    window: float = 60.0
    rest: float = 60.0
    opened_at: float | None = None
    probing_since: float | None = None
    in_a_row: int = 0
    outcomes: deque[tuple[float, bool]] = field(default_factory=deque)

    def state(self, now: float) -> Circuit:
        if self.opened_at is None:
            return Circuit.CLOSED
        return Circuit.HALF_OPEN if now - self.opened_at >= self.rest else Circuit.OPEN

    def admit(self, now: float) -> float | None:
        """None: the call may run and must report its outcome. Otherwise the seconds until the next try."""
        if self.opened_at is None:
            return None
        left = self.opened_at + self.rest - now
        if left > 0:
            return left
        # A probe that never reported its outcome must not block all others forever.
        if self.probing_since is not None and now - self.probing_since < self.rest:
            return self.probing_since + self.rest - now
        self.probing_since = now
        return None

    def succeeded(self, now: float) -> None:
        self.in_a_row = 0
        if self.opened_at is not None:
            if self.probing_since is None:
                return  # The call began before the circuit opened: its outcome is outdated.
            self.opened_at = self.probing_since = None
            self.outcomes.clear()
        self._remember(now, failed=False)

    def failed(self, now: float) -> None:
        if self.opened_at is not None:
            if self.probing_since is not None:
                self.opened_at, self.probing_since = now, None
            return
        self.in_a_row += 1
        self._remember(now, failed=True)
        failures = sum(failed for _, failed in self.outcomes)
        often = len(self.outcomes) >= self.enough and failures >= self.share * len(self.outcomes)
        if self.in_a_row >= self.consecutive or often:
            self.opened_at, self.probing_since, self.in_a_row = now, None, 0

    def abandoned(self) -> None:
        """A call ended without an outcome. If it was the probe, the next call becomes the probe."""
        self.probing_since = None

    def _remember(self, now: float, *, failed: bool) -> None:
        self.outcomes.append((now, failed))
        while self.outcomes and (now - self.outcomes[0][0] > self.window or len(self.outcomes) > 1000):
            self.outcomes.popleft()
