"""What the catalog says of tables and views. Names are values here, never part of a statement."""

from __future__ import annotations

from typing import Any, Final

from toolhub_postgres.session import Session

KINDS: Final = """CASE relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view'
         WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' END"""
COMMENT: Final = "pg_catalog.left(pg_catalog.obj_description(pg_class.oid, 'pg_class'), 500)"
# Those that the role can read at least a column of, without partitions, which their table stands for.
LISTED: Final = f"""
    SELECT nspname::text AS schema, relname::text AS name, {KINDS} AS kind,
           CASE WHEN relkind <> 'v' THEN nullif(reltuples, -1)::bigint END AS "estimatedRows", {COMMENT} AS comment
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relispartition
      AND CASE $1::text WHEN '' THEN nspname !~ '^(pg_|information_schema$)' ELSE nspname::text = $1 END
      AND pg_catalog.has_schema_privilege(relnamespace, 'USAGE')
      AND (pg_catalog.has_table_privilege(pg_class.oid, 'SELECT')
           OR pg_catalog.has_any_column_privilege(pg_class.oid, 'SELECT'))
      AND ($2::text = '' OR pg_catalog.strpos(pg_catalog.lower(relname), pg_catalog.lower($2)) > 0
           OR pg_catalog.strpos(pg_catalog.lower({COMMENT}), pg_catalog.lower($2)) > 0)
    ORDER BY 1, 2 LIMIT $3
"""  # noqa: S608 – only texts of this file
FOUND: Final = f"""
    SELECT pg_class.oid, nspname::text AS schema, relname::text AS table, {KINDS} AS kind,
           CASE WHEN relkind <> 'v' THEN nullif(reltuples, -1)::bigint END AS "estimatedRows", {COMMENT} AS comment,
           CASE WHEN relkind IN ('v', 'm') THEN
             pg_catalog.left(pg_catalog.pg_get_viewdef(pg_class.oid), 5000) END AS definition
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relname::text = $1 AND ($2::text = '' OR nspname::text = $2)
      AND pg_catalog.has_schema_privilege(relnamespace, 'USAGE')
    ORDER BY pg_catalog.pg_table_is_visible(pg_class.oid) DESC, nspname LIMIT 1
"""  # noqa: S608 – likewise
COLUMNS: Final = """
    SELECT attname::text AS name, pg_catalog.format_type(atttypid, atttypmod) AS type,
           nullif(attnotnull, false) AS "notNull",
           pg_catalog.left(pg_catalog.pg_get_expr(adbin, adrelid), 500) AS default,
           CASE WHEN attidentity <> '' THEN 'identity' WHEN attgenerated <> '' THEN 'generated' END AS generated,
           pg_catalog.left(pg_catalog.col_description(attrelid, attnum), 500) AS comment
    FROM pg_catalog.pg_attribute
    LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# Primary keys first, then foreign keys, unique and check constraints.
CONSTRAINTS: Final = """
    SELECT pg_catalog.left(pg_catalog.pg_get_constraintdef(oid), 500) AS definition
    FROM pg_catalog.pg_constraint WHERE conrelid = $1::oid AND contype IN ('p', 'f', 'u', 'c', 'x')
    ORDER BY pg_catalog.strpos('pfucx', contype::text), conname LIMIT 200
"""
INDEXES: Final = """
    SELECT pg_catalog.left(pg_catalog.pg_get_indexdef(indexrelid), 500) AS definition
    FROM pg_catalog.pg_index WHERE indrelid = $1::oid ORDER BY indexrelid LIMIT 200
"""


async def listed(session: Session, schema: str, search: str, limit: int) -> list[dict[str, Any]]:
    return [_present(row) for row in await session.records(LISTED, schema, search, limit)]


async def described(session: Session, table: str, schema: str) -> dict[str, Any] | None:
    """A table or view; None if there is none of that name."""
    rows = await session.records(FOUND, table, schema)
    if not rows:
        return None
    oid = rows[0].pop("oid")
    constraints = await session.records(CONSTRAINTS, oid)
    indexes = await session.records(INDEXES, oid)
    return _present(
        {
            **rows[0],
            "columns": [_present(row) for row in await session.records(COLUMNS, oid)],
            "constraints": [row["definition"] for row in constraints] or None,
            "indexes": [row["definition"] for row in indexes] or None,
        }
    )


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """Without what is not there: an agent pays for each name."""
    return {name: value for name, value in row.items() if value is not None}
