"""What operators decide about this pack: environment variables, which the hub checks when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools_app.base import conf

_PREFIX: Final = "WEBSEARCH_"
# The longest deadline that a call may have.
MOST_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an operator wants of every search, in words of our own; each engine says it in its way, or leaves it out."""

    region: str = ""
    safe_search: str = "moderate"
    time_range: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    engines: Sequence[str]
    searxng_url: str
    max_results: int
    timeout: float
    user_agent: str
    cache_seconds: int
    pace_seconds: float
    retries: int
    wishes: Wishes

    @property
    def deadline(self) -> float:
        """Seconds for a call: all its attempts, the waits between them, its turn in a short queue, and one to spare.

        The call must outlive its last request: the timeout of that is what callers are told.
        """
        attempts, waits = self.timeout * (self.retries + 1), 1.5 * ((1 << self.retries) - 1)
        return min(MOST_SECONDS, attempts + waits + 10 * self.pace_seconds + 1)


def current() -> Settings:
    return Settings(
        engines=tuple(conf.value(f"{_PREFIX}ENGINES")),
        searxng_url=conf.value(f"{_PREFIX}SEARXNG_URL"),
        max_results=conf.value(f"{_PREFIX}MAX_RESULTS"),
        timeout=conf.value(f"{_PREFIX}TIMEOUT_SECS"),
        user_agent=conf.value(f"{_PREFIX}USER_AGENT"),
        cache_seconds=conf.value(f"{_PREFIX}CACHE_TTL_SECS"),
        pace_seconds=conf.value(f"{_PREFIX}RATE_LIMIT_MS") / 1000,
        retries=conf.value(f"{_PREFIX}MAX_RETRIES"),
        wishes=Wishes(
            region=conf.value(f"{_PREFIX}REGION"),
            safe_search=conf.value(f"{_PREFIX}SAFE_SEARCH"),
            time_range=conf.value(f"{_PREFIX}TIME_RANGE"),
        ),
    )
