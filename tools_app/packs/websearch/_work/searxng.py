"""SearXNG, a metasearch engine, at the URL that an operator has set.

https://docs.searxng.org/dev/search_api.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tools_app.packs.websearch import failures
from tools_app.packs.websearch._work import regions, text
from tools_app.packs.websearch._work.engines import Hit, Instant, Remaining, distinct, request_seconds
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch.settings import SearchOptions
from tools_app.sdk.errors import ToolError

if TYPE_CHECKING:
    from tools_app.http import ApiClient

MOST_PAGES: Final = 3
_SAFE: Final = {"off": 0, "moderate": 1, "strict": 2}


class SearXNG:
    name = "SearXNG"

    def __init__(self, api: ApiClient, pace: Pace, search_options: SearchOptions, seconds: float) -> None:
        self._api = api
        self._pace = pace
        self._seconds = seconds
        self._search_options = search_options

    async def search(
        self, query: str, count: int, remaining: Remaining, search_options: SearchOptions
    ) -> Sequence[Hit]:
        hits: list[Hit] = []
        for number in range(1, MOST_PAGES + 1):
            try:
                page = await self._page(query, number, remaining, search_options)
            except ToolError:
                if hits:
                    break  # Keep the results so far.
                raise
            known_count, hits = len(hits), distinct([*hits, *page])
            if len(hits) >= count or len(hits) == known_count:
                break
        return hits

    async def instant(self, query: str, remaining: Remaining) -> Instant:
        """An answer or infobox of SearXNG; its results are for `search`."""
        response = await self._request(query, 1, remaining, self._search_options)
        instant = instant_of(response) if isinstance(response, dict) else None
        if instant is None or not instant.words:
            read(response)
        return instant or Instant(self.name)

    async def _page(
        self, query: str, number: int, remaining: Remaining, search_options: SearchOptions
    ) -> Sequence[Hit]:
        return read(await self._request(query, number, remaining, search_options), first=number == 1)

    async def _request(self, query: str, number: int, remaining: Remaining, search_options: SearchOptions) -> Any:
        await self._pace.wait()
        params: dict[str, str | int | None] = {
            "q": query,
            "format": "json",
            "pageno": number,
            "language": regions.language(search_options.region),
            "safesearch": _SAFE[search_options.safe_search],
            "time_range": search_options.time_range or None,
        }
        seconds = request_seconds(self._seconds, remaining)
        try:
            return await self._api.get("search", operation=failures.OPERATION, params=params, timeout=seconds)
        except ToolError as error:
            raise failures.of_searxng(error) from error


def read(response: Any, *, first: bool = True) -> Sequence[Hit]:
    """The results of a page.

    Raises:
        ToolError: the response is invalid, or empty because SearXNG's engines failed.
    """
    results = response.get("results") if isinstance(response, dict) else None
    if not isinstance(results, list):
        raise failures.unreadable_answer("no list of results")
    hits = list(_hits(results))
    if results and not hits:
        raise failures.unreadable_answer("no result has a title and an address")
    if not results and first and (silent := "; ".join(_unresponsive(response))):
        raise failures.silent_engines(silent)
    return hits


def _hits(results: Sequence[Any]) -> Iterator[Hit]:
    for result in results:
        if not isinstance(result, dict):
            continue
        title, url, content = (
            value if isinstance(value := result.get(name), str) else "" for name in ("title", "url", "content")
        )
        if (place := text.address(url)) and (plain_title := text.plain(title, 300)):
            yield Hit(plain_title, place, text.plain(content))


def instant_of(response: Mapping[str, Any]) -> Instant:
    """The first answer, else the first infobox: `{"answer": …, "url": …}` or only text, in older versions."""
    for entry in _list_of(response, "answers"):
        answer = entry if isinstance(entry, dict) else {"answer": entry}
        if words := _plain(answer.get("answer")):
            return Instant(SearXNG.name, "Answer", words, url=text.address(_plain(answer.get("url"))))
    for box in _list_of(response, "infoboxes"):
        if isinstance(box, dict) and (words := _plain(box.get("content"))):
            source = _plain(box.get("engine"))
            return Instant(SearXNG.name, "Abstract", words, source, text.address(_plain(box.get("id"))))
    return Instant(SearXNG.name)


def _list_of(response: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = response.get(name)
    return value if isinstance(value, list) else ()


def _plain(value: Any) -> str:
    return text.plain(value, 4_000) if isinstance(value, str) else ""


def _unresponsive(response: Mapping[str, Any]) -> Iterator[str]:
    for entry in _list_of(response, "unresponsive_engines")[:10]:
        yield text.plain(": ".join(map(str, entry)) if isinstance(entry, list) else str(entry), 100)
