"""The index that finds a part of a text among the arguments of calls: FTS5 on SQLite, pg_trgm on PostgreSQL.

Both may be missing: SQLite can be built without FTS5, and PostgreSQL may not let us create the extension. So this is no
migration, which must not fail; it is tried after each `migrate`. Without an index, `CallText` stays empty.
"""

from __future__ import annotations

import logging
from typing import Final

from django.db import DatabaseError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tools_app.models.calls import Call
from tools_app.models.texts import CallText

log = logging.getLogger("tools_app.models")

TEXTS: Final = CallText._meta.db_table
INDEX: Final = f"{TEXTS}_trigrams"
EXTENSION: Final = "pg_trgm"
_CALLS: Final = Call._meta.db_table
# Of the calls: what deletes or empties one, and however it does that, deletes its text.
_TRIGGERS: Final = {
    f"{TEXTS}_of_deleted": f"AFTER DELETE ON {_CALLS} FOR EACH ROW",
    f"{TEXTS}_of_changed": f"AFTER UPDATE OF arguments ON {_CALLS} FOR EACH ROW "
    "WHEN (OLD.arguments <> '' AND OLD.arguments <> NEW.arguments)",
}
# FTS5 keeps no copy of the texts, so it is told of each one that comes and goes.
_FED: Final = {
    f"{INDEX}_in": (f"AFTER INSERT ON {TEXTS}", f"INSERT INTO {INDEX} (rowid, text) VALUES (NEW.id, NEW.text)"),  # noqa: S608
    f"{INDEX}_out": (
        f"AFTER DELETE ON {TEXTS}",
        f"INSERT INTO {INDEX} ({INDEX}, rowid, text) VALUES ('delete', OLD.id, OLD.text)",  # noqa: S608
    ),
}
_DELETION: Final = f"DELETE FROM {TEXTS} WHERE call_id = OLD.id"  # noqa: S608 – our own names
_FUNCTION: Final = f"""
    CREATE OR REPLACE FUNCTION {TEXTS}_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN {_DELETION}; RETURN NULL; END $$
"""
# Only which calls contain a trigram, not where: the text of those that do is read anyway.
_FTS5: Final = (
    f"CREATE VIRTUAL TABLE {INDEX} USING fts5(text, content='{TEXTS}', content_rowid='id', tokenize='trigram', "
    "detail=none, columnsize=0)"
)
# Few entries wait to be sorted in: the process that adds one too many does that for all of them.
_GIN: Final = (
    f"CREATE INDEX {INDEX} ON {TEXTS} USING gin (text {{schema}}.gin_trgm_ops) WITH (gin_pending_list_limit=256)"
)
_SCHEMA: Final = (
    "SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = %s"
)


def create(connection: BaseDatabaseWrapper) -> None:
    """Create the index, if it is missing and this database can have it, and the triggers."""
    if TEXTS not in connection.introspection.table_names():
        return  # The schema is that of an earlier version.
    if not exists(connection):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                if connection.vendor == "postgresql":
                    cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
                    cursor.execute(_GIN.format(schema=connection.ops.quote_name(schema(connection))))
                else:
                    cursor.execute(_FTS5)
                    cursor.execute(f"INSERT INTO {INDEX} ({INDEX}) VALUES ('rebuild')")  # noqa: S608
        except DatabaseError as error:
            reason = str(error).strip().partition("\n")[0]
            log.warning("calls are searched by argument for the last 24 hours only: no trigram index (%s)", reason)
    _create_triggers(connection)


def exists(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_EXISTS[connection.vendor], [INDEX])
        return cursor.fetchone() is not None


def schema(connection: BaseDatabaseWrapper) -> str:
    """Where the extension of PostgreSQL is; empty if it is not installed."""
    with connection.cursor() as cursor:
        cursor.execute(_SCHEMA, [EXTENSION])
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def drop(connection: BaseDatabaseWrapper) -> None:
    """Before its table is dropped. The extension stays: others may use it."""
    drop_triggers(connection)
    with connection.cursor() as cursor:
        for name in _FED if connection.vendor == "sqlite" else ():
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"DROP {'INDEX' if connection.vendor == 'postgresql' else 'TABLE'} IF EXISTS {INDEX}")


def drop_triggers(connection: BaseDatabaseWrapper) -> None:
    """Those of the calls, whose table a migration can rebuild."""
    present = connection.introspection.table_names()
    with connection.cursor() as cursor:
        for name in _TRIGGERS if _CALLS in present else ():
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}" + _of_table(connection, _CALLS))


def _create_triggers(connection: BaseDatabaseWrapper) -> None:
    is_postgres = connection.vendor == "postgresql"
    drop_triggers(connection)
    with connection.cursor() as cursor:
        if is_postgres:
            cursor.execute(_FUNCTION)
        for name, when in _TRIGGERS.items():
            does = f"EXECUTE FUNCTION {TEXTS}_gone()" if is_postgres else f"BEGIN {_DELETION}; END"
            cursor.execute(f"CREATE TRIGGER {name} {when} {does}")
        if not is_postgres and exists(connection):
            for name, (when, does) in _FED.items():
                cursor.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {when} BEGIN {does}; END")


def _of_table(connection: BaseDatabaseWrapper, table: str) -> str:
    return f" ON {table}" if connection.vendor == "postgresql" else ""


_EXISTS: Final = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = %s",
    "postgresql": "SELECT 1 FROM pg_class WHERE relkind = 'i' AND relname = %s AND pg_table_is_visible(oid)",
}
