"""Reading a kept answer the way an agent does: page after page, and deeper where a page says so."""

from __future__ import annotations

import json
from typing import Any

from tools_app.answers import Document, PageRequest, page
from tools_app.text import hygiene
from tools_app.text.budget import size_of

HANDLE = "0" * 32


def read(document: Document, most_bytes: int, pointer: str = "", **asked: Any) -> Any:
    """The value at the pointer, assembled by following pages of limited size."""
    pages = list(_pages(document, most_bytes, pointer, **asked))
    first = pages[0]
    if "value" in first:
        return first["value"]
    if "text" in first:
        text = "".join(one["text"] for one in pages)
        return json.loads(text) if first.get("asJsonText") else text
    return _items(document, most_bytes, pages, named=first["type"] == "object")


def _items(document: Document, most_bytes: int, pages: list[dict[str, Any]], *, named: bool) -> Any:
    found: list[tuple[str, Any]] = []
    for one in pages:
        assert ("items" in one) != ("larger" in one)
        items = one.get("items", {})
        found += list(items.items()) if isinstance(items, dict) else _numbered(items, len(found))
        for entry in one.get("larger", ()):
            key = entry["pointer"].rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            found.append((key, read(document, most_bytes, entry["pointer"])))
    assert len(found) == pages[0]["total"], "an item is missing, or came twice"
    keys = [key for key, _ in found]
    assert len(set(keys)) == len(keys)
    if named:
        return dict(found)
    assert keys == [str(number) for number in range(len(keys))]
    return [item for _, item in found]


def _numbered(items: list[Any], first: int) -> list[tuple[str, Any]]:
    return [(str(first + number), item) for number, item in enumerate(items)]


def _pages(document: Document, most_bytes: int, pointer: str, **asked: Any) -> Any:
    offset = 0
    while True:
        one = page(document, PageRequest(pointer, offset, **asked), handle=HANDLE, most_bytes=most_bytes)
        assert size_of(one) <= most_bytes
        assert hygiene.cleaned_json(one) == one, "what was clean in one piece is not in two"
        yield one
        if "nextOffset" not in one:
            return
        assert one["nextOffset"] > offset
        if "larger" not in one:
            arguments = one["_guidance"]["example"]["arguments"]
            assert arguments["offset"] == one["nextOffset"]
            assert arguments.get("pointer", "") == pointer
        offset = one["nextOffset"]
