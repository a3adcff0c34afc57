"""Web pages as text for agents. Their content is untrusted; the hub marks it as such."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tools_app.http import Page, charsets
from tools_app.packs.websearch._work import feeds, markdown, pdf, text
from tools_app.packs.websearch._work.engines import Remaining
from tools_app.packs.websearch._work.visits import Visitor
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, ToolError, ToolTimeoutError

OPERATION: Final = "read the page"
_MARGIN: Final = 1.0
# Larger pages are converted in a thread, as they would block the event loop noticeably.
_IN_THREAD_BYTES: Final = 30_000
_IN_THREAD_TAGS: Final = 2_000
_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = ("application/json", "application/javascript", "application/x-javascript")
_XML: Final = ("application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml")
_ACCEPT: Final = (
    "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.8, application/xml;q=0.8, "
    "application/pdf;q=0.7"
)
_MARKUP: Final = re.compile(
    rb"\s*<(?:!--|(?:!doctype\s+html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)"
    rb"[\s>])",
    re.IGNORECASE,
)
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


async def read(visitor: Visitor, url: str, documents: pdf.Reader, remaining: Remaining) -> str:
    """A page as Markdown.

    Raises:
        ToolError: the page is not public, could not be fetched, or has no text; never counted by the circuit breaker.
    """
    try:
        # As bytes: many pages declare their encoding only in their content.
        page = await visitor.page(url, OPERATION, {"accept": _ACCEPT}, remaining)
        title, body = await _readable(page, documents, remaining)
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


async def several(urls: Sequence[str], read: Callable[[str, Remaining], Awaitable[str]], remaining: Remaining) -> str:
    """Pages that are read at once, each with its text or why it could not be read.

    Raises:
        ToolError: none of them could be read.
    """
    outcomes = await asyncio.gather(*(_outcome(url, read, remaining) for url in urls))
    errors = [outcome for outcome in outcomes if isinstance(outcome, ToolError)]
    if len(errors) == len(urls):
        reasons = "; ".join(f"page {position}: {error.message}" for position, error in enumerate(errors, 1))
        refusal = ApiError(
            f"None of the pages could be read: {reasons}",
            context={"operation": OPERATION},
            next_step=errors[0].next_step,
        )
        refusal.blames_upstream = False
        refusal.retryable = all(error.retryable for error in errors)
        raise refusal
    # No page can know the number, so none can look like another.
    number = secrets.token_hex(4)
    parts = [f"_Each page begins with a line in brackets that has the number {number}._"]
    for position, (url, outcome) in enumerate(zip(urls, outcomes, strict=True), 1):
        parts.append(f"[page {position} of {len(urls)}, {number}]")
        parts.append(_not_read(url, outcome) if isinstance(outcome, ToolError) else outcome)
    return "\n\n".join(parts)


async def _outcome(url: str, read: Callable[[str, Remaining], Awaitable[str]], remaining: Remaining) -> str | ToolError:
    def earlier() -> float:
        """Before the end of the call: a slow page must not cost the others."""
        return max(0.0, remaining() - _MARGIN)

    try:
        async with asyncio.timeout(earlier()):
            return await read(url, earlier)
    except TimeoutError:
        return ToolTimeoutError("Request timed out.", next_step="Read this page in a call of its own.")
    except ToolError as error:
        return error


def _not_read(url: str, error: ToolError) -> str:
    words = " ".join(filter(None, (f"{error.message.rstrip('.')}.", error.next_step)))
    return f"# Not read\n\n**URL:** {text.address(url) or text.escaped(url)}\n\n_{text.plain(words)}_"


async def _readable(page: Page, documents: pdf.Reader, remaining: Remaining) -> tuple[str, str]:
    """The title and the text of the page."""
    declared = page.headers.get("content-type", "")
    data: bytes = page.data or b""  # Some statuses have no body.
    if _kind(data, declared) == pdf.MIME_TYPE:
        return await documents.read(data, OPERATION, remaining())
    if len(data) < _IN_THREAD_BYTES and data.count(b"<") < _IN_THREAD_TAGS:
        return _written(data, declared, page.url)
    return await asyncio.to_thread(_written, data, declared, page.url)


def _written(data: bytes, declared: str, url: str) -> tuple[str, str]:
    kind = _kind(data, declared)
    if kind not in _HTML and not _is_text(kind):
        raise ApiError(
            f"Failed to {OPERATION}: its type is {text.plain(kind, 60)}, and only text and PDF can be read",
            context={"operation": OPERATION},
            next_step="Look for a text page about it.",
        )
    encoding = charsets.of_body(data, declared, markup=kind in _HTML or _is_xml(kind))
    if b"\x00" in data[:1_000] and not charsets.is_utf_16(encoding):
        raise InvalidArgumentsError(
            "The page is not text, whatever its content type says", next_step="Read another page."
        )
    source = charsets.decoded(data, encoding)
    if kind in _HTML:
        return markdown.of(source, url)
    return (_is_xml(kind) and feeds.of(source, url)) or ("", source.strip())


def _kind(data: bytes, declared: str) -> str:
    return declared.partition(";")[0].strip().lower() or _looks_like(data)


def _looks_like(data: bytes) -> str:
    """The content type by the content, if none is declared. https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type"""
    head = data[:1_445]
    if charsets.has_bom(head):
        head = charsets.decoded(head, charsets.of_body(head, "")).encode()
    if _MARKUP.match(head):
        return "text/html"
    if head.lstrip().startswith(b"<?xml"):
        return "text/xml"
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    return "application/octet-stream" if _BINARY.search(head) else "text/plain"


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith("+json") or _is_xml(kind)


def _is_xml(kind: str) -> bool:
    return kind in _XML
