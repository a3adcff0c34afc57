"""What is sent in place of an answer that is larger than its budget: what it is made of, how large it is, how it
begins, and how to read on."""

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

# 1,000 tokens hold an outline: these parts, and what is said around them.
_SHAPE: Final = 1_100
_FIRST: Final = 800
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@#:")
_LONGEST_KEY: Final = 40
# How much of the beginning is shown: items of a list, members of an object, characters of a text, levels.
_CUTS: Final = ((5, 20, 160, 5), (3, 12, 100, 4), (2, 10, 60, 3), (2, 8, 40, 3), (1, 6, 30, 2), (1, 4, 20, 1))

_HOW: Final = {
    "json": "",
    "text": " The text is an array of its lines.",
    "xml": " XML is read as JSON: attributes are @name, text is #text, mixed content is the array #content.",
}

SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "In place of an answer that is larger than its budget",
    "properties": {"outline": {"type": "object"}, "_guidance": {"type": "object"}},
    "required": ["outline", "_guidance"],
}


def outline(document: Document, size: int, tokens: int, *, handle: str, expires_at: datetime) -> dict[str, Any]:
    """The outline of an answer of so many bytes, more than so many tokens, that is kept until then."""
    root = shapes.look(document.value, size)
    message = (
        f"The answer has about {tokens_of(size):,} tokens, and {tokens:,} fit. Read it in pages with read_result: "
        "`pointer` says where, `offset` and `limit` which items, `where` filters them, `fields` chooses their members."
    )
    arguments = {"id": handle, **({"pointer": target} if (target := _largest_list(root, document.value)) else {})}
    return {
        "outline": {"id": handle, **_told(document, root, size), "expiresAt": _timestamp(expires_at)},
        "_guidance": pages.guidance(message + _HOW[document.kind], arguments),
    }


def outline_alone(document: Document, size: int, tokens: int, reason: str) -> dict[str, Any]:
    """The outline of an answer of which nothing more can be read."""
    message = (
        f"The answer has about {tokens_of(size):,} tokens, and {tokens:,} fit. The rest could not be kept: {reason}. "
        "Call again and ask for less: narrow the request or use paging."
    )
    root = shapes.look(document.value, size)
    return {"outline": _told(document, root, size), "_guidance": {"message": message}}


def with_outline(schema: Schema) -> Schema:
    """An output schema that an outline fits as well: clients check what they get against it."""
    own = copy.deepcopy(schema)
    for part in parts_of(own):
        for keyword in ("$ref", "$dynamicRef"):
            # What leads to the schema as a whole has to lead to where that stands now.
            if re.match(r"#(/(?!\$defs/)|$)", target := part.body.get(keyword, "")):
                part.body[keyword] = f"#/anyOf/0{target[1:]}"
    own.pop("$id", None)
    outer: Schema = {key: own.pop(key) for key in ("$schema", "$defs") if key in own}
    kind = {"type": "object"} if own.get("type") == "object" else {}
    return {**outer, **kind, "anyOf": [own, SCHEMA]}


def _told(document: Document, root: shapes.Place, size: int) -> dict[str, Any]:
    shape, missing = shapes.rows(root, _SHAPE, whole=document.whole)
    told: dict[str, Any] = {"kind": document.kind, "bytes": size, "estimatedTokens": tokens_of(size), "shape": shape}
    if missing:
        told["morePlaces"] = missing
    first = _first(document.value)
    if first is not None:
        told["first"] = first
    # A text that was cut may end in half of what is one character.
    return cast("dict[str, Any]", hygiene.cleaned_json(told))


def _first(value: Any) -> Any:
    """As much of the beginning as there is room for. A … stands where something was left out."""
    for items, members, characters, levels in _CUTS:
        cut = _Cut(items, members, characters)
        shown = cut.shown(value, levels)
        if size_of(shown) <= _FIRST:
            return shown
    return None


class _Cut:
    def __init__(self, items: int, members: int, characters: int) -> None:
        self._items = items
        self._members = members
        self._characters = characters

    def shown(self, value: Any, levels: int) -> Any:
        match value:
            case str() if len(value) > self._characters:
                return f"{value[: self._characters]}… {len(value) - self._characters:,} more characters"
            case list() if levels == 0 and value:
                return f"… array of {len(value):,}"
            case dict() if levels == 0 and value:
                return f"… object of {len(value):,}"
            case list():
                shown = [self.shown(item, levels - 1) for item in value[: self._items]]
                return [*shown, f"… {more:,} more items"] if (more := len(value) - len(shown)) else shown
            case dict():
                chosen = [key for _, key in zip(range(self._members), value, strict=False)]
                members = {self.shown(key, 0): self.shown(value[key], levels - 1) for key in chosen}
                return members | {"…": f"{more:,} more members"} if (more := len(value) - len(chosen)) else members
            case int() if len(repr(value)) > self._characters:
                return "… a long number"
            case _:
                return value


def _largest_list(root: shapes.Place, value: Any) -> str:
    """Where reading on is most worth it: down from the root through the largest members, to the first list.

    Only through keys that are plain words: what an upstream sent must not stand in our guidance as if we said it.
    """
    place = root
    while isinstance(value, dict) and place.members:
        key = max(place.members, key=lambda name: place.members[name].bytes)
        inner = place.members[key]
        plain = len(key) <= _LONGEST_KEY and _PLAIN.issuperset(key)
        if not plain or inner.bytes < place.bytes / 2 or not isinstance(value.get(key), dict | list):
            break
        place, value = inner, value[key]
    return place.pointer


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
