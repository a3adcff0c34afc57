"""Finding tools by what they are called and what they say, the best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tools_app.catalog import Entry

MatchType = Literal["partial", "prefix", "exact"]
Field = Literal["name", "description", "category", "tags"]

# What a match in each of them is worth; the names in the order in which they are looked at.
WEIGHTS: Final[dict[Field, float]] = {"name": 1.0, "description": 0.7, "tags": 0.6, "category": 0.5}
DEFAULT_FIELDS: Final[tuple[Field, ...]] = ("name", "description")


@dataclass(frozen=True, slots=True)
class Match:
    """Where in a field the query begins. Of several tags, in the one that fits best."""

    field: Field
    position: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found. The score is 1 at most."""

    entry: Entry
    score: float
    matches: tuple[Match, ...]


def ranked(
    entries: Iterable[Entry],
    query: str,
    *,
    match_type: MatchType = "partial",
    fields: Sequence[Field] = DEFAULT_FIELDS,
    case_sensitive: bool = False,
) -> list[Hit]:
    """The tools in which the query occurs, best first, and by name where two are as good."""
    shaped: Callable[[str], str] = str if case_sensitive else str.lower
    wanted = shaped(query.strip())
    looked_at = [field for field in WEIGHTS if field in fields]
    found = []
    for entry in entries:
        matches = tuple(
            match
            for field in looked_at
            if (match := _match(field, [shaped(text) for text in _texts(entry, field)], wanted, match_type))
        )
        if matches:
            score = min(1.0, sum(match.score * WEIGHTS[match.field] for match in matches))
            found.append(Hit(entry, score, matches))
    return sorted(found, key=lambda hit: (-hit.score, hit.entry.name))


def tags(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every tag, and how many tools have it; the most common first."""
    return sorted(Counter(tag for entry in entries for tag in entry.tags).items(), key=lambda one: (-one[1], one[0]))


def categories(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    """Every category by name, and how many tools are in it."""
    return sorted(Counter(entry.category for entry in entries if entry.category).items())


def _texts(entry: Entry, field: Field) -> Sequence[str]:
    return entry.tags if field == "tags" else (getattr(entry, field),)


def _match(field: Field, texts: Sequence[str], wanted: str, match_type: MatchType) -> Match | None:
    found = [Match(field, text.find(wanted), _score(text, wanted, match_type)) for text in texts if wanted in text]
    best = max(found, key=lambda match: match.score, default=None)
    return best if best is not None and best.score else None


def _score(text: str, wanted: str, match_type: MatchType) -> float:
    """The earlier a match begins and the more of the text it covers, the better. 0 where it is none of that type."""
    match match_type:
        case "exact":
            return 1.0 if text == wanted else 0.0
        case "prefix":
            return 0.9 if text.startswith(wanted) else 0.0
    return 0.7 * (1 - text.find(wanted) / len(text)) + 0.3 * len(wanted) / len(text)
