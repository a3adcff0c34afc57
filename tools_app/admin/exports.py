"""Exports of lists as CSV or JSON: streamed, and limited in rows."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from tools_app.base import database, paging

MOST_ROWS: Final = 50_000
AT_ONCE: Final = 1_000
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
# Cells that begin with these are formulas; in Japanese spreadsheets, also in full width.
# Spreadsheets that use semicolons (many European locales) also start a cell in the middle of a quoted text.
_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA: Final = re.compile(rf"\A(?=[\t\r\n])|(?:\A|(?<=[;\t\r\n]))(?=[ \"']*+[{_SIGNS}])")

# Column name -> attribute of the row.
Columns = Mapping[str, str]


def columns(*fields: str, **renamed: str) -> Columns:
    """Columns named as over REST, after fields: `lastCallId`. Times and names lose their suffix: `started`, `tool`."""
    names = {renamed.pop(field, field.removesuffix("_at").removesuffix("_name")): field for field in fields}
    return {re.sub("_(.)", lambda letter: letter[1].upper(), name): field for name, field in names.items()}


@dataclass(frozen=True, slots=True)
class Export:
    """A list, newest first by `moment`, or by primary key where that is None."""

    name: str
    rows: QuerySet[Any]
    columns: Columns
    moment: str | None
    # Of a search, which is not repeated for each batch: the keys of its rows, in this order.
    keys: Sequence[str] | None = None

    def response(self, form: str) -> StreamingHttpResponse:
        """The file. Rows created meanwhile are not included, and no row is included twice."""
        lines = self._csv() if form == "csv" else self._json()
        return attachment(lines, f"{self.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.{form}", FORMATS[form])

    async def _csv(self) -> AsyncIterator[bytes]:
        yield line(*self.columns)
        async for batch, _ in self._batches():
            yield b"".join(line(*(getattr(row, field) for field in self.columns.values())) for row in batch)

    async def _json(self) -> AsyncIterator[bytes]:
        yield b'{"rows":['
        before, complete = b"\n", True
        async for batch, ends in self._batches():
            rows = [{name: _plain(getattr(row, field)) for name, field in self.columns.items()} for row in batch]
            yield before + b",\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows)
            before, complete = b",\n", ends
        yield b'\n],"complete":%b,"mostRows":%d}\n' % (json.dumps(complete).encode(), MOST_ROWS)

    async def _batches(self) -> AsyncIterator[tuple[list[Any], bool]]:
        """Batches of rows, each with True if no rows are left out after it."""
        if self.keys is not None:
            async for found in self._of_keys(self.keys):
                yield found
            return
        ordered_rows = self.rows.order_by(*([f"-{self.moment}"] if self.moment else []), "-pk")
        rows, number = ordered_rows, 0
        while number < MOST_ROWS:
            most = min(AT_ONCE, MOST_ROWS - number)
            page = await database.run(list, rows[: most + 1])
            batch = page[:most]
            number += len(batch)
            if batch:
                yield batch, len(page) <= most
            if len(page) <= most:
                return
            last = batch[-1]
            rows = paging.after(ordered_rows, last.pk, self.moment, getattr(last, self.moment) if self.moment else None)

    async def _of_keys(self, keys: Sequence[str]) -> AsyncIterator[tuple[list[Any], bool]]:
        for start in range(0, min(len(keys), MOST_ROWS), AT_ONCE):
            part = keys[start : min(start + AT_ONCE, MOST_ROWS)]
            found = await database.run(self.rows.order_by().in_bulk, part)
            # What has been deleted meanwhile is not there any more.
            yield [found[key] for key in part if key in found], start + AT_ONCE < MOST_ROWS or len(keys) <= MOST_ROWS


def attachment(parts: AsyncIterator[bytes], name: str, content_type: str) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        parts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )


async def in_threads(texts: Iterator[str]) -> AsyncIterator[bytes]:
    """Texts that are read from the database, each in a thread for it."""
    while text := await database.run(next, texts, ""):
        yield text.encode(errors="replace")


def safe_cell(value: Any) -> str:
    """A cell that spreadsheets do not evaluate as a formula."""
    text = _text(value)
    return _FORMULA.sub("'", text) if isinstance(value, str | dict | list) else text


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(UTC).isoformat()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


def _plain(value: Any) -> Any:
    return _text(value) if isinstance(value, datetime) else value


def line(*values: Any) -> bytes:
    """A row of a CSV file, whose cells no spreadsheet evaluates."""
    text = io.StringIO()
    csv.writer(text).writerow(map(safe_cell, values))
    return text.getvalue().encode(errors="replace")
