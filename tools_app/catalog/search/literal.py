"""Literal search: tools whose names or texts contain the query, best first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from tools_app.catalog.entry import Entry

MatchType = Literal["partial", "prefix", "exact"]
Field = Literal["name", "description", "category", "tags"]

# Weight of a match per field, in search order.
WEIGHTS: Final[dict[Field, float]] = {"name": 1.0, "description": 0.7, "tags": 0.6, "category": 0.5}
DEFAULT_FIELDS: Final[tuple[Field, ...]] = ("name", "description")


class Match(NamedTuple):
    """Where the query occurs in a field; of several tags or names, the best match."""

    field: Field
    position: int
    score: float


class Hit(NamedTuple):
    """A matching tool. The score is at most 1."""

    entry: Entry
    score: float
    matches: list[Match]


def ranked(
    entries: Iterable[Entry],
    query: str,
    *,
    match_type: MatchType = "partial",
    fields: Sequence[Field] = DEFAULT_FIELDS,
    case_sensitive: bool = False,
) -> list[Hit]:
    """The tools that contain the query, best first; equal ones by name."""
    needle = query.strip() if case_sensitive else query.strip().lower()
    searched_fields = [field for field in WEIGHTS if field in fields]
    hits = []
    for entry in entries:
        matches = []
        for field in searched_fields:
            best = None
            for text in _texts(entry, field):
                haystack = text if case_sensitive else text.lower()
                if needle in haystack and (score := _score(haystack, needle, match_type)):
                    match = Match(field, haystack.find(needle), score)
                    best = match if best is None or score > best.score else best
            if best is not None:
                matches.append(best)
        if matches:
            score = sum(match.score * WEIGHTS[match.field] for match in matches)
            hits.append(Hit(entry, min(1.0, score), matches))
    return sorted(hits, key=lambda hit: (-hit.score, hit.entry.name))


def _texts(entry: Entry, field: Field) -> Sequence[str]:
    match field:
        case "tags":
            return entry.tags
        case "name" if entry.alias:
            return entry.alias, entry.name
    return (getattr(entry, field),)


def _score(text: str, needle: str, match_type: MatchType) -> float:
    """Earlier matches that cover more of the text score higher. 0 if it does not match."""
    match match_type:
        case "exact":
            return 1.0 if text == needle else 0.0
        case "prefix":
            return 0.9 if text.startswith(needle) else 0.0
    return 0.7 * (1 - text.find(needle) / len(text)) + 0.3 * len(needle) / len(text)
