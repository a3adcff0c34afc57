"""One audit entry for a sync of a source, whatever number of tools it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tools_app.models import Source, SourceStatus
from tools_app.models.audit import note_all
from tools_app.sources.recording import Note

# Of tools, for each kind of change.
MOST_NAMES: Final = 50
_VERBS: Final = {
    "tool.register": "registered",
    "tool.redefine": "redefined",
    "tool.return": "returned",
    "tool.retire": "retired",
}


def keep_notes(row: Source, notes: Sequence[Note]) -> None:
    """Keep what a batch has changed, in its transaction. If this process dies, the next sync writes the entry."""
    if notes:
        status = SourceStatus.objects.select_for_update().only("unnoted").get(source=row)
        SourceStatus.objects.filter(source=row).update(unnoted=merged(status.unnoted, notes))


def merged(kept: Mapping[str, Any], notes: Sequence[Note]) -> dict[str, Any]:
    changes = {verb: dict(about) for verb, about in kept.items()}
    for event, name, parts in notes:
        about = changes.setdefault(_VERBS[event], {"count": 0, "names": []})
        about["count"] += 1
        if len(about["names"]) < MOST_NAMES:
            # Versions, and the beginnings of hashes.
            details = ", ".join(f"{before[:8]} → {after[:8]}" for before, after in parts.values() if before)
            about["names"] = [*about["names"], f"{name} ({details})" if details else name]
    return changes


def note_sync(subject: str, changes_by_verb: Mapping[str, Any], actor: str) -> None:
    changes: dict[str, Any] = {}
    for verb, about in changes_by_verb.items():
        omitted = about["count"] - len(about["names"])
        names = [*about["names"], *([f"and {omitted:,} more"] if omitted else [])]
        changes |= {verb: [None, about["count"]], f"{verb}_names": [None, names]}
    if changes:
        note_all([("source.sync", subject, changes)], actor=actor)
