"""What the database role of the hub may do beyond reading. Such a role is no border, and operators are told."""

from __future__ import annotations

import logging
from typing import Any, Final

from toolhub import ConfigurationError, ToolError
from toolhub_postgres import pack
from toolhub_postgres.session import Session, within

log = logging.getLogger(__name__)

SECONDS: Final = 15.0
POWERFUL: Final = (
    *("pg_write_all_data", "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"),
    *("pg_signal_backend", "pg_create_subscription", "pg_maintain", "pg_checkpoint"),
)
ROLE: Final = """
    SELECT rolname::text AS name, rolsuper, rolcreaterole, rolcreatedb, rolreplication,
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS creates_schemas
    FROM pg_catalog.pg_roles WHERE rolname = current_user AND $1
"""
MEMBER: Final = """
    SELECT rolname::text AS name FROM pg_catalog.pg_roles
    WHERE rolname = ANY ($1::name[]) AND pg_catalog.pg_has_role(oid, 'MEMBER') ORDER BY 1
"""
SCHEMAS: Final = r"""
    SELECT nspname::text AS name FROM pg_catalog.pg_namespace
    WHERE nspname !~ $1 AND pg_catalog.has_schema_privilege(oid, 'CREATE') ORDER BY 1 LIMIT 5
"""
TABLES: Final = """
    SELECT pg_catalog.format('%I.%I', nspname, relname) AS name
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'f') AND nspname !~ $1
      AND pg_catalog.has_table_privilege(pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    ORDER BY 1 LIMIT 5
"""
SYSTEM: Final = "^(pg_|information_schema$)"


async def excess(session: Session) -> list[str]:
    """What the role may do beyond reading, each as a sentence; empty for one that only reads."""
    (role,) = await session.records(ROLE, True)
    name = role["name"]
    if role["rolsuper"]:
        return [f"{name} is a superuser: nothing in the database limits it"]
    attributes = {"rolcreaterole": "create roles", "rolcreatedb": "create databases", "rolreplication": "replicate"}
    sentences = [f"{name} may {words}" for column, words in attributes.items() if role[column]]
    if role["creates_schemas"]:
        sentences.append(f"{name} may create schemas")
    lists = {
        "is a member of": await session.records(MEMBER, list(POWERFUL)),
        "may create objects in": await session.records(SCHEMAS, SYSTEM),
        "may write to": await session.records(TABLES, SYSTEM),
    }
    return sentences + [f"{name} {words} {_names(rows)}" for words, rows in lists.items() if rows]


def _names(rows: list[dict[str, Any]]) -> str:
    names = ", ".join(row["name"] for row in rows)
    return f"{names} and others" if len(rows) == 5 else names


@pack.on_start
async def warn() -> None:
    """Write down at the first call in a process what the role may do too much.

    A database that is away must not stop the pack: each call says so itself.
    """
    try:
        async with within(SECONDS, "check the role") as session:
            sentences = await excess(session)
    except ConfigurationError:
        raise
    except ToolError as error:
        log.warning("the role of POSTGRES_URL was not checked: %s (%s)", error, error.detail)
        return
    if sentences:
        log.warning("POSTGRES_URL should name a role that can only read: %s", "; ".join(sentences))
