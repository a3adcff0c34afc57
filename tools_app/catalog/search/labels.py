"""The tags and categories that there are, and how many tools have each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from tools_app.catalog.entry import Entry

MOST_RELATED: Final = 10


def tags(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every tag, and how many tools have it; the most common first."""
    return _commonest(Counter(tag for entry in entries for tag in entry.tags))


def related(entries: Iterable[Entry], to: Collection[str]) -> list[tuple[str, int]]:
    """The tags that tools with any of these have besides, and how many of them do; the most common first."""
    chosen = frozenset(to)
    found = Counter(tag for entry in entries if not chosen.isdisjoint(entry.tags) for tag in entry.tags)
    return _commonest(Counter({tag: count for tag, count in found.items() if tag not in chosen}))[:MOST_RELATED]


def categories(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every category by name, and how many tools are in it."""
    return sorted(Counter(entry.category for entry in entries if entry.category).items())


def within(category: str, path: str) -> bool:
    """Whether a category is this one, or lies below it: `work/issues` is in `work`."""
    return category == path or category.startswith(f"{path.rstrip('/')}/")


def tagged(entry: Entry, wanted: Collection[str], *, every: bool = False) -> bool:
    """Whether a tool has any of these tags, or every one. Where none is wanted, it does."""
    return not wanted or (set(wanted) <= set(entry.tags) if every else not set(wanted).isdisjoint(entry.tags))


def _commonest(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda one: (-one[1], one[0]))
