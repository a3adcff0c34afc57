"""Tool search: ranked by relevance, by literal text, by tags and categories.

The ranked search works in memory, alike on every database. Its index is built in a thread at the first search of a
view, and cached while the view is current.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from tools_app.catalog.entry import Entry
from tools_app.catalog.search.index import Document, Index, Key
from tools_app.catalog.search.labels import categories, related, tagged, tags, within
from tools_app.catalog.search.literal import DEFAULT_FIELDS, Field, Hit, Match, MatchType, ranked
from tools_app.catalog.snapshot import Snapshot

__all__ = [
    "DEFAULT_FIELDS",
    "Field",
    "Hit",
    "Match",
    "MatchType",
    "categories",
    "found",
    "index_of",
    "ranked",
    "related",
    "tagged",
    "tags",
    "within",
]

# Size limit of all cached indexes together, in tools; the oldest index is evicted first.
MOST_TOOLS: Final = 60_000

_lock = threading.Lock()
_indexes: dict[Snapshot, Index] = {}
_documents: dict[Key, Document] = {}


async def found(view: Snapshot, query: str) -> list[tuple[Entry, float]]:
    """The tools of a view that match a query, best first, each with a score of at most 1."""
    index = _indexes.get(view)
    if index is None:
        index = await asyncio.to_thread(index_of, view)
    return index.search(query)


def index_of(view: Snapshot) -> Index:
    """The index of a view; for threads. Documents of earlier indexes are reused."""
    global _documents
    with _lock:
        if (index := _indexes.get(view)) is not None:
            return index
        index = Index(view.all, _documents)
        _evict(view, MOST_TOOLS - len(index))
        _indexes[view] = index
        if len(_documents) + len(index) > MOST_TOOLS:
            _documents = dict(index.documents)
        else:
            _documents |= index.documents
        return index


def _evict(view: Snapshot, room: int) -> None:
    """Delete outdated indexes, and further ones until there is room."""
    for other in list(_indexes):
        total = sum(map(len, _indexes.values()))
        if total > room or (other.revision, other.generation) != (view.revision, view.generation):
            del _indexes[other]
