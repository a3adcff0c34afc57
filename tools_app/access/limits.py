"""How much one caller, and one address of strangers, may ask of the doors that are open to the network.

Counted in this process, like the engine's limits: with several workers they add up. A stranger who has used up the
limit locks nobody out: keys are looked at first, and whoever has one is counted as its caller.
"""

from __future__ import annotations

import ipaddress
import math
import time
from dataclasses import dataclass
from typing import Final

from tools_app.base import conf
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import RateLimitError
from tools_app.sdk.policies import Buckets, Rate

MOST_REMEMBERED: Final = 10_000
ANONYMOUS_SECONDS: Final = 60
# Pages of visitors who have not signed in, for each request without a key: pages lead to each other.
VISITS: Final = 10
# A request with a body counts once more for each of these: what it costs grows with what is in it.
BYTES_OF_A_REQUEST: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a limit; `reset` seconds until all of it is there again, `wait` seconds until there is some."""

    limit: int
    remaining: int
    reset: int
    wait: float
    seconds: float
    what: str

    def check(self) -> None:
        """Raises: RateLimitError."""
        if self.wait:
            raise RateLimitError(
                f"Rate limit exceeded: at most {self.limit} {self.what} in {self.seconds:g} seconds",
                context={"limit": self.limit, "windowSeconds": self.seconds},
                retry_after=round(self.wait + 0.05, 1),
                next_step="Wait that long, and ask less often.",
            )


_callers: Buckets[str] = Buckets(MOST_REMEMBERED)
_strangers: Buckets[str] = Buckets(MOST_REMEMBERED)
_sign_ins: Buckets[str] = Buckets(MOST_REMEMBERED)
_visits: Buckets[str] = Buckets(MOST_REMEMBERED)


def count_caller(caller: Caller) -> Standing | None:
    """Count a request of a caller. None where there is no limit."""
    return _count(_callers, caller.id, _rate(caller), "requests of one caller")


def count_body(caller: Caller, size: int) -> None:
    """Count how large a request of a caller is. It is let in however large; those after it wait the longer."""
    rate = _rate(caller)
    if rate.most and size >= BYTES_OF_A_REQUEST:
        _callers.of(caller.id, rate).owe(size // BYTES_OF_A_REQUEST)


def count_stranger(address: str) -> Standing | None:
    """Count a request without a valid key. None where there is no limit."""
    rate = Rate(conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    return _count(_strangers, neighbourhood(address), rate, "requests without a valid key")


def count_sign_in(address: str) -> Standing | None:
    """Count an attempt to sign in. It has a limit of its own: a program with a wrong key must not keep people out."""
    rate = Rate(conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    return _count(_sign_ins, neighbourhood(address), rate, "attempts to sign in")


def count_visit(address: str) -> Standing | None:
    """Count a page for a visitor who has not signed in. None where there is no limit."""
    rate = Rate(VISITS * conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    return _count(_visits, neighbourhood(address), rate, "pages without signing in")


def neighbourhood(address: str) -> str:
    """What counts as one address: of IPv6 the network, in which everybody may choose addresses freely."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]  # A socket file has none.
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{int(found) >> 64:x}/64"


def forget() -> None:
    """Begin to count anew. For tests."""
    global _callers, _strangers, _sign_ins, _visits
    _callers, _strangers, _sign_ins, _visits = (Buckets(MOST_REMEMBERED) for _ in range(4))


def _rate(caller: Caller) -> Rate:
    return caller.rate or Rate(conf.value("TOOLHUB_KEY_RATE_CALLS"), conf.value("TOOLHUB_KEY_RATE_SECONDS"))


def _count(buckets: Buckets[str], key: str, rate: Rate, what: str) -> Standing | None:
    if not rate.most:
        return None
    bucket = buckets.of(key, rate)
    wait = bucket.take(time.monotonic())
    return Standing(rate.most, bucket.left, math.ceil(bucket.full_in), wait, rate.seconds, what)
