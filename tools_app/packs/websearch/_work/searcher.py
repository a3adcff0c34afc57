"""The search engines and the page reader of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from tools_app.http import ApiClient, WebClient
from tools_app.packs.websearch import failures, settings
from tools_app.packs.websearch._work import engines, pages, pdf, text
from tools_app.packs.websearch._work.duckduckgo import DuckDuckGo, Places
from tools_app.packs.websearch._work.engines import Engine, Instant, Remaining, Results
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch._work.robots import Robots
from tools_app.packs.websearch._work.searxng import SearXNG
from tools_app.packs.websearch._work.visits import Hosts, Visitor
from tools_app.packs.websearch.settings import Settings
from tools_app.sdk.errors import InvalidArgumentsError, Problem

MOST_QUERY: Final = 500


class Searcher:
    """Queries the engines in the order that is set. All engines share one rate limit."""

    def __init__(
        self, options: Settings, web: WebClient, searxng: ApiClient | None, places: Places | None = None
    ) -> None:
        self._web = web
        self._search_options = options.search_options
        self._searxng = searxng
        self._documents = pdf.Reader()
        robots = Robots(web, options.user_agent) if options.follows_robots else None
        self._visitor = Visitor(web, Hosts(options.pace_seconds), robots, options.timeout)
        pace = Pace(options.pace_seconds)
        engines: dict[str, Engine] = {
            "duckduckgo": DuckDuckGo(web, pace, options.search_options, options.timeout, places)
        }
        if searxng is not None:
            engines["searxng"] = SearXNG(searxng, pace, options.search_options, options.timeout)
        self._engines = [engines[name] for name in options.engines]
        # DuckDuckGo has an API for them; if the operator has not enabled it, it must not get any query.
        self._knows_terms = engines["duckduckgo" if "duckduckgo" in options.engines else options.engines[0]]

    async def search(self, query: str, count: int, remaining: Remaining, **limits: str) -> Results:
        """`limits`: the region and the time range of this search, if they are not the operator's."""
        search_options = replace(self._search_options, **limits)
        return await engines.first_answer(self._engines, _sendable(query), count, remaining, search_options)

    async def instant(self, query: str, remaining: Remaining) -> Instant:
        return await self._knows_terms.instant(_sendable(query), remaining)

    async def read(self, urls: Sequence[str], remaining: Remaining) -> str:
        """A page, or several at once: then those that cannot be read are a part of the answer."""
        if len(urls) == 1:
            return await self._read(urls[0], remaining)
        return await pages.several(urls, self._read, remaining)

    async def _read(self, url: str, remaining: Remaining) -> str:
        return await pages.read(self._visitor, url, self._documents, remaining)

    async def close(self) -> None:
        await self._web.close()
        if self._searxng is not None:
            await self._searxng.close()


def create(options: Settings) -> Searcher:
    """A searcher with the given settings."""
    searxng = None
    if options.searxng_url:
        # It may be in the operator's own network, often without a certificate; no key is sent to it.
        searxng = ApiClient(options.searxng_url, name="SearXNG", allow_http=True, user_agent=options.user_agent)
    web = WebClient(timeout=settings.MOST_SECONDS, user_agent=options.user_agent)
    return Searcher(options, web, searxng)


make: Callable[[Settings], Searcher] = create
_by_loop: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Searcher]] = WeakKeyDictionary()


def here() -> Searcher:
    """The searcher of the running loop, to which its sockets belong; created at the first call."""
    loop = asyncio.get_running_loop()
    searcher = _by_loop.get(loop)
    if searcher is None:
        searcher = _by_loop[loop] = make(settings.current())
    return searcher


async def close() -> None:
    """Close the searcher of this loop."""
    if (searcher := _by_loop.pop(asyncio.get_running_loop(), None)) is not None:
        await searcher.close()


def _sendable(query: str) -> str:
    """The query without invisible characters.

    Raises:
        InvalidArgumentsError: it is empty then, or too long for engines.
    """
    visible = text.plain(query, MOST_QUERY + 1)
    if not visible:
        raise InvalidArgumentsError(problems=[Problem("/query", failures.NO_QUERY, "a text")])
    if len(visible) > MOST_QUERY:
        message = f"Query is too long: at most {MOST_QUERY} characters."
        raise InvalidArgumentsError(problems=[Problem("/query", message, "fewer words")])
    return visible
