"""The index that finds a part of a text among the arguments of calls: FTS5 on SQLite, pg_trgm on PostgreSQL.

Both may be missing: SQLite can be built without FTS5, and PostgreSQL may not let us create the extension. So this is no
migration, which must not fail; it is tried after each `migrate`. Without an index, `CallText` stays empty. A program
whose SQLite does not open the index of another leaves it out (`detach`), and it is rebuilt by one that does.
"""

from __future__ import annotations

import logging
import sqlite3
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
    """Create the triggers, and the index, if it is missing and this database can have it."""
    if TEXTS not in connection.introspection.table_names():
        return  # The schema is that of an earlier version.
    detach(connection)
    # First: calls can be deleted while the index is built.
    _create_triggers(connection)
    if not exists(connection):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                if connection.vendor == "postgresql":
                    cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
                    cursor.execute(_GIN.format(schema=connection.ops.quote_name(schema(connection))))
                else:
                    _create_fed(connection)
        except DatabaseError as error:
            reason = str(error).strip().partition("\n")[0]
            log.warning("calls are searched by argument for the last 24 hours only: no trigram index (%s)", reason)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {TEXTS} {_LEFT} LIMIT 1")  # noqa: S608 – our own names
        if cursor.fetchone():
            cursor.execute(f"DELETE FROM {TEXTS} {_LEFT}")  # noqa: S608


def exists(connection: BaseDatabaseWrapper) -> bool:
    """Whether the index is there, and is told of what comes and goes."""
    if connection.vendor == "sqlite":
        return _present(connection).issuperset(_FED)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_class WHERE relkind = 'i' AND relname = %s AND pg_table_is_visible(oid)", [INDEX]
        )
        return cursor.fetchone() is not None


def missing_triggers(connection: BaseDatabaseWrapper) -> set[str]:
    """Names of the triggers that are missing: without them, texts outlive the arguments of their calls."""
    fed = _FED if connection.vendor == "sqlite" and _opens(connection) else {}
    return {*_TRIGGERS, *fed} - _present(connection)


def detach(connection: BaseDatabaseWrapper) -> None:
    """Leave out an index of SQLite that does not open: each change of a call that would tell it of one fails."""
    if connection.vendor == "sqlite" and exists(connection) and not _opens(connection):
        _drop_fed(connection)
        log.warning(
            "calls are searched by argument for the last 24 hours only: the trigram index cannot be opened. Run "
            "`toolhub migrate` with an SQLite that has FTS5 with trigrams (3.34 or later): it is built anew"
        )


def is_available(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server of PostgreSQL has the extension, created or not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = %s", [EXTENSION])
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
    if connection.vendor == "sqlite":
        _drop_fed(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP {'INDEX' if connection.vendor == 'postgresql' else 'TABLE'} IF EXISTS {INDEX}")


def drop_triggers(connection: BaseDatabaseWrapper) -> None:
    """Those of the calls."""
    present = connection.introspection.table_names()
    with connection.cursor() as cursor:
        for name in _TRIGGERS if _CALLS in present else ():
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}" + _of_table(connection, _CALLS))


def make_way(connection: BaseDatabaseWrapper) -> None:
    """For migrations: those of SQLite rebuild tables, which loses triggers, or fails because of them."""
    if connection.vendor == "sqlite":
        drop_triggers(connection)
        detach(connection)


def _present(connection: BaseDatabaseWrapper) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(_PRESENT[connection.vendor])
        return {str(name) for (name,) in cursor.fetchall()}


def _create_triggers(connection: BaseDatabaseWrapper) -> None:
    """Those that are missing; a release that changes one has to rename it."""
    is_postgres = connection.vendor == "postgresql"
    missing = _TRIGGERS.keys() - _present(connection)
    with connection.cursor() as cursor:
        if is_postgres and missing:
            cursor.execute(_FUNCTION)
        for name in missing:
            does = f"EXECUTE FUNCTION {TEXTS}_gone()" if is_postgres else f"BEGIN {_DELETION}; END"
            cursor.execute(f"CREATE TRIGGER {name} {_TRIGGERS[name]} {does}")


def _create_fed(connection: BaseDatabaseWrapper) -> None:
    _drop_fed(connection)
    with connection.cursor() as cursor:
        if not _opens(connection):
            cursor.execute(_FTS5)
        cursor.execute(f"INSERT INTO {INDEX} ({INDEX}) VALUES ('rebuild')")  # noqa: S608 – our own names
        for name, (when, does) in _FED.items():
            cursor.execute(f"CREATE TRIGGER {name} {when} BEGIN {does}; END")


def _drop_fed(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        for name in _FED:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")


def _opens(connection: BaseDatabaseWrapper) -> bool:
    """Whether the index of SQLite is there, and this program can open it."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT rowid FROM {INDEX} LIMIT 1")  # noqa: S608 – our own names
    except DatabaseError as error:
        if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT):
            return False
        raise
    return True


def _of_table(connection: BaseDatabaseWrapper, table: str) -> str:
    return f" ON {table}" if connection.vendor == "postgresql" else ""


# Texts that are not those of a call any more: it was changed while there were no triggers.
_LEFT: Final = (
    f"WHERE NOT EXISTS (SELECT 1 FROM {_CALLS} AS one WHERE one.id = {TEXTS}.call_id AND one.arguments = {TEXTS}.text)"  # noqa: S608
)
_PRESENT: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)",
}
