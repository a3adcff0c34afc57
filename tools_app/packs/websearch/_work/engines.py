"""The interface of search engines, their results, and the fallback from one engine to the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tools_app.packs.websearch.settings import SearchOptions
from tools_app.sdk.errors import ToolError
from tools_app.sdk.levels import TRACE

log: Final = logging.getLogger("tools_app.packs.websearch")

Remaining = Callable[[], float]
_MARGIN: Final = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the engine's text, and a URL that can be opened."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant answer; `kind` is its heading, `engine` the name of its source."""

    engine: str
    kind: str = ""
    words: str = ""
    source: str = ""
    url: str = ""
    topics: Sequence[Topic] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an engine, and its name. No hits means that the engine reported no results."""

    engine: str
    hits: Sequence[Hit]


class Engine(Protocol):
    """A search engine. Raises a `ToolError` of `failures` if it has no answer."""

    @property
    def name(self) -> str: ...

    async def search(
        self, query: str, count: int, remaining: Remaining, search_options: SearchOptions
    ) -> Sequence[Hit]: ...

    async def instant(self, query: str, remaining: Remaining) -> Instant: ...


async def first_answer(
    engines: Sequence[Engine], query: str, count: int, remaining: Remaining, search_options: SearchOptions
) -> Results:
    """The results of the first engine that answers: each engine is a fallback for those before it.

    Raises:
        ToolError: all failed. It is the error of the first engine, which the operator prefers.
    """
    first: ToolError | None = None
    for engine in engines:
        try:
            hits = await engine.search(query, count, remaining, search_options)
        except ToolError as error:
            first = first or error
            if len(engines) > 1:
                log.warning("%s failed: %s", engine.name, error.message)
        else:
            log.log(TRACE, "Parsed %d results", len(hits), extra={"results": [[hit.title, hit.url] for hit in hits]})
            return Results(engine.name, distinct(hits)[:count])
    raise first or RuntimeError("no search engine is set")


def request_seconds(limit: float, remaining: Remaining) -> float:
    """Timeout of a request: less than its call has left, so that the request's timeout error is returned."""
    seconds_left = remaining()
    return min(limit, seconds_left - min(_MARGIN, seconds_left / 5))


def distinct(hits: Sequence[Hit]) -> list[Hit]:
    """Each URL once: pages of results overlap."""
    return list({hit.url: hit for hit in reversed(hits)}.values())[::-1]
