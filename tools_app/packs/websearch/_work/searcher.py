"""The engines and the pages of this process, on its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from tools_app.http import ApiClient, WebClient
from tools_app.packs.websearch import failures, settings
from tools_app.packs.websearch._work import engines, pages, text
from tools_app.packs.websearch._work.duckduckgo import DuckDuckGo, Places
from tools_app.packs.websearch._work.engines import Engine, Found, Instant, Remaining
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch._work.searxng import SearXNG
from tools_app.packs.websearch.settings import Settings
from tools_app.sdk.errors import InvalidArgumentsError, Problem

MOST_QUERY: Final = 500


class Searcher:
    """Asks in the order that is set, and never faster than that: all engines share one pace."""

    def __init__(
        self, chosen: Settings, web: WebClient, searxng: ApiClient | None, places: Places | None = None
    ) -> None:
        self._web = web
        self._seconds = chosen.timeout
        self._searxng = searxng
        pace = Pace(chosen.pace_seconds)
        known: dict[str, Engine] = {"duckduckgo": DuckDuckGo(web, pace, chosen.wishes, chosen.timeout, places)}
        if searxng is not None:
            known["searxng"] = SearXNG(searxng, pace, chosen.wishes, chosen.timeout)
        self._engines = [known[name] for name in chosen.engines]
        # It has an interface of its own for them; where an operator leaves it out, it is told nothing.
        self._knows_terms = known["duckduckgo" if "duckduckgo" in chosen.engines else chosen.engines[0]]

    async def search(self, query: str, wanted: int, remaining: Remaining) -> Found:
        return await engines.first_answer(self._engines, _sendable(query), wanted, remaining)

    async def instant(self, query: str, remaining: Remaining) -> Instant:
        return await self._knows_terms.instant(_sendable(query), remaining)

    async def read(self, url: str, remaining: Remaining) -> str:
        return await pages.read(self._web, url, min(self._seconds, remaining()))

    async def close(self) -> None:
        await self._web.close()
        if self._searxng is not None:
            await self._searxng.close()


def made(chosen: Settings) -> Searcher:
    """A searcher as an operator wants it."""
    searxng = None
    if chosen.searxng_url:
        # It may stand in the operator's own network, where many have no certificate; no key travels there.
        searxng = ApiClient(chosen.searxng_url, name="SearXNG", allow_http=True, user_agent=chosen.user_agent)
    web = WebClient(timeout=settings.MOST_SECONDS, user_agent=chosen.user_agent)
    return Searcher(chosen, web, searxng)


make: Callable[[Settings], Searcher] = made
_by_loop: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Searcher]] = WeakKeyDictionary()


def here() -> Searcher:
    """That of the running loop, to which its sockets belong; made with its first call."""
    loop = asyncio.get_running_loop()
    found = _by_loop.get(loop)
    if found is None:
        found = _by_loop[loop] = make(settings.current())
    return found


async def close() -> None:
    """Close what this loop has opened."""
    if (found := _by_loop.pop(asyncio.get_running_loop(), None)) is not None:
        await found.close()


def _sendable(query: str) -> str:
    """The query without what nobody sees.

    Raises:
        InvalidArgumentsError: nothing is left of it, or more than engines take.
    """
    seen = text.plain(query, MOST_QUERY + 1)
    if not seen:
        raise InvalidArgumentsError(problems=[Problem("/query", failures.NO_QUERY, "a text")])
    if len(seen) > MOST_QUERY:
        message = f"Query is too long: at most {MOST_QUERY} characters."
        raise InvalidArgumentsError(problems=[Problem("/query", message, "fewer words")])
    return seen
