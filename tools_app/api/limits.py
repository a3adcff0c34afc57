"""How much one caller, and one address of strangers, may ask of the REST door.

Counted in this process, like the engine's limits: with several workers they add up. A stranger who has used up the
limit locks nobody out: keys are looked at first, and whoever has one is counted as its caller.
"""

from __future__ import annotations

import ipaddress
import math
import time
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tools_app import conf
from tools_app.errors import RateLimitError
from tools_app.policies import Buckets, Rate
from tools_app.tool import Caller

MOST_REMEMBERED: Final = 10_000
HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
ANONYMOUS_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a limit; `reset` seconds until all of it is there again."""

    limit: int
    remaining: int
    reset: int


_callers: Buckets[str] = Buckets(MOST_REMEMBERED)
_strangers: Buckets[str] = Buckets(MOST_REMEMBERED)


def count_caller(request: HttpRequest, caller: Caller) -> None:
    """Raises: RateLimitError."""
    rate = caller.rate or Rate(conf.value("TOOLHUB_KEY_RATE_CALLS"), conf.value("TOOLHUB_KEY_RATE_SECONDS"))
    _count(request, _callers, caller.id, rate, "requests of one caller")


def count_stranger(request: HttpRequest) -> None:
    """Raises: RateLimitError."""
    rate = Rate(conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    _count(
        request, _strangers, neighbourhood(request.META.get("REMOTE_ADDR", "")), rate, "requests without a valid key"
    )


def tell(request: HttpRequest, response: HttpResponseBase) -> None:
    """Put what is left of the limit that the request counted against into the headers of its answer."""
    standing: Standing | None = getattr(request, "_toolhub_standing", None)
    if standing is not None:
        for name, value in zip(HEADERS, (standing.limit, standing.remaining, standing.reset), strict=True):
            response.headers[name] = str(value)


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
    global _callers, _strangers
    _callers, _strangers = Buckets(MOST_REMEMBERED), Buckets(MOST_REMEMBERED)


def _count(request: HttpRequest, buckets: Buckets[str], key: str, rate: Rate, what: str) -> None:
    if not rate.most:
        return
    bucket = buckets.of(key, rate)
    wait = bucket.take(time.monotonic())
    request._toolhub_standing = Standing(rate.most, bucket.left, math.ceil(bucket.full_in))  # type: ignore[attr-defined]
    if wait:
        raise RateLimitError(
            f"Rate limit exceeded: at most {rate.most} {what} in {rate.seconds:g} seconds",
            context={"limit": rate.most, "windowSeconds": rate.seconds},
            retry_after=round(wait + 0.05, 1),
            next_step="Wait that long, and ask less often.",
        )
