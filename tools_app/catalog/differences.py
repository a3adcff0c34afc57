"""What changed between two versions of a tool, for every channel; both as `Tool.definition()` returns them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools_app.catalog import schema_table
from tools_app.catalog.schema_table import SchemaRow
from tools_app.sdk.spec import ToolSpec

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
# These are compared by their parts, each under its own name.
SCHEMAS: Final = {"inputSchema": "parameter", "outputSchema": "value"}
HINTS: Final = "annotations"
# Display order; fields of offers follow alphabetically. Databases do not keep the order of keys.
_LONG: Final = (HINTS, *SCHEMAS, "examples")
_ORDER: Final = (*(field.key for field in ToolSpec.fields() if field.key not in _LONG), *_LONG)
# The columns of a schema table that are compared.
ASPECTS: Final = ("type", "required", "default", "constraints", "description")


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed part.

    For a field with parts, `piece` is the hint or the path of the value, and `aspect` its changed property.
    """

    kind: str
    field: str
    piece: str = ""
    aspect: str = ""
    before: Any = None
    after: Any = None

    @property
    def part(self) -> str:
        """The path of the change, for programs and people."""
        if not self.piece:
            return self.field
        return " ".join(filter(None, (SCHEMAS.get(self.field, "hint"), self.piece, self.aspect)))


def between(before: object, after: object) -> list[Difference]:
    """All differences, in display order."""
    return list(_between(_mapping(before), _mapping(after)))


def readable(value: Any) -> str:
    """One side of a difference as text; empty if there is none."""
    if _is_nothing(value):
        return ""
    if isinstance(value, str | SchemaRow):
        return str(value)
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _between(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for field in dict.fromkeys((*_ORDER, *sorted(old.keys() | new.keys()))):
        before, after = old.get(field), new.get(field)
        if before == after:
            continue
        if field in SCHEMAS:
            # A difference that no table shows is reported for the whole schema.
            yield from list(_of_schema(field, before, after)) or [Difference(CHANGED, field, "", "", before, after)]
        elif field == HINTS:
            yield from _of_hints(_mapping(before), _mapping(after))
        else:
            yield Difference(_kind(before, after), field, "", "", before, after)


def _of_schema(field: str, before: object, after: object) -> Iterator[Difference]:
    old = {row.path: row for row in schema_table.rows(before)}
    new = {row.path: row for row in schema_table.rows(after)}
    for path, row in new.items():
        if path not in old:
            yield Difference(ADDED, field, path, "", None, row)
            continue
        for aspect in ASPECTS:
            was, now = getattr(old[path], aspect), getattr(row, aspect)
            if was != now:
                yield Difference(CHANGED, field, path, aspect, was, now)
    for path, row in old.items():
        if path not in new:
            yield Difference(REMOVED, field, path, "", row, None)


def _of_hints(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for hint in dict.fromkeys((*new, *old)):
        if old.get(hint) != new.get(hint):
            yield Difference(_kind(old.get(hint), new.get(hint)), HINTS, hint, "", old.get(hint), new.get(hint))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _kind(before: Any, after: Any) -> str:
    return ADDED if _is_nothing(before) else REMOVED if _is_nothing(after) else CHANGED


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [], {})
