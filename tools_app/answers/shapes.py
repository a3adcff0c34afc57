"""What an answer is made of, told from a part of it: looking at every value of a large one would take too long.

Like items of a list are told as one: `/items/*/name` stands for the names of them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.answers import pointers

# So many values are looked at.
_LOOKS: Final = 12_000
# An object with more members is taken for a list with names.
_MOST_MEMBERS: Final = 40
_NOTEWORTHY: Final = 1_000
_LONGEST_POINTER: Final = 120


@dataclass(slots=True)
class Place:
    """Where like values stand, and what was seen of them."""

    pointer: str
    # How many there are, and how many of them were looked at.
    there: float = 0
    seen: int = 0
    types: Counter[str] = field(default_factory=Counter)
    shortest: int | None = None
    longest: int = 0
    bytes: float = 0
    members: dict[str, Place] = field(default_factory=dict)
    each: Place | None = None

    def inner(self) -> Iterator[Place]:
        yield from self.members.values()
        if self.each is not None:
            yield self.each


def look(value: Any, size: int) -> Place:
    """The places of an answer of so many bytes."""
    root = Place("")
    _look(value, root, 1.0, _LOOKS)
    _scale(root, size / max(root.bytes, 1.0))
    return root


def rows(root: Place, most_bytes: int, *, whole: bool) -> tuple[dict[str, str], int]:
    """Pointers with what is there, outermost first, and how many places found no room.

    Where not the whole was looked at, what stands in one place only may be longer than it seems.
    """
    shown: dict[str, str] = {}
    left, missing = most_bytes, 0
    level: list[tuple[Place, bool]] = [(root, True)]
    while level:
        for place, everywhere in level:
            words = described(place, everywhere=everywhere, cut=not whole and place.seen == 1)
            cost = len(place.pointer.encode()) + len(words.encode()) + 8
            if len(place.pointer) <= _LONGEST_POINTER and cost <= left:
                shown[place.pointer] = words
                left -= cost
            else:
                missing += 1
        level = [
            (inner, inner is place.each or inner.seen == place.seen) for place, _ in level for inner in place.inner()
        ]
    return shown, missing


def described(place: Place, *, everywhere: bool, cut: bool) -> str:
    """For example `array of 20,000, about 9.8 MB`. `everywhere`: no like item is without it.
    `cut`: there may be more of it."""
    kinds = list(place.types)
    words = " or ".join(sorted(kinds, key=lambda kind: (kind == "null", kind)))
    if kinds == ["string"]:
        words += f" of up to {place.longest:,} characters"
    elif kinds in (["array"], ["object"]):
        low, high = place.shortest or 0, place.longest
        least = " at least" if cut else ""
        words += f" of{least} {low:,}" if low == high else f" of {low:,} to {high:,}"
    if not everywhere:
        words += f", in about {round(place.there):,}"
    if place.bytes >= _NOTEWORTHY:
        words += f", about {_bytes(place.bytes)}"
    return words


def _bytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


def _look(value: Any, place: Place, weight: float, looks: int) -> float:
    """See what is there, with at most so many looks further inside. Returns about how many bytes there are."""
    place.seen += 1
    place.there += weight
    size = 5.0
    match value:
        case None | bool():
            place.types["null" if value is None else "boolean"] += 1
        case str():
            place.types["string"] += 1
            _measure(place, len(value))
            size = 2.0 + (len(value) if value.isascii() else len(value.encode()))
        case int() | float():
            place.types["integer" if isinstance(value, int) else "number"] += 1
            size = float(len(repr(value)))
        case list():
            place.types["array"] += 1
            _measure(place, len(value))
            size = 2.0 + _look_inside(value, place, weight, looks)
        case _:
            place.types["object"] += 1
            _measure(place, len(value))
            size = 2.0 + _look_at_members(value, place, weight, looks)
    place.bytes += weight * size
    return size


def _measure(place: Place, length: int) -> None:
    place.shortest = length if place.shortest is None else min(place.shortest, length)
    place.longest = max(place.longest, length)


def _look_inside(value: list[Any], place: Place, weight: float, looks: int) -> float:
    count = _worth(len(value), looks)
    if count == 0:
        return 0.0
    if place.each is None:
        place.each = Place(f"{place.pointer}/*")
    step = len(value) / count
    size = 0.0
    for number in range(count):
        size += 1 + _look(value[int(number * step)], place.each, weight * step, _shared(looks, count))
    return size * step


def _look_at_members(value: dict[str, Any], place: Place, weight: float, looks: int) -> float:
    if len(value) > _MOST_MEMBERS or (place.each is not None and not place.members):
        # Keys are about as long as the first few.
        keys = sum(len(key) + 3 for _, key in zip(range(20), value, strict=False)) / 20
        return keys * len(value) + _look_inside(list(value.values()), place, weight, looks)
    size = 0.0
    for key, member in value.items():
        if looks <= 0:
            break
        inner = place.members.get(key)
        if inner is None:
            if len(place.members) > 2 * _MOST_MEMBERS:
                continue
            inner = place.members[key] = Place(pointers.joined(place.pointer, key))
        size += len(key) + 4 + _look(member, inner, weight, _shared(looks, len(value)))
    return size


def _shared(looks: int, among: int) -> int:
    # Halved at least, so that what is nested without end has one here.
    return looks // max(among, 2)


def _worth(length: int, looks: int) -> int:
    """How many items of a list to look at, so that there are looks left to see what is in each."""
    return min(length, max(min(looks, 8), looks // 20, 0))


def _scale(place: Place, factor: float) -> None:
    place.bytes *= factor
    for inner in place.inner():
        _scale(inner, factor)
