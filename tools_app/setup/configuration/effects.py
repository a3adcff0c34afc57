"""What the callers of a hub can use: which tools each key gains or loses by a change, and what its list costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from django.utils import timezone

from tools_app.catalog import listed
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import ApiKey
from tools_app.sdk.context import Caller

MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class KeyReach:
    """What a key can call, and the tokens of the list that its agents read."""

    tools: frozenset[str]
    tokens: int


def reaches(snapshot: Snapshot) -> dict[str, KeyReach]:
    """Of all usable keys, by name."""
    keys = ApiKey.objects.usable(timezone.now()).prefetch_related("toolsets", "connections").order_by("name")
    return {key.name: _reach(snapshot, key) for key in keys}


def _reach(snapshot: Snapshot, key: ApiKey) -> KeyReach:
    view = snapshot.seen_by(Caller("key", f"key:{key.pk}", key.name, frozenset(key.scopes), key.reach))
    return KeyReach(frozenset(entry.shown_name for entry in view.callable), listed.cost_of_list(view))


def in_words(before: Mapping[str, KeyReach], after: Mapping[str, KeyReach]) -> Iterator[str]:
    """One sentence for each key that gains or loses something."""
    nothing = KeyReach(frozenset(), 0)
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, nothing), after.get(name, nothing)
        parts = []
        if gained := now.tools - was.tools:
            parts.append(f"gains {_tools(gained)}")
        if lost := was.tools - now.tools:
            parts.append(f"loses {_tools(lost)}")
        if was.tokens != now.tokens:
            parts.append(f"its list of tools costs {was.tokens:,} → {now.tokens:,} tokens")
        if parts:
            yield f"agents with the key {name}: {'; '.join(parts)}"


def _tools(names: frozenset[str]) -> str:
    shown = ", ".join(sorted(names)[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    number = f"{len(names):,} tool{'' if len(names) == 1 else 's'}"
    return f"{number} ({shown}{f' and {more:,} more' if more > 0 else ''})"
