"""Outlines, sent instead of results above the token budget: structure, size, beginning, and how to read the rest."""

from __future__ import annotations

import copy
import re
from datetime import datetime
from typing import Any, Final, cast

from tools_app.answers import pages, shapes
from tools_app.answers.documents import Document
from tools_app.sdk.schemas import Schema, parts_of
from tools_app.text import hygiene
from tools_app.text.budget import size_of, tokens_of

# An outline fits into 1,000 tokens. Bytes of its parts:
_SHAPE: Final = 1_100
_FIRST: Final = 800
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@#:")
_LONGEST_KEY: Final = 40
# Limits of the beginning, largest first: items of a list, members of an object, characters of a text, levels.
_CUTS: Final = ((5, 20, 160, 5), (3, 12, 100, 4), (2, 10, 60, 3), (2, 8, 40, 3), (1, 6, 30, 2), (1, 4, 20, 1))

_HOW: Final = {
    "json": "",
    "text": " The text is an array of its lines.",
    "xml": " XML is read as JSON: attributes are @name, text is #text, mixed content is the array #content.",
}

SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "Outline, returned instead of a result above the token budget",
    "properties": {"outline": {"type": "object"}, "_guidance": {"type": "object"}},
    "required": ["outline", "_guidance"],
}


def outline(document: Document, size: int, tokens: int, *, handle: str, expires_at: datetime) -> dict[str, Any]:
    """The outline of a stored result of `size` bytes, which exceeds the budget of `tokens`."""
    root = shapes.look(document.value, size)
    message = (
        f"The result has about {tokens_of(size):,} tokens; the limit is {tokens:,}. Read it in pages with read_result: "
        "`pointer` selects the place, `offset` and `limit` the items, `where` filters them, `fields` selects members."
    )
    arguments = {"id": handle, **({"pointer": target} if (target := _largest_list(root, document.value)) else {})}
    return {
        "outline": {"id": handle, **_summary(document, root, size), "expiresAt": _timestamp(expires_at)},
        "_guidance": pages.guidance(message + _HOW[document.kind], arguments),
    }


def outline_alone(document: Document, size: int, tokens: int, reason: str) -> dict[str, Any]:
    """The outline of a result that could not be stored."""
    message = (
        f"The result has about {tokens_of(size):,} tokens; the limit is {tokens:,}. It could not be stored: {reason}. "
        "Call again and request less: narrow the request or use paging."
    )
    root = shapes.look(document.value, size)
    return {"outline": _summary(document, root, size), "_guidance": {"message": message}}


def is_plain(key: str) -> bool:
    """Whether a key of a result can be repeated in the hub's own words: text by outsiders must not pass for them."""
    return len(key) <= _LONGEST_KEY and _PLAIN.issuperset(key)


def with_outline(schema: Schema, *, is_brief: bool = False) -> Schema:
    """An output schema that also accepts an outline, since clients validate results against it.

    `is_brief`: what distinguishes an outline is enough for that, as it is repeated in every tool of a list.
    """
    own = copy.deepcopy(schema)
    for part in parts_of(own):
        for keyword in ("$ref", "$dynamicRef"):
            # References to the root must point to its new place.
            if re.match(r"#(/(?!\$defs/)|$)", target := part.body.get(keyword, "")):
                part.body[keyword] = f"#/anyOf/0{target[1:]}"
    own.pop("$id", None)
    outer: Schema = {key: own.pop(key) for key in ("$schema", "$defs") if key in own}
    kind = {"type": "object"} if own.get("type") == "object" else {}
    other = {name: SCHEMA[name] for name in ("type", "required")} if is_brief else SCHEMA
    return {**outer, **kind, "anyOf": [own, other]}


def _summary(document: Document, root: shapes.Place, size: int) -> dict[str, Any]:
    shape, missing = shapes.rows(root, _SHAPE, whole=document.whole)
    summary: dict[str, Any] = {"kind": document.kind, "bytes": size, "estimatedTokens": tokens_of(size), "shape": shape}
    if missing:
        summary["morePlaces"] = missing
    first = _first(document.value)
    if first is not None:
        summary["first"] = first
    # A truncated text may end within a grapheme.
    return cast("dict[str, Any]", hygiene.cleaned_json(summary))


def _first(value: Any) -> Any:
    """As much of the beginning as fits. A … marks omissions."""
    for items, members, characters, levels in _CUTS:
        excerpt = _Excerpt(items, members, characters).of(value, levels)
        if size_of(excerpt) <= _FIRST:
            return excerpt
    return None


class _Excerpt:
    def __init__(self, items: int, members: int, characters: int) -> None:
        self._items = items
        self._members = members
        self._characters = characters

    def of(self, value: Any, levels: int) -> Any:
        match value:
            case str() if len(value) > self._characters:
                return f"{value[: self._characters]}… {len(value) - self._characters:,} more characters"
            case list() if levels == 0 and value:
                return f"… array of {len(value):,}"
            case dict() if levels == 0 and value:
                return f"… object of {len(value):,}"
            case list():
                items = [self.of(item, levels - 1) for item in value[: self._items]]
                return [*items, f"… {more:,} more items"] if (more := len(value) - len(items)) else items
            case dict():
                keys = [key for _, key in zip(range(self._members), value, strict=False)]
                members = {self.of(key, 0): self.of(value[key], levels - 1) for key in keys}
                return members | {"…": f"{more:,} more members"} if (more := len(value) - len(keys)) else members
            case int() if len(repr(value)) > self._characters:
                return "… a long number"
            case _:
                return value


def _largest_list(root: shapes.Place, value: Any) -> str:
    """Pointer to the best place to read next: from the root through the largest members to the first list.

    Only through keys that are plain words: text of an upstream must not appear in our guidance.
    """
    place = root
    while isinstance(value, dict) and place.members:
        key = max(place.members, key=lambda name: place.members[name].bytes)
        inner = place.members[key]
        plain = is_plain(key)
        if not plain or inner.bytes < place.bytes / 2 or not isinstance(value.get(key), dict | list):
            break
        place, value = inner, value[key]
    return place.pointer


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
