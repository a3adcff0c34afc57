"""Which items of a page are wanted (`where`), and what of them (`fields`). No language: a list of plain comparisons,
each as quick as it looks, whoever wrote it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools_app.answers.pointers import PointerError, found

MOST_CONDITIONS: Final = 8
MOST_FIELDS: Final = 32

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "contains", "exists"]
Plain = str | int | float | bool | None

_ABSENT: Final = object()
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """`field` is a key, a JSON pointer into the item, or empty for the item itself."""

    field: str
    op: Operator
    value: Plain = None

    def holds(self, item: Any) -> bool:
        there = _part(item, self.field)
        match self.op:
            case "exists":
                return (there is not _ABSENT) is (self.value is not False)
            case "eq":
                return there is not _ABSENT and _same(there, self.value)
            case "ne":
                return there is _ABSENT or not _same(there, self.value)
            case "contains":
                return _contains(there, self.value)
            case _:
                return _comparable(there, self.value) and _ORDERS[self.op](there, self.value)

    def as_dict(self) -> dict[str, Any]:
        return {"field": self.field, "op": self.op, "value": self.value}


def chosen(item: Any, fields: Sequence[str]) -> Any:
    """An object with no more than these of its members, each under the name that was asked for."""
    if not fields or not isinstance(item, dict):
        return item
    there = {name: _part(item, name) for name in fields}
    return {name: part for name, part in there.items() if part is not _ABSENT}


def _part(item: Any, field: str) -> Any:
    if not field:
        return item
    if isinstance(item, dict) and field in item:
        return item[field]
    if not field.startswith("/"):
        return _ABSENT
    try:
        return found(item, field)
    except PointerError:
        return _ABSENT


def _same(there: Any, value: Plain) -> bool:
    # In JSON, `true` is not 1.
    return isinstance(there, bool) is isinstance(value, bool) and bool(there == value)


def _comparable(there: Any, value: Plain) -> bool:
    if isinstance(there, bool) or isinstance(value, bool):
        return False
    return (isinstance(there, int | float) and isinstance(value, int | float)) or (
        isinstance(there, str) and isinstance(value, str)
    )


def _contains(there: Any, value: Plain) -> bool:
    if isinstance(there, str):
        return isinstance(value, str) and value.casefold() in there.casefold()
    if isinstance(there, list):
        return any(_same(one, value) for one in there)
    return isinstance(there, dict) and isinstance(value, str) and value in there
