"""Finding tools by a text as it stands in what they are called and what they say, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from tools_app.catalog.entry import Entry

MatchType = Literal["partial", "prefix", "exact"]
Field = Literal["name", "description", "category", "tags"]

# What a match in each of them is worth; the names in the order in which they are looked at.
WEIGHTS: Final[dict[Field, float]] = {"name": 1.0, "description": 0.7, "tags": 0.6, "category": 0.5}
DEFAULT_FIELDS: Final[tuple[Field, ...]] = ("name", "description")


class Match(NamedTuple):
    """Where in a field the query begins. Of several tags or names, in the one that fits best."""

    field: Field
    position: int
    score: float


class Hit(NamedTuple):
    """A tool that was found. The score is 1 at most."""

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
    """The tools in which the query occurs, best first, and by name where two are as good."""
    wanted = query.strip() if case_sensitive else query.strip().lower()
    looked_at = [field for field in WEIGHTS if field in fields]
    found = []
    for entry in entries:
        matches = []
        for field in looked_at:
            best = None
            for text in _texts(entry, field):
                shaped = text if case_sensitive else text.lower()
                if wanted in shaped and (score := _score(shaped, wanted, match_type)):
                    match = Match(field, shaped.find(wanted), score)
                    best = match if best is None or score > best.score else best
            if best is not None:
                matches.append(best)
        if matches:
            score = sum(match.score * WEIGHTS[match.field] for match in matches)
            found.append(Hit(entry, min(1.0, score), matches))
    return sorted(found, key=lambda hit: (-hit.score, hit.entry.name))


def _texts(entry: Entry, field: Field) -> Sequence[str]:
    match field:
        case "tags":
            return entry.tags
        case "name" if entry.alias:
            return entry.alias, entry.name
    return (getattr(entry, field),)


def _score(text: str, wanted: str, match_type: MatchType) -> float:
    """The earlier a match begins and the more of the text it covers, the better. 0 where it is none of that type."""
    match match_type:
        case "exact":
            return 1.0 if text == wanted else 0.0
        case "prefix":
            return 0.9 if text.startswith(wanted) else 0.0
    return 0.7 * (1 - text.find(wanted) / len(text)) + 0.3 * len(wanted) / len(text)
