"""Rows of data tables: n8n's own small database, which workflows share. n8n 2 and later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tools_app.http.bodies import TooLarge
from tools_app.packs.n8n import Id, pack
from tools_app.packs.n8n.refusals import in_its_words
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import as_object
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says

_TAGS: Final = ("n8n", "tables")
_RESOURCE: Final = "Data table"
_MOST_ROWS: Final = 100
# Changed rows that an answer repeats.
_SHOWN_ROWS: Final = 20
# Conditions go into the address of a request.
_LONGEST_VALUE: Final = 500
_WITHOUT_VALUE: Final = ("isEmpty", "isNotEmpty")
_OF_ALL: Final = ("id", "createdAt", "updatedAt")
_CHANGED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "rows": {"type": "array", "items": {"type": "object"}},
        "_guidance": {"type": "object"},
    },
    "required": ["count", "rows"],
}


class Condition(BaseModel):
    model_config = ConfigDict(extra="forbid")

    column: Annotated[str, Field(min_length=1, max_length=63)]
    op: Annotated[
        Literal["eq", "neq", "like", "ilike", "gt", "gte", "lt", "lte", "isEmpty", "isNotEmpty"],
        Field(description="like, ilike: % matches any text"),
    ] = "eq"
    value: Any = None


TableId = Annotated[
    Id, "Id of the table, from list_n8n_resources", Says("Data table ID is required"), Field(alias="id")
]
# n8n compares types with those of the columns; null empties a value.
Row = Annotated[dict[str, Any], Field(min_length=1, max_length=100)]
Conditions = Annotated[list[Condition], Field(max_length=20)]
Chosen = Annotated[list[Condition], Field(min_length=1, max_length=20), "Which rows; id, createdAt, updatedAt too"]
Match = Annotated[Literal["all", "any"], "Conditions that must hold"]


def _query(conditions: list[Condition], match: str) -> dict[str, Any]:
    """What n8n filters by. A missing value would be null: `neq` would match every row.

    Raises:
        InvalidArgumentsError: a condition has no value, or one that n8n cannot compare.
    """
    problems = [
        Problem(f"/filter/{number}/value", f"filter/{number}: value {wrong}")
        for number, each in enumerate(conditions)
        if (wrong := _wrong_value(each))
    ]
    if problems:
        raise InvalidArgumentsError(problems=problems)
    filters = [{"columnName": each.column, "condition": each.op, "value": each.value} for each in conditions]
    return {"type": "and" if match == "all" else "or", "filters": filters}


def _wrong_value(condition: Condition) -> str:
    value = condition.value
    if condition.op in _WITHOUT_VALUE:
        return ""
    if value is None:
        return "is missing; only isEmpty and isNotEmpty have none"
    if not isinstance(value, str | int | float):
        return "must be a string, a number, true or false"
    return f"is longer than {_LONGEST_VALUE:,} characters" if len(str(value)) > _LONGEST_VALUE else ""


@contextmanager
def _repeating_rows(operation: str) -> Iterator[None]:
    """A change whose answer repeats all of its rows, of which n8n has no other kind: they can be too many to read."""
    with in_its_words(operation):
        try:
            yield
        except UpstreamInvalidResponseError as error:
            if isinstance(error.__cause__, TooLarge):
                error.next_step = (
                    "n8n has probably made the change: its answer was too large to read. Look with "
                    "list_data_table_rows before you repeat it."
                )
            raise


def _changed(table_id: str, rows: Any) -> dict[str, Any]:
    found = [each for each in as_list(rows) if isinstance(each, dict)]
    return readable({"id": table_id, "count": len(found), "rows": found[:_SHOWN_ROWS]})


def _look(data: dict[str, Any]) -> dict[str, str]:
    more = f" Only the first {_SHOWN_ROWS} rows are shown." if data["count"] > _SHOWN_ROWS else ""
    return {
        "message": f"list_data_table_rows shows the rows as they are now.{more}",
        "example": f"list_data_table_rows(id: {quoted(data['id'])})",
    }


@pack.tool(
    title="List data table rows",
    category="tables",
    tags=(*_TAGS, "list"),
    keywords=(
        "read a data table of n8n, records, entries that automations store, filter, look up",
        "データテーブルの行 レコードを読む 検索 絞り込み",
    ),
    hints=Hints(read_only=True),
    done="Rows retrieved",
    guidance=lambda data: {
        "message": "Repeat it with all its arguments and nextCursor as cursor for the next page."
        if data["nextCursor"]
        else "There are no more rows.",
        "example": f"list_data_table_rows(id: {quoted(data['id'])}, limit: 100)",
    },
    examples=[
        Example(
            "Open orders, the newest first",
            {"id": "dT7sK2mQ9xW4eR1a", "filter": [{"column": "status", "value": "open"}], "sort": "createdAt:desc"},
            shown_only=True,
        )
    ],
    output_schema={
        **_CHANGED,
        "properties": {**_CHANGED["properties"], "nextCursor": {"type": ["string", "null"]}},
        "required": ["count", "rows", "nextCursor"],
    },
)
async def list_data_table_rows(
    ctx: Context,
    table_id: TableId,
    filter: Annotated[Conditions | None, "Only these rows"] = None,
    match: Match = "all",
    search: Annotated[str, Field(max_length=200), "Text in any text column"] = "",
    sort: Annotated[str, Field(max_length=80, pattern=r"^$|^[^:]+:(asc|desc)$"), "column:asc or column:desc"] = "",
    limit: Annotated[int, Field(ge=1, le=_MOST_ROWS), "Page size"] = 50,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor; repeat the other arguments"] = "",
) -> dict[str, Any]:
    """List rows of an n8n data table. Needs n8n 2 or later."""
    operation = "list data table rows"
    if sort:
        await _check_column(ctx, table_id, sort.rpartition(":")[0], operation)
    params = {
        "filter": json.dumps(_query(filter, match), ensure_ascii=False) if filter else None,
        "search": search or None,
        "sortBy": sort or None,
        "limit": limit,
        "cursor": cursor or None,
    }
    with in_its_words(operation):
        page = as_object(
            await ctx.http.get("data-tables", table_id, "rows", operation=operation, resource=_RESOURCE, params=params),
            operation,
        )
    rows = [dict(as_map(each)) for each in as_list(page.get("data"))[:limit]]
    return readable({"id": table_id, "count": len(rows), "rows": rows, "nextCursor": page.get("nextCursor")})


async def _check_column(ctx: Context, table_id: str, name: str, operation: str) -> None:
    """n8n answers 500 for a column that it does not have.

    Raises:
        InvalidArgumentsError: the table has no such column.
    """
    columns = await ctx.http.get("data-tables", table_id, "columns", operation=operation, resource=_RESOURCE)
    names = [str(as_map(each).get("name")) for each in as_list(columns)]
    if name not in (*_OF_ALL, *names):
        problem = Problem("/sort", f"sort: the table has no column {words(name, 80)!r}")
        listed = ", ".join(words(each, 80) for each in (*names[:50], *_OF_ALL))
        raise InvalidArgumentsError(problems=[problem], next_step=f"Its columns: {listed}.")


@pack.tool(
    title="Insert data table rows",
    category="tables",
    tags=(*_TAGS, "write"),
    keywords=("add records to a data table of n8n, append entries, fill", "データテーブルに行を追加 レコードを登録"),
    hints=Hints(destructive=False),
    done="Rows inserted",
    guidance=_look,
    examples=[Example("Two rows", {"id": "dT7sK2mQ9xW4eR1a", "rows": [{"name": "A"}, {"name": "B"}]}, shown_only=True)],
    output_schema=_CHANGED,
)
async def insert_data_table_rows(
    ctx: Context,
    table_id: TableId,
    rows: Annotated[list[Row], Field(min_length=1, max_length=_MOST_ROWS), "Values by column"],
) -> dict[str, Any]:
    """Insert rows into an n8n data table. Needs n8n 2 or later."""
    operation = "insert data table rows"
    with in_its_words(operation):
        response = await ctx.http.post(
            *("data-tables", table_id, "rows"),
            operation=operation,
            resource=_RESOURCE,
            json={"data": rows, "returnType": "all"},
        )
    return _changed(table_id, response.data)


@pack.tool(
    title="Update data table rows",
    category="tables",
    tags=(*_TAGS, "write"),
    keywords=("change records of a data table of n8n, set values, upsert", "データテーブルの行を更新 値を変更"),
    # What else matches meanwhile is changed, too, and upsert may insert a second row.
    hints=Hints(destructive=True),
    done="Rows updated",
    guidance=_look,
    examples=[
        Example(
            "Close an order",
            {
                "id": "dT7sK2mQ9xW4eR1a",
                "filter": [{"column": "order", "value": 7}],
                "values": {"status": "closed"},
            },
            shown_only=True,
        )
    ],
    output_schema=_CHANGED,
)
async def update_data_table_rows(
    ctx: Context,
    table_id: TableId,
    filter: Chosen,
    values: Annotated[Row, "New values by column; others stay"],
    match: Match = "all",
    upsert: Annotated[bool, "Insert a row with these values if none matches"] = False,
) -> dict[str, Any]:
    """Change all rows that match, in an n8n data table. Needs n8n 2 or later."""
    operation = "update data table rows"
    method, path = ("POST", "upsert") if upsert else ("PATCH", "update")
    with _repeating_rows(operation):
        response = await ctx.http.request(
            *(method, "data-tables", table_id, "rows", path),
            operation=operation,
            resource=_RESOURCE,
            json={"filter": _query(filter, match), "data": values, "returnData": True},
        )
    return _changed(table_id, response.data)


@pack.tool(
    title="Delete data table rows",
    category="tables",
    tags=(*_TAGS, "delete"),
    keywords=("remove records from a data table of n8n, clean up entries", "データテーブルの行を削除 レコードを消す"),
    # n8n may use the ids of deleted rows again.
    hints=Hints(destructive=True),
    done="Rows deleted",
    guidance=lambda data: {
        "message": "They cannot be restored; insert_data_table_rows can insert the rows shown here again.",
        "example": f"list_data_table_rows(id: {quoted(data['id'])})",
    },
    examples=[
        Example(
            "Rows of last year",
            {"id": "dT7sK2mQ9xW4eR1a", "filter": [{"column": "createdAt", "op": "lt", "value": "2026-01-01"}]},
            shown_only=True,
        )
    ],
    output_schema=_CHANGED,
)
async def delete_data_table_rows(
    ctx: Context, table_id: TableId, filter: Chosen, match: Match = "all"
) -> dict[str, Any]:
    """Delete all rows that match, from an n8n data table, for good. Needs n8n 2 or later."""
    operation = "delete data table rows"
    with _repeating_rows(operation):
        response = await ctx.http.delete(
            *("data-tables", table_id, "rows", "delete"),
            operation=operation,
            resource=_RESOURCE,
            params={"filter": json.dumps(_query(filter, match), ensure_ascii=False), "returnData": "true"},
        )
    return _changed(table_id, response.data)
