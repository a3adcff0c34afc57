"""What a database holds, row by row, to be compared before and after an upgrade."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.stores import PostgresStore, Store

# State of running processes, and Django's own bookkeeping.
IGNORED_TABLES = {
    *("tools_app_revision", "tools_app_process", "tools_app_agent"),
    *("django_migrations", "django_session", "sqlite_sequence"),
}
# Permissions of models that no longer exist are taken from the hub's groups.
CONDITIONS = {
    "auth_group_permissions": "permission_id NOT IN (SELECT id FROM auth_permission WHERE codename = 'view_callsum')"
}
# What a start writes anew.
IGNORED_COLUMNS = {
    # Where the code of a tool is, and when that changed.
    "tools_app_toolrecord": {"place", "updated_at"},
    # What the checks of this version say about its wording.
    "tools_app_definition": {"findings"},
    # Agents stay connected meanwhile.
    "tools_app_apikey": {"last_used_at", "last_used_from"},
    # A server tests all connections at its start.
    "tools_app_connection": {"checked_at"},
}
# What this version says of its own tools. Those of others keep theirs.
SHIPPED = {"builtin", "finding", "n8n", "redmine", "websearch"}
OF_SHIPPED_TOOLS = {"definition_id", "description", "version"}
# Without rows in these, the comparison would show little.
EXPECTED_TABLES = {
    f"tools_app_{name}"
    for name in ("toolrecord", "definition", "apikey", "toolset", "approval", "connection", "call", "auditentry")
} | {"auth_user", "auth_group"}
SHOWN = 5

Row = dict[str, Any]


@dataclass
class Contents:
    """The rows of every table by primary key."""

    tables: dict[str, dict[Any, Row]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)


def contents_of(store: Store) -> Contents:
    """What an upgrade has to keep."""
    tables = [table for table in tables_of(store) if table not in IGNORED_TABLES]
    return _contents(store, {table: CONDITIONS.get(table, "1 = 1") for table in tables})


def everything_in(store: Store) -> Contents:
    return _contents(store, dict.fromkeys(tables_of(store), "1 = 1"))


def _contents(store: Store, tables: dict[str, str]) -> Contents:
    contents = Contents()
    for table, condition in tables.items():
        columns = columns_of(store, table)
        selected = ", ".join(f'"{column}"' for column in columns)
        rows = store.query(f'SELECT {selected} FROM "{table}" WHERE {condition}')  # noqa: S608
        contents.columns[table] = columns
        contents.tables[table] = {
            _key(row): row for row in (dict(zip(columns, values, strict=True)) for values in rows)
        }
    return contents


def _key(row: Row) -> Any:
    """The primary key, or all that a row has."""
    name = next((name for name in ("id", "name", "fingerprint") if name in row), None)
    return row[name] if name is not None else json.dumps(row, default=str, sort_keys=True)


def tables_of(store: Store) -> list[str]:
    if isinstance(store, PostgresStore):
        rows = store.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    else:
        # Those of the full-text search belong to its index.
        rows = store.query("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
    return sorted(name for (name,) in rows)


def columns_of(store: Store, table: str) -> list[str]:
    if isinstance(store, PostgresStore):
        query = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY 1"  # noqa: S608
        return [name for (name,) in store.query(query)]
    return sorted(row[1] for row in store.query(f'PRAGMA table_info("{table}")'))


def lost(before: Contents, after: Contents) -> Iterator[str]:
    """What was there and is not, or differs. New tables, columns and rows are what an upgrade is for."""
    for table, rows in before.tables.items():
        if table not in after.tables:
            yield f"{table}: no longer there, with {len(rows):,} rows"
            continue
        columns = set(before.columns[table]) - IGNORED_COLUMNS.get(table, set())
        missing_columns = columns - set(after.columns[table])
        yield from (f"{table}.{column}: no longer there" for column in sorted(missing_columns))
        missing_rows = [key for key in rows if key not in after.tables[table]]
        if missing_rows:
            yield f"{table}: {len(missing_rows):,} of {len(rows):,} rows are missing: {missing_rows[:SHOWN]}"
        changes: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for key, row in rows.items():
            if (now := after.tables[table].get(key)) is None:
                continue
            is_shipped = table == "tools_app_toolrecord" and row["pack"] in SHIPPED
            for column in columns - missing_columns - (OF_SHIPPED_TOOLS if is_shipped else set()):
                if row[column] != now[column]:
                    changes[column] += 1
                    examples.setdefault(column, f"{key}: {row[column]!r:.200} → {now[column]!r:.200}")
        for column, count in sorted(changes.items()):
            yield f"{table}.{column}: {count:,} of {len(rows):,} rows differ, such as {examples[column]}"


def wrong_hashes(contents: Contents) -> Iterator[str]:
    """Definitions whose hash is not that of their body: approvals are bound to it."""
    for key, row in contents.tables.get("tools_app_definition", {}).items():
        body = json.loads(row["body"]) if isinstance(row["body"], str) else row["body"]
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if hashlib.sha256(canonical).hexdigest() != row["hash"]:
            yield f"tools_app_definition {key}: its hash is not that of its body"
