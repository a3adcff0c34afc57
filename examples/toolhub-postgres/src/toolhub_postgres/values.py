"""Rows as JSON. The server sends every value as text that it has cut: a value of a gigabyte stays where it is."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Characters of one value, of all values of a row, and of an answer.
MOST_VALUE: Final = 10_000
MOST_ROW: Final = 1_000_000
MOST_ANSWER: Final = 1_000_000
# Bytes that one request for rows can bring; a character has up to four.
MOST_FETCH: Final = 8_000_000
# JSON numbers beyond this are other numbers in many clients.
MOST_EXACT: Final = 2**53

_BOOL, _INTEGERS, _FLOATS, _JSON = 16, frozenset({20, 21, 23, 26}), frozenset({700, 701}), frozenset({114, 3802})


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    oid: int
    type: str

    def read(self, text: str) -> Any:
        """The JSON value of a text of this type. What JSON has no exact form for stays text: numeric, dates, arrays."""
        if self.oid == _BOOL:
            return text == "true"
        if self.oid in _INTEGERS:
            number = int(text)
            return number if abs(number) <= MOST_EXACT else text
        if self.oid in _FLOATS:
            return float(text) if math.isfinite(float(text)) else text
        if self.oid in _JSON:
            try:
                return json.loads(text, parse_float=_finite)
            except (ValueError, RecursionError):
                return text
        return text


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def most_characters(columns: int) -> int:
    """Of one value, in a row of so many columns."""
    return max(1, min(MOST_VALUE, MOST_ROW // columns))


def selection(sql: str, columns: int) -> str:
    """The statement around an agent's own that cuts its values. One character more shows that something was cut."""
    names = [f"c{number}" for number in range(columns)]
    cuts = (f"pg_catalog.left({name}::pg_catalog.text, {most_characters(columns) + 1})" for name in names)
    # On lines of its own, so that a comment at its end does not comment out the parenthesis.
    return f"SELECT {', '.join(cuts)} FROM (\n{sql}\n) AS q ({', '.join(names)})"  # noqa: S608 – it is checked alone first


@dataclass(slots=True)
class Rows:
    """The rows of one answer, as they are collected."""

    columns: Sequence[Column]
    most: int
    rows: list[list[Any]] = field(default_factory=list)
    # The columns with values that were cut, in order.
    cut: dict[str, None] = field(default_factory=dict)
    has_more: bool = False
    characters: int = 0

    @property
    def wanted(self) -> int:
        """How many rows to fetch next: one more than fits shows that there are more."""
        row_bytes = 4 * (most_characters(len(self.columns)) + 1) * len(self.columns)
        return max(1, min(self.most + 1 - len(self.rows), MOST_FETCH // row_bytes))

    def take(self, row: Sequence[str | None]) -> None:
        size = sum(len(text) for text in row if text is not None)
        if len(self.rows) == self.most or (self.rows and self.characters + size > MOST_ANSWER):
            self.has_more = True
            return
        self.characters += size
        self.rows.append([self._value(column, text) for column, text in zip(self.columns, row, strict=True)])

    def _value(self, column: Column, text: str | None) -> Any:
        if text is None:
            return None
        most = most_characters(len(self.columns))
        if len(text) > most:
            self.cut[column.name] = None
            return f"{text[:most]}…"
        return column.read(text)
