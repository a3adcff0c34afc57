"""What search engines have in common: what they find, what they are asked for, and that one stands in for another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tools_app.sdk.errors import ToolError
from tools_app.sdk.levels import TRACE

log: Final = logging.getLogger("tools_app.packs.websearch")

Remaining = Callable[[], float]
_MARGIN: Final = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found: text as the engine gave it, and an address that can be followed."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Instant:
    """What is worth telling of an instant answer; `kind` is the heading that it goes under, `engine` who said it."""

    engine: str
    kind: str = ""
    words: str = ""
    source: str = ""
    url: str = ""
    topics: Sequence[Topic] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine found, and its name. Nothing is an answer, too: the engine has said so."""

    engine: str
    hits: Sequence[Hit]


class Engine(Protocol):
    """Where to search. Raises a `ToolError` in the words of `failures` where it cannot say what there is."""

    @property
    def name(self) -> str: ...

    async def search(self, query: str, wanted: int, remaining: Remaining) -> Sequence[Hit]: ...

    async def instant(self, query: str, remaining: Remaining) -> Instant: ...


async def first_answer(engines: Sequence[Engine], query: str, wanted: int, remaining: Remaining) -> Found:
    """What the first engine finds that can be asked; the others are asked only where those before them fail.

    Raises:
        ToolError: all failed. It is the first one's error: that is the engine which an operator prefers.
    """
    first: ToolError | None = None
    for engine in engines:
        try:
            hits = await engine.search(query, wanted, remaining)
        except ToolError as error:
            first = first or error
            if len(engines) > 1:
                log.warning("%s cannot be asked: %s", engine.name, error.message)
        else:
            log.log(TRACE, "Parsed %d results", len(hits), extra={"results": [[hit.title, hit.url] for hit in hits]})
            return Found(engine.name, distinct(hits)[:wanted])
    raise first or RuntimeError("no search engine is set")


def request_seconds(limit: float, remaining: Remaining) -> float:
    """How long a request may take: always less than its call has left, so that the request's own timeout is told."""
    left = remaining()
    return min(limit, left - min(_MARGIN, left / 5))


def distinct(hits: Sequence[Hit]) -> list[Hit]:
    """Each address once: pages of results overlap."""
    return list({hit.url: hit for hit in reversed(hits)}.values())[::-1]
