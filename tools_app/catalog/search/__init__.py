"""Tool search: ranked by relevance, by literal text, by tags and categories.

The ranked search works in memory, alike on every database. Its index is built in a thread at the first search of a
view, and cached while the view is current.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from tools_app.base import hub
from tools_app.catalog.entry import Entry
from tools_app.catalog.search.index import Document, Index, Key
from tools_app.catalog.search.labels import categories, related, tagged, tags, within
from tools_app.catalog.search.literal import DEFAULT_FIELDS, Field, Hit, Match, MatchType, ranked
from tools_app.catalog.search.sources import LikelySource, abouts_of, findable, is_findable, likeliest, source_named
from tools_app.catalog.snapshot import Snapshot

__all__ = [
    "DEFAULT_FIELDS",
    "Field",
    "Hit",
    "LikelySource",
    "Match",
    "MatchType",
    "categories",
    "findable",
    "found",
    "index_of",
    "is_findable",
    "likeliest",
    "ranked",
    "related",
    "source_named",
    "tagged",
    "tags",
    "within",
]

# Size limit of all cached indexes together, in tools; the oldest index is evicted first.
MOST_TOOLS: Final = 60_000


class SearchState:
    """The indexes of a hub."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.indexes: dict[Snapshot, Index] = {}
        self.documents: dict[Key, Document] = {}


async def found(view: Snapshot, query: str, source: str = "") -> list[tuple[Entry, float]]:
    """The tools of a view, or of one source in it, that match a query: best first, each with a score of at most 1."""
    index = hub.part(SearchState).indexes.get(view)
    if index is None:
        index = await asyncio.to_thread(index_of, view)
    return index.search(query, source)


def index_of(view: Snapshot) -> Index:
    """The index of a view; for threads. Documents of earlier indexes are reused."""
    state = hub.part(SearchState)
    with state.lock:
        if (index := state.indexes.get(view)) is not None:
            return index
        index = Index(view.all, state.documents)
        abouts_of(view)
        _evict(state.indexes, view, MOST_TOOLS - len(index))
        state.indexes[view] = index
        if len(state.documents) + len(index) > MOST_TOOLS:
            state.documents = dict(index.documents)
        else:
            state.documents |= index.documents
        return index


def _evict(indexes: dict[Snapshot, Index], view: Snapshot, room: int) -> None:
    """Delete outdated indexes, and further ones until there is room."""
    for other in list(indexes):
        total = sum(map(len, indexes.values()))
        if total > room or other.build is not view.build:
            del indexes[other]
