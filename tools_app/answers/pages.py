"""Pagination of a result. Following each page to the next yields every item exactly once.

Items larger than a page are replaced by the pointer at which to read them; long texts are split. An object with a key
too long for a pointer, or nested too deep for one, is read as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools_app.answers import pointers
from tools_app.answers.documents import Document
from tools_app.answers.filters import MOST_CONDITIONS, MOST_FIELDS, Condition, chosen
from tools_app.text import hygiene
from tools_app.text.budget import size_of, written

TOOL: Final = "read_result"

# Bytes for the metadata of a page, without the request, which is repeated in the call of the next page.
_ABOUT: Final = 700
# Maximum size of a request in bytes of JSON.
_QUESTION: Final = 1_000
# How far to go back for a place where a text can be split without breaking a grapheme.
_FARTHEST: Final = 64
_AROUND: Final = 32


class PageError(ValueError):
    """The request is invalid. `field` is the invalid argument."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field} {message}")
        self.field = field


@dataclass(frozen=True, slots=True)
class PageRequest:
    pointer: str = ""
    offset: int = 0
    limit: int | None = None
    where: Sequence[Condition] = ()
    fields: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """The arguments without defaults."""
        arguments: dict[str, Any] = {"pointer": self.pointer, "offset": self.offset, "limit": self.limit}
        arguments["where"] = [condition.as_dict() for condition in self.where]
        arguments["fields"] = list(self.fields)
        return {name: value for name, value in arguments.items() if value not in ("", None, [])}


def page(document: Document, request: PageRequest, *, handle: str, most_bytes: int) -> dict[str, Any]:
    """One page of at most `most_bytes`.

    Raises:
        PageError
    """
    _check(request)
    try:
        value = pointers.resolve(document.value, request.pointer)
    except pointers.PointerError as error:
        raise PageError("pointer", str(error)) from error
    room = most_bytes - _ABOUT - size_of(request.as_dict())
    maker = _Maker(request, handle, room)
    if isinstance(value, dict | list) and not _beyond_pointers(request.pointer, value):
        return maker.items(value)
    if request.where or request.fields:
        raise PageError("where" if request.where else "fields", "needs an array or an object at the pointer")
    if isinstance(value, str):
        return maker.piece({"type": "string"}, value)
    text = written(value)
    if isinstance(value, dict | list) or len(text) > room:
        return maker.piece({"type": kind_of(value), "asJsonText": True}, text)
    return {"type": kind_of(value), "value": value}


def kind_of(value: Any) -> str:
    """The JSON Schema type."""
    match value:
        case bool():
            return "boolean"
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "null"


