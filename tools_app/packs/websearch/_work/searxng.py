"""SearXNG, a search engine of other engines, at the address that an operator has set.

https://docs.searxng.org/dev/search_api.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tools_app.packs.websearch import failures
from tools_app.packs.websearch._work import text
from tools_app.packs.websearch._work.engines import Hit, Instant, Remaining, distinct, request_seconds
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch.settings import Wishes
from tools_app.sdk.errors import ToolError

if TYPE_CHECKING:
    from tools_app.http import ApiClient

MOST_PAGES: Final = 3
_SAFE: Final = {"off": 0, "moderate": 1, "strict": 2}


class SearXNG:
    name = "SearXNG"

    def __init__(self, api: ApiClient, pace: Pace, wishes: Wishes, seconds: float) -> None:
        self._api = api
        self._pace = pace
        self._seconds = seconds
        self._wishes = {
            "language": _language(wishes.region),
            "safesearch": _SAFE[wishes.safe_search],
            "time_range": wishes.time_range or None,
        }

    async def search(self, query: str, wanted: int, remaining: Remaining) -> Sequence[Hit]:
        hits: list[Hit] = []
        for number in range(1, MOST_PAGES + 1):
            try:
                page = await self._page(query, number, remaining)
            except ToolError:
                if hits:
                    break  # What was found stays found.
                raise
            known, hits = len(hits), distinct([*hits, *page])
            if len(hits) >= wanted or len(hits) == known:
                break
        return hits

    async def instant(self, query: str, remaining: Remaining) -> Instant:
        """What SearXNG answers itself, or knows of a term; its results are for `search`."""
        said = await self._asked(query, 1, remaining)
        found = instant_of(said) if isinstance(said, dict) else None
        if found is None or not found.words:
            read(said)
        return found or Instant(self.name)

    async def _page(self, query: str, number: int, remaining: Remaining) -> Sequence[Hit]:
        return read(await self._asked(query, number, remaining), first=number == 1)

    async def _asked(self, query: str, number: int, remaining: Remaining) -> Any:
        await self._pace.wait()
        params = {"q": query, "format": "json", "pageno": number, **self._wishes}
        seconds = request_seconds(self._seconds, remaining)
        try:
            return await self._api.get("search", operation=failures.OPERATION, params=params, timeout=seconds)
        except ToolError as error:
            raise failures.of_searxng(error) from error


def read(said: Any, *, first: bool = True) -> Sequence[Hit]:
    """The results of a page.

    Raises:
        ToolError: it is not what SearXNG says, or there is nothing because the engines behind it failed.
    """
    results = said.get("results") if isinstance(said, dict) else None
    if not isinstance(results, list):
        raise failures.unreadable_answer("no list of results")
    hits = list(_hits(results))
    if results and not hits:
        raise failures.unreadable_answer("no result has a title and an address")
    if not results and first and (silent := "; ".join(_unresponsive(said))):
        raise failures.silent_engines(silent)
    return hits


def _hits(results: Sequence[Any]) -> Iterator[Hit]:
    for result in results:
        if not isinstance(result, dict):
            continue
        title, url, content = (
            value if isinstance(value := result.get(name), str) else "" for name in ("title", "url", "content")
        )
        if (place := text.address(url)) and (shown := text.plain(title, 300)):
            yield Hit(shown, place, text.plain(content))


def instant_of(said: Mapping[str, Any]) -> Instant:
    """The first answer, else the first infobox: `{"answer": …, "url": …}` or text alone, as older versions say it."""
    for entry in _listed(said, "answers"):
        answer = entry if isinstance(entry, dict) else {"answer": entry}
        if words := _plain(answer.get("answer")):
            return Instant(SearXNG.name, "Answer", words, url=text.address(_plain(answer.get("url"))))
    for box in _listed(said, "infoboxes"):
        if isinstance(box, dict) and (words := _plain(box.get("content"))):
            source = _plain(box.get("engine"))
            return Instant(SearXNG.name, "Abstract", words, source, text.address(_plain(box.get("id"))))
    return Instant(SearXNG.name)


def _listed(said: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = said.get(name)
    return found if isinstance(found, list) else ()


def _plain(value: Any) -> str:
    return text.plain(value, 4_000) if isinstance(value, str) else ""


def _unresponsive(said: Mapping[str, Any]) -> Iterator[str]:
    for entry in _listed(said, "unresponsive_engines")[:10]:
        yield text.plain(": ".join(map(str, entry)) if isinstance(entry, list) else str(entry), 100)


def _language(region: str) -> str | None:
    """The region `at-de`, Austria in German, as the language `de-AT`; none for all the world."""
    country, _, language = region.partition("-")
    if not region or country == "wt":
        return None
    return f"{language}-{country.upper()}"
