"""What a tool was over time: its definitions, newest first, each with what it changed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from tools_app.models import Definition, ToolRecord

MOST_SHOWN: Final = 10
# A comparison takes time with the square of its length: what is longer is said to be, not compared.
MOST_LINES: Final = 2_000
MOST_DIFFERENCES: Final = 300


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference, and what it is: added, removed, kept, or the place."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Version:
    version: str
    hash: str
    first_seen_at: datetime
    approved_by: str
    approved_at: datetime | None
    current: bool
    difference: Sequence[Line]
    cut: bool


def versions(record: ToolRecord) -> list[Version]:
    """The newest definitions, each compared with the one before it."""
    found = list(record.definitions.all()[: MOST_SHOWN + 1])
    shown = [_version(new, record, *_difference(old, new)) for new, old in pairwise(found)]
    if found and len(found) <= MOST_SHOWN:
        shown.append(_version(found[-1], record, [], False))
    return shown


def _version(definition: Definition, record: ToolRecord, difference: Sequence[Line], cut: bool) -> Version:
    return Version(
        version=definition.version,
        hash=definition.hash,
        first_seen_at=definition.first_seen_at,
        approved_by=definition.approved_by,
        approved_at=definition.approved_at,
        current=definition.pk == record.definition_id,
        difference=difference,
        cut=cut,
    )


def _difference(old: Definition, new: Definition) -> tuple[list[Line], bool]:
    before, after = readable(old.body).splitlines(), readable(new.body).splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return [Line("place", "Too long to compare here.")], True
    compared = difflib.unified_diff(before, after, _label(old), _label(new), lineterm="", n=2)
    lines = [Line(_kind(text), text) for text in compared]
    return lines[:MOST_DIFFERENCES], len(lines) > MOST_DIFFERENCES


def _label(definition: Definition) -> str:
    return f"{definition.version} ({definition.hash[:8]})"


def _kind(text: str) -> str:
    if text.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(text[:1], "kept")


def readable(value: Any, *, sort: bool = True) -> str:
    """JSON as people read it; sorted, two of them can be compared."""
    return json.dumps(value, indent=2, sort_keys=sort, ensure_ascii=False, default=str)
