"""The four tools."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from toolhub import Context, Example, Hints, NotFoundError, OrNumber
from toolhub_postgres import pack, relations, statement
from toolhub_postgres.session import session

Sql = Annotated[
    str,
    Field(min_length=1, max_length=statement.MOST_SQL),
    "One SELECT, VALUES, TABLE or WITH statement; $1, $2, … stand for `parameters`",
]
Parameters = Annotated[
    list[Annotated[str, Field(max_length=statement.MOST_PARAMETER), OrNumber()]],
    Field(max_length=statement.MOST_PARAMETERS),
    "Values of $1, $2, … as text; PostgreSQL infers their types",
]
READS = Hints(read_only=True, idempotent=True)


@pack.tool(
    category="database",
    tags=["sql"],
    hints=READS,
    keywords=["select rows, postgres, postgresql, report, count"],
    examples=[
        Example(
            "Count with a value",
            {"sql": "SELECT count(*) AS n FROM generate_series(1, 10) AS x WHERE x > $1", "parameters": ["7"]},
            {"columns": [{"name": "n", "type": "bigint"}], "rows": [[3]]},
        )
    ],
)
async def query(
    ctx: Context,
    sql: Sql,
    parameters: Parameters = [],  # noqa: B006 – it is never changed
    max_rows: Annotated[int, Field(ge=1, le=1000), "How many rows to return"] = 100,
) -> dict[str, object]:
    """Read rows from PostgreSQL with SQL. Nothing can be changed; rows, sizes and time are limited."""
    async with session(ctx, "query") as opened:
        found = await opened.rows(statement.checked(sql, parameters), parameters, max_rows)
    ctx.note(rows=len(found.rows))
    answer: dict[str, object] = {
        "columns": [{"name": column.name, "type": column.type} for column in found.columns],
        "rows": found.rows,
    }
    if found.has_more:
        answer["hasMore"] = True
    if found.cut:
        answer["cutColumns"] = list(found.cut)
    return answer


@pack.tool(
    category="database",
    tags=["sql"],
    hints=READS,
    keywords=["slow query, plan, cost, index"],
    examples=[Example("A plan", {"sql": "SELECT 1"}, {"plan": ["<string>"]})],
)
async def explain(
    ctx: Context,
    sql: Sql,
    parameters: Parameters = [],  # noqa: B006 – it is never changed
    analyze: Annotated[bool, "Run it, too, for the actual times and rows"] = False,
) -> dict[str, object]:
    """Show how PostgreSQL runs a query: its plan, with estimated costs."""
    async with session(ctx, "explain") as opened:
        return {"plan": await opened.plan(statement.checked(sql, parameters), parameters, analyze=analyze)}


@pack.tool(
    category="database",
    tags=["schema"],
    hints=READS,
    keywords=["schemas, views, which tables exist, postgres"],
    examples=[Example("Of one schema", {"schema": "no_such_schema"}, {"tables": []})],
)
async def list_tables(
    ctx: Context,
    schema: Annotated[str, Field(max_length=63), "Only of this schema; empty for all but the system's"] = "",
    search: Annotated[str, Field(max_length=63), "Part of a name or comment"] = "",
    limit: Annotated[int, Field(ge=1, le=1000), "How many to return"] = 200,
) -> dict[str, object]:
    """List tables and views of the PostgreSQL database that can be read, with estimated rows and comments."""
    async with session(ctx, "list tables") as opened:
        tables = await relations.listed(opened, schema, search, limit + 1)
    answer: dict[str, object] = {"tables": tables[:limit]}
    return answer | {"hasMore": True} if len(tables) > limit else answer


@pack.tool(
    category="database",
    tags=["schema"],
    hints=READS,
    keywords=["columns, types, foreign keys, indexes, structure of a table"],
    examples=[
        Example(
            "A table of the catalog",
            {"table": "pg_namespace", "schema": "pg_catalog"},
            {"table": "pg_namespace", "kind": "table", "columns": [{"name": "oid", "type": "oid"}, "<more>"]},
        )
    ],
)
async def describe_table(
    ctx: Context,
    table: Annotated[str, Field(min_length=1, max_length=63), "Name of a table or view, in its own capitals"],
    schema: Annotated[str, Field(max_length=63), "Its schema; empty for the first that has one of this name"] = "",
) -> dict[str, Any]:
    """Describe a table or view of PostgreSQL: columns, types, keys, indexes, comments."""
    async with session(ctx, "describe table") as opened:
        described = await relations.described(opened, table, schema)
    if described is None:
        name = f"{schema}.{table}" if schema else table
        raise NotFoundError(
            f"Table {name!r} not found",
            context={"operation": "describe table", "resourceType": "Table", "resourceId": name},
            next_step="list_tables says which there are.",
        )
    return described
