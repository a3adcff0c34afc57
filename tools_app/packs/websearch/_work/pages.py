"""Pages of the web as an agent can read them. What they say is a stranger's word; the hub marks it as that."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from tools_app.errors import ApiError, InvalidArgumentsError, ToolError
from tools_app.http import Page, WebClient, bodies
from tools_app.packs.websearch._work import markdown, text

OPERATION: Final = "read the page"
# Turning so many tags into Markdown takes long enough for others to notice.
_IN_THREAD: Final = 2_000
_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = ("application/json", "application/xml", "application/javascript", "application/x-javascript")
_FEEDS: Final = ("application/rss+xml", "application/atom+xml")
_ACCEPT: Final = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.8, application/xml;q=0.8"
_DECLARED: Final = re.compile(rb"<meta[^>]{1,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)


async def read(web: WebClient, url: str, seconds: float) -> str:
    """A page as Markdown.

    Raises:
        ToolError: it is not of the open web, could not be had, or is no text. It says nothing about other pages.
    """
    try:
        # As bytes: many pages say only in themselves how they are encoded.
        page = await web.get(url, operation=OPERATION, headers={"accept": _ACCEPT}, reads="bytes", seconds=seconds)
        title, body = await _readable(page)
    except ToolError as error:
        error.blames_upstream = False
        raise
    return "\n\n".join(
        [
            f"# {text.escaped(title, 300)}" if title else "# Page without a title",
            f"**URL:** {text.address(page.url)}",
            body or "_The page has no text that can be read without running its scripts._",
        ]
    )


async def _readable(page: Page) -> tuple[str, str]:
    declared = page.headers.get("content-type", "")
    kind = declared.partition(";")[0].strip().lower()
    if not kind:
        kind = "text/html" if bodies.is_html(page.data, "") else "text/plain"
    if kind not in _HTML and not _is_text(kind):
        raise ApiError(
            f"Failed to {OPERATION}: it is {text.plain(kind, 60)}, and only text can be read",
            context={"operation": OPERATION},
            next_step="Look for a page of text about it.",
        )
    if b"\x00" in page.data[:1_000] and "utf-16" not in declared.lower() and "utf-32" not in declared.lower():
        raise InvalidArgumentsError("The page is no text, whatever it says of itself", next_step="Read another page.")
    if kind not in _HTML:
        return "", bodies.text(page.data, declared).strip()
    if "charset" not in declared.lower() and (found := _DECLARED.search(page.data[:4_096])):
        declared = f"text/html; charset={found[1].decode()}"
    source = bodies.text(page.data, declared)
    if source.count("<") < _IN_THREAD and len(source) < markdown.MOST_SOURCE // 10:
        return markdown.of(source, page.url)
    return await asyncio.to_thread(markdown.of, source, page.url)


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith("+json") or kind in _FEEDS
