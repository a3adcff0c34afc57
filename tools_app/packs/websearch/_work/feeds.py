"""News feeds (RSS 0.9 to 2.0, Atom) as a list of their entries, in the feed's order: title, link, date, summary."""

from __future__ import annotations

from typing import Final
from urllib.parse import urljoin
from xml.etree import ElementTree

from tools_app.packs.websearch._work import text

MOST_ENTRIES: Final = 100
MOST_SOURCE: Final = 1_000_000
_PIECE: Final = 64 * 1024
_ROOTS: Final = ("rss", "feed", "RDF")
_DATES: Final = ("pubDate", "published", "updated", "date")
_SUMMARIES: Final = ("summary", "description", "content", "encoded")
_MOST_SUMMARY: Final = 200
# Of the HTML that a summary is made from.
_MOST_HTML: Final = 4_000


def of(source: str, url: str) -> tuple[str, str] | None:
    """The title of a feed and its entries as Markdown; None if it is not a feed."""
    # No feed needs a DTD, and entities can expand a small document without limit.
    if len(source) > MOST_SOURCE or "<!DOCTYPE" in source or "<!ENTITY" in source:
        return None
    parser = ElementTree.XMLParser()  # noqa: S314
    try:
        # In pieces, so that other threads can run in between.
        for start in range(0, len(source), _PIECE):
            parser.feed(source[start : start + _PIECE])
        root = parser.close()
    except (ElementTree.ParseError, ValueError):
        return None
    if _name(root) not in _ROOTS:
        return None
    channel = _child(root, "channel")
    entries = [element for element in root.iter() if _name(element) in ("item", "entry")]
    lines = [line for entry in entries[:MOST_ENTRIES] if (line := _line(entry, url))]
    if len(entries) > MOST_ENTRIES:
        lines.append(f"\n_These are {MOST_ENTRIES} of {len(entries)} entries._")
    return text.plain(_text(channel if channel is not None else root, "title"), 300), "\n".join(lines)


def _line(entry: ElementTree.Element, url: str) -> str:
    title = text.escaped(_text(entry, "title"), 300) or "Without a title"
    link = _link(entry)
    address = text.address(urljoin(url, link)) if link else ""
    entry_line = f"- [{title}]({text.in_brackets(address)})" if address else f"- {title}"
    date = next((date_text for name in _DATES if (date_text := text.escaped(_text(entry, name), 50))), "")
    if date:
        entry_line = f"{entry_line} ({date})"
    summary = next((summary for name in _SUMMARIES if (summary := _summary(_text(entry, name)))), "")
    return f"{entry_line}\n  {summary}" if summary and summary != title else entry_line


def _summary(source: str) -> str:
    """The beginning of a description, which is often HTML."""
    if "<" in source or "&" in source:
        from selectolax.lexbor import LexborHTMLParser

        tree = LexborHTMLParser(source[:_MOST_HTML])
        tree.strip_tags(["script", "style"])
        source = tree.body.text(separator=" ") if tree.body is not None else ""
    return text.escaped(source, _MOST_SUMMARY)


def _link(entry: ElementTree.Element) -> str:
    """The text of an RSS link, or the `href` of an Atom link to the entry itself."""
    for element in entry:
        if _name(element) == "link" and element.get("rel", "alternate") == "alternate":
            return (element.get("href") or element.text or "").strip()
    return ""


def _text(element: ElementTree.Element, name: str) -> str:
    child = _child(element, name)
    return "".join(child.itertext()) if child is not None else ""


def _child(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((child for child in element if _name(child) == name), None)


def _name(element: ElementTree.Element) -> str:
    """Without its namespace."""
    return element.tag.rpartition("}")[2]
