"""DuckDuckGo: its two pages without JavaScript, and its instant answers. No API key, and no stability guarantee.

A page with neither results nor DuckDuckGo's "no results" text is an error: otherwise an agent would believe that there
are no results. https://html.duckduckgo.com/html/, https://lite.duckduckgo.com/lite/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from tools_app.packs.websearch import failures
from tools_app.packs.websearch._work import regions, text
from tools_app.packs.websearch._work.engines import Hit, Instant, Remaining, Topic, distinct, request_seconds
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch.settings import SearchOptions
from tools_app.sdk.errors import InvalidArgumentsError, Problem, ToolError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from tools_app.http import WebClient

MOST_PAGES: Final = 3  # of 10, 15 and 15 results
_MOST_ASKED: Final = 1_800  # encoded: it is a part of the URL of an instant answer
_SAFE: Final = {"strict": "1", "moderate": "-1", "off": "-2"}
_RANGE: Final = {"day": "d", "week": "w", "month": "m", "year": "y"}
_CHALLENGE: Final = "form#challenge-form, .anomaly-modal__title"
_INSTANT: Final = "DuckDuckGo Instant Answer API"
_NOTHING: Final = ("no results.", "no more results.")


@dataclass(frozen=True, slots=True)
class Places:
    html: str = "https://html.duckduckgo.com/html/"
    lite: str = "https://lite.duckduckgo.com/lite/"
    instant: str = "https://api.duckduckgo.com/"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of results, and the form fields of the next one, if there is one."""

    hits: Sequence[Hit]
    next: Mapping[str, str] | None = None


class DuckDuckGo:
    name = "DuckDuckGo"

    def __init__(
        self, web: WebClient, pace: Pace, options: SearchOptions, seconds: float, places: Places | None = None
    ) -> None:
        self._web = web
        self._pace = pace
        self._seconds = seconds
        self._places = places or Places()
        self._default_region = options.region

    async def search(
        self, query: str, count: int, remaining: Remaining, search_options: SearchOptions
    ) -> Sequence[Hit]:
        """POST a form: the query is not in the URL, so it appears in no log on the way, and may be long."""
        form = {"q": query, "b": "", **self._search_params(search_options)}
        try:
            return await self._pages(self._places.html, form, count, remaining)
        except ToolError as error:
            # The other page would not help against a network error, and a retry would prolong a challenge.
            if error.retryable or error.message == failures.CHALLENGED:
                raise
            try:
                return await self._pages(self._places.lite, form, count, remaining)
            except ToolError as another:
                raise error from another

    def _search_params(self, search_options: SearchOptions) -> Mapping[str, str]:
        """Raises: InvalidArgumentsError, for a region that DuckDuckGo would ignore."""
        region = search_options.region
        if region != self._default_region and not regions.duckduckgo_has(region):
            raise failures.no_region(self.name, region, regions.of_country(region))
        params = {
            "kl": regions.for_duckduckgo(region),
            "kp": _SAFE[search_options.safe_search],
            "df": _RANGE.get(search_options.time_range, ""),
        }
        return {name: value for name, value in params.items() if value}

    async def _pages(self, address: str, form: Mapping[str, str], count: int, remaining: Remaining) -> Sequence[Hit]:
        page = await self._page(address, form, remaining)
        hits = distinct(page.hits)
        for _ in range(MOST_PAGES - 1):
            if len(hits) >= count or page.next is None:
                break
            try:
                page = await self._page(address, page.next, remaining)
            except ToolError:
                break  # Keep the results so far.
            hits = distinct([*hits, *page.hits])
        return hits

    async def _page(self, address: str, form: Mapping[str, str], remaining: Remaining) -> Page:
        await self._pace.wait()
        seconds = request_seconds(self._seconds, remaining)
        try:
            response = await self._web.post(
                address, form, operation=failures.OPERATION, headers={"referer": address}, seconds=seconds
            )
        except ToolError as error:
            raise failures.of_duckduckgo(error, failures.PAGE_UNREADABLE) from error
        return read(response.data or "", response.status)

    async def instant(self, query: str, remaining: Remaining) -> Instant:
        """An answer of its API: JSON with the content type of a script."""
        if len(quote(query)) > _MOST_ASKED:
            raise InvalidArgumentsError(problems=[Problem("/query", "Query is too long.", "fewer words")])
        params: dict[str, str | int] = {
            "q": query,
            "format": "json",
            "no_html": 1,
            "no_redirect": 1,
            "skip_disambig": 1,
        }
        await self._pace.wait()
        seconds = request_seconds(self._seconds, remaining)
        try:
            response = await self._web.get(
                self._places.instant, operation=failures.OPERATION, params=params, reads="json", seconds=seconds
            )
        except ToolError as error:
            raise failures.of_duckduckgo(error, failures.ANSWER_UNREADABLE) from error
        if not isinstance(response.data, dict):
            raise failures.unreadable_answer(f"{type(response.data).__name__} instead of an object")
        return instant_of(response.data)