@dataclass(frozen=True, slots=True)
class _Maker:
    request: PageRequest
    handle: str
    room: int

    def items(self, value: dict[str, Any] | list[Any]) -> dict[str, Any]:
        named = isinstance(value, dict)
        total, candidates = self._candidates(value)
        body: dict[str, Any] = {"type": kind_of(value), "total": total, "offset": self.request.offset}
        if self.request.where:
            body["of"] = len(value)
        items = self._fitting_items(candidates)
        if items or not candidates:
            body["items"] = dict(items) if named else [item for _, item in items]
            if self.request.where and not named:
                body["indexes"] = [place for place, _ in items]
            return self._with_next(body, len(items), total)
        larger = self._larger_items(candidates)
        body["larger"] = larger
        return self._with_next(body, len(larger), total, larger[0]["pointer"])

    def piece(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        offset = self.request.offset
        body |= {"characters": len(text), "offset": offset}
        self._check_offset(len(text), "characters")
        most = min(self.request.limit or self.room, self.room, len(text) - offset)
        length = _most(most, lambda count: size_of(text[offset : offset + count]) <= self.room)
        body["text"] = text[offset : _seam(text, offset, offset + length)]
        return self._with_next(body, len(body["text"]), len(text))

    def _candidates(self, value: dict[str, Any] | list[Any]) -> tuple[int, list[tuple[Any, Any]]]:
        """The number of matching items, and those from the offset on with their places: no more than bytes fit."""
        request = self.request
        first, last = request.offset, request.offset + min(request.limit or self.room, self.room)
        if isinstance(value, list) and not request.where:
            self._check_offset(len(value), "items")
            return len(value), list(enumerate(value[first:last], first))
        pairs = enumerate(value) if isinstance(value, list) else value.items()
        matching = [pair for pair in pairs if all(condition.holds(pair[1]) for condition in request.where)]
        if isinstance(value, dict) and request.fields:
            names = set(request.fields)
            matching = [pair for pair in matching if pair[0] in names]
        self._check_offset(len(matching), "items")
        return len(matching), matching[first:last]

    def _fitting_items(self, candidates: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """As many items as fit; none if the first is too large."""
        items: list[tuple[Any, Any]] = []
        left = self.room
        for place, value in candidates:
            item = value if isinstance(place, str) else chosen(value, self.request.fields)
            if self._surely_larger(item):
                break
            named = isinstance(place, str) or bool(self.request.where)
            left -= size_of(item) + 1 + (size_of(place) + 1 if named else 0)
            if left < 0:
                break
            items.append((place, item))
        return items

    def _surely_larger(self, item: Any) -> bool:
        # Avoids serializing megabytes only to see that they do not fit.
        return isinstance(item, str | list | dict) and len(item) > self.room

    def _larger_items(self, candidates: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
        """Pointers to the items that are larger than a page, up to the next one that fits."""
        entries: list[dict[str, Any]] = []
        left = self.room
        for place, value in candidates:
            if entries and self._fitting_items([(place, value)]):
                break
            entry = {
                "pointer": pointers.joined(self.request.pointer, place),
                "type": kind_of(value),
                "bytes": size_of(value),
            }
            left -= size_of(entry) + 1
            if entries and left < 0:
                break
            entries.append(entry)
        return entries

    def _check_offset(self, total: int, what: str) -> None:
        if self.request.offset > total:
            raise PageError("offset", f"is past the end: there are {total:,} {what}")

    def _with_next(self, body: dict[str, Any], done: int, total: int, deeper: str | None = None) -> dict[str, Any]:
        following = self.request.offset + done
        if following < total:
            body["nextOffset"] = following
        if deeper is not None:
            body["_guidance"] = guidance(
                "The items in `larger` are larger than a page: read each at its pointer"
                + (", then continue here at nextOffset." if following < total else "."),
                {"id": self.handle, "pointer": deeper},
            )
        elif following < total:
            arguments = {**self.request.as_dict(), "offset": following}
            body["_guidance"] = guidance("There is more: continue at nextOffset.", {"id": self.handle, **arguments})
        return body


def guidance(message: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The next step with the exact call."""
    return {"message": message, "example": {"name": TOOL, "arguments": arguments}}


def _check(request: PageRequest) -> None:
    if request.offset < 0:
        raise PageError("offset", "must be 0 or more")
    if request.limit is not None and request.limit < 1:
        raise PageError("limit", "must be 1 or more")
    if len(request.where) > MOST_CONDITIONS:
        raise PageError("where", f"may have at most {MOST_CONDITIONS} conditions")
    if len(request.fields) > MOST_FIELDS:
        raise PageError("fields", f"may have at most {MOST_FIELDS} names")
    if size_of(request.as_dict()) > _QUESTION:
        raise PageError("pointer", "and the other arguments are too long together")


def _beyond_pointers(pointer: str, value: dict[str, Any] | list[Any]) -> bool:
    """Whether a pointer to a part of the value could become too long."""
    if size_of(pointer) > pointers.WHOLE:
        return True
    return isinstance(value, dict) and any(
        len(key) > pointers.PART // 6 and size_of(pointers.escaped(key)) > pointers.PART for key in value
    )


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """Binary search for the largest number that fits; at least 1."""
    if fits(highest):
        return highest
    lowest = 1
    while highest - lowest > 1:
        middle = (lowest + highest) // 2
        lowest, highest = (middle, highest) if fits(middle) else (lowest, middle)
    return lowest


def _seam(text: str, start: int, end: int) -> int:
    """A place to split, at or shortly before `end`, that breaks no grapheme.

    Joiners and modifiers count as invisible on their own, and would be removed from both pieces.
    """
    if end >= len(text):
        return end
    for cut in range(end, max(start, end - _FARTHEST), -1):
        if text[cut - 1].isascii() and text[cut].isascii():
            return cut
        if _clean_around(text, start, cut):
            return cut
    return end


def _clean_around(text: str, start: int, cut: int) -> bool:
    # Only the inner half of each stretch is compared: the outer half is context and may be split at its far end.
    before, after = text[max(start, cut - 2 * _AROUND) : cut], text[cut : cut + 2 * _AROUND]
    return (
        hygiene.cleaned(before)[-_AROUND:] == before[-_AROUND:] and hygiene.cleaned(after)[:_AROUND] == after[:_AROUND]
    )
