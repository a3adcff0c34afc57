"""This pack's settings: environment variables, which the hub validates at start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools_app.base import conf

_PREFIX: Final = "WEBSEARCH_"
# The longest deadline of a call.
MOST_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Search options of the operator. Each engine maps them to its own parameters, or ignores them."""

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
    search_options: SearchOptions
    # Whether pages are read only where robots.txt of their site permits it.
    follows_robots: bool = False

    @property
    def deadline(self) -> float:
        """Seconds for a call: all attempts, the backoff between them, a short queue, and a margin of one second.

        The call must outlive its last request, so that callers get the timeout error of that request.
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
        search_options=SearchOptions(
            region=conf.value(f"{_PREFIX}REGION"),
            safe_search=conf.value(f"{_PREFIX}SAFE_SEARCH"),
            time_range=conf.value(f"{_PREFIX}TIME_RANGE"),
        ),
        follows_robots=conf.value(f"{_PREFIX}ROBOTS_TXT"),
    )