def read(page: str, status: int) -> Page:
    """Either of the two pages.

    Raises:
        ToolError: it is a bot challenge, or an unknown page.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    hits = [*_hits(_of_html(tree)), *_hits(_of_lite(tree))]
    if hits:
        return Page(hits, _next(tree))
    if _says_nothing(tree):
        return Page(())
    if status == 202 or tree.css_first(_CHALLENGE) is not None:
        raise failures.challenged(status)
    raise failures.unreadable_page(f"HTTP {status}, and neither results nor a mark that there are none", page[:4_000])


Parts = tuple["LexborNode", "LexborNode | None"]


def _of_html(tree: LexborHTMLParser) -> Iterator[Parts]:
    """The link and the snippet of each result."""
    for block in tree.css("#links .result"):
        advertises = "result--ad" in (block.attributes.get("class") or "").split() or block.css_first(".badge--ad")
        link = block.css_first("a.result__a")
        if link is not None and not advertises:
            yield link, block.css_first(".result__snippet")


def _of_lite(tree: LexborHTMLParser) -> Iterator[Parts]:
    """The same, from a table with three rows for each result."""
    link: LexborNode | None = None
    for row in tree.css("tr:not(.result-sponsored)"):
        if (another := row.css_first("a.result-link")) is not None:
            if link is not None:
                yield link, None
            link = another
        elif link is not None and (snippet := row.css_first("td.result-snippet")) is not None:
            yield link, snippet
            link = None
    if link is not None:
        yield link, None


def _hits(parts: Iterator[Parts]) -> Iterator[Hit]:
    for link, snippet in parts:
        url = text.address(target(link.attributes.get("href") or ""))
        title = text.plain(link.text(), 300)
        if url and title:
            yield Hit(title, url, text.plain(snippet.text()) if snippet is not None else "")


def target(href: str) -> str:
    """The target of a link: unwrapped once, and empty for advertisements."""
    parts = _split(f"https:{href}" if href.startswith("//") else href)
    if _is_theirs(parts.hostname) and parts.path.rstrip("/") == "/l":
        pairs = (pair.partition("=") for pair in parts.query.split("&"))
        parts = _split(next((unquote(value) for name, _, value in pairs if name == "uddg"), ""))
    return "" if _is_theirs(parts.hostname) and parts.path == "/y.js" else parts.geturl()


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        parts.hostname  # noqa: B018  reading it may fail
    except ValueError:
        return urlsplit("")
    return parts


def _is_theirs(host: str | None) -> bool:
    return host == "duckduckgo.com" or (host or "").endswith(".duckduckgo.com")


def _says_nothing(tree: LexborHTMLParser) -> bool:
    if tree.css_first("#links .no-results") is not None:
        return True
    return any(" ".join(cell.text().lower().split()) in _NOTHING for cell in tree.css("td"))


def _next(tree: LexborHTMLParser) -> dict[str, str] | None:
    """The form fields of the button `Next`; `Previous` has a form of the same class."""
    for form in tree.css("div.nav-link form, form.next_form"):
        button = form.css_first("input[type=submit]")
        if button is not None and (button.attributes.get("value") or "").startswith("Next"):
            fields = (field.attributes for field in form.css("input[type=hidden]"))
            return {str(each["name"]): each.get("value") or "" for each in fields if each.get("name")}
    return None


# ---- instant answers


def instant_of(answer: Mapping[str, Any]) -> Instant:
    """The abstract, else the answer, else the definition. Values that are not text are for DuckDuckGo's own page."""

    def words(name: str) -> str:
        value = answer.get(name)
        return text.plain(value, 4_000) if isinstance(value, str) else ""

    topics = tuple(_topics(answer.get("RelatedTopics")))
    for kind in ("Abstract", "Answer", "Definition"):
        if content := words(f"{kind}Text") or words(kind):
            return Instant(_INSTANT, kind, content, words(f"{kind}Source"), text.address(words(f"{kind}URL")), topics)
    return Instant(_INSTANT, topics=topics)


def _topics(entries: Any) -> Iterator[Topic]:
    """Topics, including those in groups."""
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        inside = entry.get("Topics")
        for one in inside if isinstance(inside, list) else (entry,):
            if isinstance(one, dict) and (topic := _topic_of(one)):
                yield topic


def _topic_of(entry: Mapping[str, Any]) -> Topic | None:
    """`Text` is the name and its description in one; the link in `Result` is the name alone."""
    from selectolax.lexbor import LexborHTMLParser

    description, result = entry.get("Text"), entry.get("Result")
    whole = text.plain(description, 500) if isinstance(description, str) else ""
    link = LexborHTMLParser(result).css_first("a") if isinstance(result, str) else None
    name = text.plain(link.text(), 200) if link is not None else ""
    if not name or not whole.startswith(name):
        name, _, rest = whole.partition(" - ")
    else:
        rest = whole.removeprefix(name)
    return Topic(name, rest.strip(" -")) if name else None
