"""Row count and hash of every table: they tell whether two databases have the same contents."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

BATCH: Final = 2_000
# Values become text, which depends on these.
_PINNED: Final = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL IntervalStyle = 'postgres'",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL extra_float_digits = 1",
)
# Sums of hashes do not depend on the order of rows, so that the server need not sort them.
_HALF: Final = "coalesce(sum(('x' || substr(row_hash, {}, 16))::bit(64)::bigint), 0)"
_POSTGRES: Final = """
    SELECT count(*), {first}, {second} FROM (
        SELECT encode(sha256(convert_to("_toolhub_row"::text, 'UTF8')), 'hex') AS row_hash
        FROM {table} AS "_toolhub_row"
    ) AS hashed_rows
"""
# Without virtual tables, and what these keep in tables of their own: an index can be made again.
_OF_SQLITE: Final = (
    "SELECT name FROM sqlite_master AS one WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' ESCAPE '@' "
    "AND NOT EXISTS (SELECT 1 FROM sqlite_master AS virtual WHERE virtual.sql LIKE 'CREATE VIRTUAL%' "
    "AND (one.name = virtual.name OR substr(one.name, 1, length(virtual.name) + 1) = virtual.name || '_')) "
    "ORDER BY name"
)
_OF_POSTGRES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"


class Table(BaseModel):
    """The contents of one table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    hash: str


def of_sqlite(path: Path) -> dict[str, Table]:
    """The tables of a file that nothing writes."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
        # Without conversion: text that is not valid UTF-8 is contents, too.
        database.text_factory = bytes
        names = [name.decode() for (name,) in database.execute(_OF_SQLITE)]
        return {name: _of_rows(database.execute(f'SELECT * FROM "{name}" ORDER BY rowid')) for name in names}  # noqa: S608


def _of_rows(rows: sqlite3.Cursor) -> Table:
    digest, count = hashlib.sha256(repr([column[0] for column in rows.description]).encode()), 0
    while batch := rows.fetchmany(BATCH):
        count += len(batch)
        digest.update(repr(batch).encode())
    return Table(rows=count, hash=digest.hexdigest())


def of_postgres(cursor: Any) -> dict[str, Table]:
    """The tables as a transaction sees them."""
    for statement in _PINNED:
        cursor.execute(statement)
    cursor.execute(_OF_POSTGRES)
    names = [name for (name,) in cursor.fetchall()]
    tables = {}
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        cursor.execute(_POSTGRES.format(first=_HALF.format(1), second=_HALF.format(17), table=quoted))
        count, first, second = cursor.fetchone()
        tables[name] = Table(rows=count, hash=f"{first}.{second}")
    return tables


def differences(before: Mapping[str, Table], after: Mapping[str, Table]) -> list[str]:
    """What is not as it was, in words."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            found.append(f"{name} is {'new' if old is None else 'missing'}")
        elif old.rows != new.rows:
            found.append(f"{name} has {new.rows:,} rows instead of {old.rows:,}")
        elif old.hash != new.hash:
            found.append(f"{name} has other contents")
    return found
