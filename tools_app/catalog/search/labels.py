"""Tags and categories, with the number of tools that have each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from tools_app.catalog.entry import Entry

MOST_RELATED: Final = 10


def tags(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every tag with its number of tools, most common first."""
    return _commonest(Counter(tag for entry in entries for tag in entry.tags))


def related(entries: Iterable[Entry], to: Collection[str]) -> list[tuple[str, int]]:
    """The other tags of tools that have any of these, with their number of tools, most common first."""
    given_tags = frozenset(to)
    counts = Counter(tag for entry in entries if not given_tags.isdisjoint(entry.tags) for tag in entry.tags)
    return _commonest(Counter({tag: count for tag, count in counts.items() if tag not in given_tags}))[:MOST_RELATED]


def categories(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every category by name, with its number of tools."""
    return sorted(Counter(entry.category for entry in entries if entry.category).items())


def within(category: str, path: str) -> bool:
    """True if a category is `path` or below it: `work/issues` is in `work`."""
    return category == path or category.startswith(f"{path.rstrip('/')}/")


def tagged(entry: Entry, tag_names: Collection[str], *, every: bool = False) -> bool:
    """True if a tool has any of these tags, or all of them with `every`. True without tags."""
    return not tag_names or (set(tag_names) <= set(entry.tags) if every else not set(tag_names).isdisjoint(entry.tags))


def _commonest(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
