"""Database triggers that increment the counters of `revision` at every change, by any program and statement.

On PostgreSQL they also notify the processes that listen (`base/news.py`), with the counter as payload.

A table that a migration rebuilds loses its triggers on SQLite, so they are dropped before every `migrate` and created
again after it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from tools_app.base.news import APPROVALS, CHANNEL

# Table → columns that callers see. Without health, last use and the like, which change with every call.
TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "tools_app_source": (
        "name", "prefix", "kind", "location", "command", "epoch", "reconnects", "trust", "enabled", "per_session",
        "declares", "failure_rule", "connection_id", "internal", "approved_instructions", "removed_at", "timeout_ms",
        "retries", "retry_delay_ms", "rate_calls", "rate_seconds", "cache_seconds", "answer_tokens",
    ),
    "tools_app_sourcestatus": ("availability", "instructions_hash"),
    "tools_app_toolrecord": (
        "name", "kind", "title", "description", "version", "category", "author", "source", "source_id",
        "original_name", "pack", "enabled", "definition_id", "offered_id", "retired_at", "absent_since", "timeout_ms",
        "retries", "retry_delay_ms", "rate_calls", "rate_seconds", "cache_seconds", "answer_tokens", "ask", "runtime",
        "hint_read_only", "hint_destructive", "hint_idempotent", "hint_open_world",
    ),
    "tools_app_tag": ("name",),
    "tools_app_tooltag": ("tool_id", "tag_id"),
    "tools_app_definition": ("body", "body_text", "pin_hash", "epoch", "approved_at", "refused_at"),
    "tools_app_connection": (
        "name", "pack", "form", "url", "sealed", "read_only", "allow_http", "timeout_ms", "enabled", "options",
    ),
}  # fmt: skip
ACCESS: Final[dict[str, tuple[str, ...]]] = {
    "tools_app_apikey": (
        "name", "hash", "previous_hash", "previous_until", "scopes", "expires_at", "revoked_at", "may_write",
        "may_destroy", "asks", "rate_calls", "rate_seconds", "uses_environment", "addresses",
        "calls_a_day", "tokens_a_day", "calls_a_month", "tokens_a_month",
    ),
    "tools_app_toolset": (
        "name", "packs", "categories", "tags", "names", "read_only", "mode", "detail", "overrides",
        "calls_a_day", "tokens_a_day", "calls_a_month", "tokens_a_month",
    ),
    "tools_app_keytoolset": ("key_id", "toolset_id"),
    "tools_app_keyconnection": ("key_id", "connection_id"),
    "tools_app_stop": ("kind", "name", "reason", "since", "until"),
}  # fmt: skip
WATCHED: Final = {**TOOLS, **ACCESS}


def create_triggers(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers, and increment once for changes while they were missing."""
    present = set(connection.introspection.table_names())
    if not present.issuperset({*WATCHED, "tools_app_revision", "tools_app_approval"}) or not _has_columns(connection):
        return  # The schema is that of an earlier version, which has triggers of its own.
    drop_triggers(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
            cursor.execute(_TELLING)
        for statement in _triggers(connection.vendor).values():
            cursor.execute(statement)
        cursor.execute(_bump(connection.vendor, "tools", "access"))


def _has_columns(connection: BaseDatabaseWrapper) -> bool:
    described = connection.introspection.get_table_description
    with connection.cursor() as cursor:
        return all({*columns} <= {one.name for one in described(cursor, table)} for table, columns in WATCHED.items())


def drop_triggers(connection: BaseDatabaseWrapper) -> None:
    """Drop all triggers, including those of earlier versions with other tables and columns."""
    with connection.cursor() as cursor:
        for name, table in _present(connection).items():
            cursor.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if connection.vendor == "postgresql" else ""))


def missing_triggers(connection: BaseDatabaseWrapper) -> set[str]:
    """Names of the triggers that are missing."""
    return _triggers(connection.vendor).keys() - _present(connection).keys()


