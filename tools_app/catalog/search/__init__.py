"""Finding tools: ranked by what a question is about, by a text as it stands, by tags and categories.

The ranked search is in memory and the same on every database. Its index is made when somebody first searches what a
caller sees, in a thread, and kept until that is no longer true.
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

# The tools of all indexes that are kept at once; the one that was made longest ago goes first.
MOST_TOOLS: Final = 60_000

_lock = threading.Lock()
_indexes: dict[Snapshot, Index] = {}
_documents: dict[Key, Document] = {}


async def found(seen: Snapshot, query: str) -> list[tuple[Entry, float]]:
    """What `seen` holds that has to do with a question, the best first, each with a score of 1 at most."""
    index = _indexes.get(seen)
    if index is None:
        index = await asyncio.to_thread(index_of, seen)
    return index.found(query)


def index_of(seen: Snapshot) -> Index:
    """The index of what a caller sees; for threads. What earlier ones knew of a tool is used again."""
    global _documents
    with _lock:
        if (index := _indexes.get(seen)) is not None:
            return index
        index = Index(seen.all, _documents)
        _forget(seen, MOST_TOOLS - len(index))
        _indexes[seen] = index
        if len(_documents) + len(index) > MOST_TOOLS:
            _documents = dict(index.documents)
        else:
            _documents |= index.documents
        return index


def _forget(seen: Snapshot, room: int) -> None:
    """Let go of what is not true any more, and of as much as others need the room for."""
    for other in list(_indexes):
        held = sum(map(len, _indexes.values()))
        if held > room or (other.revision, other.generation) != (seen.revision, seen.generation):
            del _indexes[other]
