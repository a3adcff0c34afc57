"""The versions of a tool's definition, newest first, each with its changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from tools_app.admin import comparison, links
from tools_app.admin.comparison import DiffLine, FieldDiff
from tools_app.models import Definition, ToolRecord

MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The difference between two versions of a definition."""

    differences: Sequence[FieldDiff]
    """For readers."""
    json: Sequence[DiffLine]
    """The complete diff of the JSON."""
    truncated: bool


@dataclass(frozen=True, slots=True)
class Version:
    version: str
    hash: str
    first_seen_at: datetime
    approved_by: str
    approved_at: datetime | None
    current: bool
    address: str
    """The page on which it is decided; empty unless it waits behind the current version."""
    diff: VersionDiff | None
    """Compared with the previous version; None for the first."""


def versions(record: ToolRecord) -> list[Version]:
    """The newest definitions, each compared with the one before it."""
    definitions = list(record.definitions.all()[: MOST_SHOWN + 1])
    versions = [_version(new, record, old) for new, old in pairwise(definitions)]
    if definitions and len(definitions) <= MOST_SHOWN:
        versions.append(_version(definitions[-1], record, None))
    return versions


def since(before: Definition, definition: Definition) -> VersionDiff:
    """The difference between an older definition and this one."""
    names = (_label(before), _label(definition))
    # What strangers wrote is compared as they sent it: approvals are for that.
    is_raw = bool(before.raw and definition.raw)
    old, new = (json.loads(one.raw) if is_raw else one.body for one in (before, definition))
    json_lines, truncated = comparison.lines(readable(old), readable(new), names)
    return VersionDiff(comparison.compare(old, new), json_lines, truncated)


def _version(definition: Definition, record: ToolRecord, before: Definition | None) -> Version:
    diff = since(before, definition) if before is not None else None
    return Version(
        version=definition.version,
        hash=definition.hash,
        first_seen_at=definition.first_seen_at,
        approved_by=definition.approved_by,
        approved_at=definition.approved_at,
        current=definition.pk == record.definition_id,
        address=links.address("definition", "change", definition.pk) if definition.pk == record.offered_id else "",
        diff=diff,
    )


def _label(definition: Definition) -> str:
    return f"{definition.version} ({definition.hash[:8]})".lstrip()


def readable(value: Any, *, sort: bool = True) -> str:
    """Indented JSON; sorted by default, so that two texts can be compared."""
    return json.dumps(value, indent=2, sort_keys=sort, ensure_ascii=False, default=str)
