"""The structure of a result, estimated from a sample: visiting every value of a large one would take too long.

Items of a list are combined: `/items/*/name` describes the names of all items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.answers import pointers

# Sample size in values.
_LOOKS: Final = 12_000
# An object with more members is treated like a list.
_MOST_MEMBERS: Final = 40
_NOTEWORTHY: Final = 1_000
_LONGEST_POINTER: Final = 120


@dataclass(slots=True)
class Place:
    """A place in the structure, with statistics of its values."""

    pointer: str
    # Estimated number of values, and number of sampled ones.
    count: float = 0
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
    """The structure of a result of `size` bytes."""
    root = Place("")
    _sample(value, root, 1.0, _LOOKS)
    _scale(root, size / max(root.bytes, 1.0))
    return root


def rows(root: Place, most_bytes: int, *, whole: bool) -> tuple[dict[str, str], int]:
    """Descriptions by pointer, outermost first, and the number of places that did not fit.

    Not `whole`: only the beginning was parsed, so a value that occurs once may be longer than it appears.
    """
    descriptions: dict[str, str] = {}
    left, missing = most_bytes, 0
    level: list[tuple[Place, bool]] = [(root, True)]
    while level:
        for place, everywhere in level:
            words = described(place, everywhere=everywhere, cut=not whole and place.seen == 1)
            cost = len(place.pointer.encode()) + len(words.encode()) + 8
            if len(place.pointer) <= _LONGEST_POINTER and cost <= left:
                descriptions[place.pointer] = words
                left -= cost
            else:
                missing += 1
        level = [
            (inner, inner is place.each or inner.seen == place.seen) for place, _ in level for inner in place.inner()
        ]
    return descriptions, missing


def described(place: Place, *, everywhere: bool, cut: bool) -> str:
    """For example `array of 20,000, about 9.8 MB`. `everywhere`: every item has it. `cut`: it may be longer."""
    kinds = list(place.types)
    words = " or ".join(sorted(kinds, key=lambda kind: (kind == "null", kind)))
    if kinds == ["string"]:
        words += f" of up to {place.longest:,} characters"
    elif kinds in (["array"], ["object"]):
        low, high = place.shortest or 0, place.longest
        least = " at least" if cut else ""
        words += f" of{least} {low:,}" if low == high else f" of {low:,} to {high:,}"
    if not everywhere:
        words += f", in about {round(place.count):,}"
    if place.bytes >= _NOTEWORTHY:
        words += f", about {_bytes(place.bytes)}"
    return words


def _bytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


def _sample(value: Any, place: Place, weight: float, looks: int) -> float:
    """Add a value to the statistics, sampling at most `looks` values inside it. Returns its estimated bytes."""
    place.seen += 1
    place.count += weight
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
            size = 2.0 + _sample_items(value, place, weight, looks)
        case _:
            place.types["object"] += 1
            _measure(place, len(value))
            size = 2.0 + _sample_members(value, place, weight, looks)
    place.bytes += weight * size
    return size


def _measure(place: Place, length: int) -> None:
    place.shortest = length if place.shortest is None else min(place.shortest, length)
    place.longest = max(place.longest, length)


def _sample_items(value: list[Any], place: Place, weight: float, looks: int) -> float:
    count = _sample_size(len(value), looks)
    if count == 0:
        return 0.0
    if place.each is None:
        place.each = Place(f"{place.pointer}/*")
    step = len(value) / count
    size = 0.0
    for number in range(count):
        size += 1 + _sample(value[int(number * step)], place.each, weight * step, _share(looks, count))
    return size * step


def _sample_members(value: dict[str, Any], place: Place, weight: float, looks: int) -> float:
    if len(value) > _MOST_MEMBERS or (place.each is not None and not place.members):
        # Key lengths are estimated from the first few.
        keys = sum(len(key) + 3 for _, key in zip(range(20), value, strict=False)) / 20
        return keys * len(value) + _sample_items(list(value.values()), place, weight, looks)
    size = 0.0
    for key, member in value.items():
        if looks <= 0:
            break
        inner = place.members.get(key)
        if inner is None:
            if len(place.members) > 2 * _MOST_MEMBERS:
                continue
            inner = place.members[key] = Place(pointers.joined(place.pointer, key))
        size += len(key) + 4 + _sample(member, inner, weight, _share(looks, len(value)))
    return size


def _share(looks: int, among: int) -> int:
    # At least halved, so that deep nesting ends.
    return looks // max(among, 2)


def _sample_size(length: int, looks: int) -> int:
    """Number of items to sample, leaving looks for what is inside each."""
    return min(length, max(min(looks, 8), looks // 20, 0))


def _scale(place: Place, factor: float) -> None:
    place.bytes *= factor
    for inner in place.inner():
        _scale(inner, factor)
