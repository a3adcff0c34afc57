"""What a tool was over time: its definitions, newest first, each with what it changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from tools_app.admin import comparison
from tools_app.admin.comparison import Difference, DiffLine
from tools_app.models import Definition, ToolRecord

MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Changed:
    """What a definition changed."""

    differences: Sequence[Difference]
    """In words."""
    json: Sequence[DiffLine]
    """The same line by line, everything that there is."""
    cut: bool


@dataclass(frozen=True, slots=True)
class Version:
    version: str
    hash: str
    first_seen_at: datetime
    approved_by: str
    approved_at: datetime | None
    current: bool
    changed: Changed | None
    """Since the one before it; none where it is the first."""


def versions(record: ToolRecord) -> list[Version]:
    """The newest definitions, each compared with the one before it."""
    found = list(record.definitions.all()[: MOST_SHOWN + 1])
    shown = [_version(new, record, old) for new, old in pairwise(found)]
    if found and len(found) <= MOST_SHOWN:
        shown.append(_version(found[-1], record, None))
    return shown


def since(before: Definition, definition: Definition) -> Changed:
    """What is different about a definition since an older one."""
    names = (_label(before), _label(definition))
    json_lines, cut = comparison.lines(readable(before.body), readable(definition.body), names)
    return Changed(comparison.compared(before.body, definition.body), json_lines, cut)


def _version(definition: Definition, record: ToolRecord, before: Definition | None) -> Version:
    changed = since(before, definition) if before is not None else None
    return Version(
        version=definition.version,
        hash=definition.hash,
        first_seen_at=definition.first_seen_at,
        approved_by=definition.approved_by,
        approved_at=definition.approved_at,
        current=definition.pk == record.definition_id,
        changed=changed,
    )


def _label(definition: Definition) -> str:
    return f"{definition.version} ({definition.hash[:8]})"


def readable(value: Any, *, sort: bool = True) -> str:
    """JSON as people read it; sorted, two of them can be compared."""
    return json.dumps(value, indent=2, sort_keys=sort, ensure_ascii=False, default=str)