def _present(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """The existing triggers of ToolHub, with their tables."""
    with connection.cursor() as cursor:
        cursor.execute(_OURS[connection.vendor])
        return {name: table for name, table in cursor.fetchall() if name.startswith(_FIRST) and name.endswith(_LAST)}


_FIRST, _LAST = "tools_app_", "_bump"
_OURS: Final = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname, tgrelid::regclass::text FROM pg_trigger "
    "WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)",
}
_NOW: Final = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000",
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
}


def _bump(vendor: str, *counters: str) -> str:
    """The statement that increments `value` and these counters."""
    increments = ", ".join(f"{name} = tools_app_revision.{name} + 1" for name in ("value", *counters))
    now = _NOW[vendor]
    return f"""
        INSERT INTO tools_app_revision (id, value, tools, access) VALUES (1, {now}, {now}, {now})
        ON CONFLICT (id) DO UPDATE SET {increments}
    """  # noqa: S608


# Once per transaction and counter: a sync of thousands of tools must not update one row thousands of times.
_FUNCTION: Final = f"""
    CREATE OR REPLACE FUNCTION tools_app_bump() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('toolhub.bumped_' || TG_ARGV[0], true) IS DISTINCT FROM txid_current()::text THEN
            IF TG_ARGV[0] = 'tools' THEN
                {_bump("postgresql", "tools")};
            ELSE
                {_bump("postgresql", "access")};
            END IF;
            PERFORM set_config('toolhub.bumped_' || TG_ARGV[0], txid_current()::text, true);
            PERFORM pg_notify('{CHANNEL}', TG_ARGV[0]);
        END IF;
        RETURN NULL;
    END $$
"""


# What is no change of tools, but waited for by people: a call that asks for approval, and a decision about it.
_TELLING: Final = f"""
    CREATE OR REPLACE FUNCTION tools_app_tell() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('{CHANNEL}', TG_ARGV[0]);
        RETURN NULL;
    END $$
"""
_TELLS: Final = f"""
    CREATE TRIGGER {{name}} AFTER INSERT OR DELETE OR UPDATE OF state ON tools_app_approval
    FOR EACH STATEMENT EXECUTE FUNCTION tools_app_tell('{APPROVALS}')
"""


def _triggers(vendor: str) -> dict[str, str]:
    """Trigger name → its CREATE statement.

    A name has a digest of the statement: a trigger of a version with other columns has another name.
    """
    statements = {}
    for table in WATCHED:
        for event in ("INSERT", "UPDATE", "DELETE"):
            statement = _creation(vendor, table, event)
            digest = hashlib.sha256((_FUNCTION if vendor == "postgresql" else "").encode() + statement.encode())
            name = f"{table}_{event.lower()}_{digest.hexdigest()[:8]}{_LAST}"
            statements[name] = statement.format(name=name)
    if vendor == "postgresql":
        digest = hashlib.sha256((_TELLING + _TELLS).encode())
        name = f"tools_app_approval_{digest.hexdigest()[:8]}{_LAST}"
        statements[name] = _TELLS.format(name=name)
    return statements


def _creation(vendor: str, table: str, event: str) -> str:
    """The CREATE statement, with a placeholder for the name."""
    # jsonb is compared as text.
    differs, as_text = ("IS DISTINCT FROM", "::text") if vendor == "postgresql" else ("IS NOT", "")
    what, when = event, ""
    counter = "tools" if table in TOOLS else "access"
    if event == "UPDATE":
        columns = WATCHED[table]
        what = f"UPDATE OF {', '.join(columns)}"
        pairs = (f"OLD.{column}{as_text} {differs} NEW.{column}{as_text}" for column in columns)
        when = f"WHEN ({' OR '.join(pairs)})"
    if vendor == "postgresql":
        # Deferred to the commit: a statement trigger would lock the row early and deadlock two writers.
        return f"""CREATE CONSTRAINT TRIGGER {{name}} AFTER {what} ON {table} DEFERRABLE INITIALLY DEFERRED
                   FOR EACH ROW {when} EXECUTE FUNCTION tools_app_bump('{counter}')"""
    return f"CREATE TRIGGER {{name}} AFTER {what} ON {table} {when} BEGIN {_bump('sqlite', counter)}; END"
