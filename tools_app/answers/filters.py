"""Filtering the items of a page (`where`) and selecting their members (`fields`).

Not a query language but a list of plain comparisons: the cost of any input is bounded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools_app.answers.pointers import PointerError, resolve

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
    """`field` is a key, a JSON pointer into the item (`*`: each), or empty for the item itself."""

    field: str
    op: Operator
    value: Plain = None

    def holds(self, item: Any) -> bool:
        actual = _part(item, self.field)
        match self.op:
            case "exists":
                return (actual is not _ABSENT) is (self.value is not False)
            case "eq":
                return actual is not _ABSENT and _same(actual, self.value)
            case "ne":
                return actual is _ABSENT or not _same(actual, self.value)
            case "contains":
                return _contains(actual, self.value)
            case _:
                return _comparable(actual, self.value) and _ORDERS[self.op](actual, self.value)

    def as_dict(self) -> dict[str, Any]:
        return {"field": self.field, "op": self.op, "value": self.value}


def chosen(item: Any, fields: Sequence[str]) -> Any:
    """An object with only these members, each under the requested name."""
    if not fields or not isinstance(item, dict):
        return item
    members = {name: _part(item, name) for name in fields}
    return {name: part for name, part in members.items() if part is not _ABSENT}


def _part(item: Any, field: str) -> Any:
    if not field:
        return item
    if isinstance(item, dict) and field in item:
        return item[field]
    if not field.startswith("/"):
        return _ABSENT
    try:
        return resolve(item, field)
    except PointerError:
        return _each(item, field)


def _each(item: Any, field: str) -> Any:
    """The values at a pointer in which `*` stands for every item: as a list."""
    before, star, after = field.partition("/*")
    if not star or not (not after or after.startswith("/")):
        return _ABSENT
    try:
        items = resolve(item, before)
    except PointerError:
        return _ABSENT
    values = items.values() if isinstance(items, dict) else items if isinstance(items, list) else ()
    parts = [_part(value, after) if after else value for value in values]
    return [part for part in parts if part is not _ABSENT]


def _same(actual: Any, value: Plain) -> bool:
    # In JSON, `true` is not 1.
    return isinstance(actual, bool) is isinstance(value, bool) and bool(actual == value)


def _comparable(actual: Any, value: Plain) -> bool:
    if isinstance(actual, bool) or isinstance(value, bool):
        return False
    return (isinstance(actual, int | float) and isinstance(value, int | float)) or (
        isinstance(actual, str) and isinstance(value, str)
    )


def _contains(actual: Any, value: Plain) -> bool:
    if isinstance(actual, str):
        return isinstance(value, str) and value.casefold() in actual.casefold()
    if isinstance(actual, list):
        return any(_same(item, value) for item in actual)
    return isinstance(actual, dict) and isinstance(value, str) and value in actual
