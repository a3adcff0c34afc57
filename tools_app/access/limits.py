"""Request rate limits: per caller, and per address for requests without a valid key.

Counted by all processes together where TOOLHUB_REDIS_URL is set, otherwise per process, like the engine's limits. An
exhausted limit of an address locks no key out: keys are verified first, and their requests count for their caller.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from functools import partial
from typing import Final

from tools_app.base import conf, hub
from tools_app.base.counters import Counters, Taken
from tools_app.sdk import heavy
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import RateLimitError
from tools_app.sdk.policies import Rate

MOST_REMEMBERED: Final = 10_000
ANONYMOUS_SECONDS: Final = 60
# Allowed page views per allowed request without a key: pages lead to each other.
VISITS: Final = 10
# A request body counts as one more request per this many bytes: its cost grows with its size.
BYTES_OF_A_REQUEST: Final = 16 * 1024
# And per so much processor time for large values.
SECONDS_OF_A_REQUEST: Final = 0.01


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The state of a limit; `reset` seconds until it is full again, `wait` seconds until a request is allowed."""

    limit: int
    remaining: int
    reset: int
    wait: float
    seconds: float
    subject: str

    def check(self) -> None:
        """Raises: RateLimitError."""
        if self.wait:
            raise RateLimitError(
                f"Rate limit exceeded: at most {self.limit} {self.subject} in {self.seconds:g} seconds",
                context={"limit": self.limit, "windowSeconds": self.seconds},
                retry_after=round(self.wait + 0.05, 1),
                next_step="Wait that long, and send fewer requests.",
            )


class Limits:
    """What a hub has counted."""

    def __init__(self) -> None:
        self.callers = Counters("caller", MOST_REMEMBERED)
        self.strangers = Counters("stranger", MOST_REMEMBERED)
        self.sign_ins = Counters("sign-in", MOST_REMEMBERED)
        self.visits = Counters("visit", MOST_REMEMBERED)


async def count_caller(caller: Caller) -> LimitStatus | None:
    """Count a request of a caller. None if there is no limit."""
    heavy.arrivals.note(caller.id)
    heavy.charged.set(partial(count_work, caller))
    return await _count(hub.part(Limits).callers, caller.id, _rate(caller), "requests of one caller")


async def count_body(caller: Caller, size: int) -> None:
    """Count the size of a request. The request itself is allowed; later ones wait longer."""
    rate = _rate(caller)
    if rate.most and size >= BYTES_OF_A_REQUEST:
        await hub.part(Limits).callers.owe(caller.id, rate, size // BYTES_OF_A_REQUEST)


def count_answer(caller: Caller, size: int) -> None:
    """Count the size of a list that a request got, likewise; without waiting."""
    rate = _rate(caller)
    if rate.most and size >= BYTES_OF_A_REQUEST:
        hub.part(Limits).callers.owe_soon(caller.id, rate, size // BYTES_OF_A_REQUEST)


def count_work(caller: Caller, seconds: float) -> None:
    """Count the processor time that values of a request took, likewise."""
    rate = _rate(caller)
    if rate.most and seconds >= SECONDS_OF_A_REQUEST:
        hub.part(Limits).callers.owe_soon(caller.id, rate, seconds / SECONDS_OF_A_REQUEST)


async def count_stranger(address: str) -> LimitStatus | None:
    """Count a request without a valid key. None if there is no limit."""
    rate = Rate(conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    return await _count(hub.part(Limits).strangers, neighbourhood(address), rate, "requests without a valid key")


def count_sign_in(address: str) -> LimitStatus | None:
    """Count a sign-in attempt. A separate limit: a program with a wrong key must not lock people out. For threads."""
    rate = Rate(conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    if not rate.most:
        return None
    taken = hub.part(Limits).sign_ins.take_now(neighbourhood(address), rate)
    return _status(rate, taken, "attempts to sign in")


async def count_visit(address: str) -> LimitStatus | None:
    """Count a page view without a session. None if there is no limit."""
    rate = Rate(VISITS * conf.value("TOOLHUB_ANONYMOUS_RATE_CALLS"), ANONYMOUS_SECONDS)
    return await _count(hub.part(Limits).visits, neighbourhood(address), rate, "pages without signing in")


def neighbourhood(address: str) -> str:
    """What counts as one address: for IPv6 the /64 network, since a host may choose addresses within it freely."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]  # A Unix socket has no address.
    if isinstance(ip, ipaddress.IPv4Address):
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return f"{int(ip) >> 64:x}/64"


def _rate(caller: Caller) -> Rate:
    return caller.rate or Rate(conf.value("TOOLHUB_KEY_RATE_CALLS"), conf.value("TOOLHUB_KEY_RATE_SECONDS"))


async def _count(counters: Counters, key: str, rate: Rate, subject: str) -> LimitStatus | None:
    return _status(rate, await counters.take(key, rate), subject) if rate.most else None


def _status(rate: Rate, taken: Taken, subject: str) -> LimitStatus:
    return LimitStatus(rate.most, taken.left, math.ceil(taken.full_in), taken.wait, rate.seconds, subject)
