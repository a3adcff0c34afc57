"""A hub's database, seen from outside of the hub: its content, and ways to make it fail."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

POSTGRES: Final = os.environ.get("TOOLHUB_TEST_DATABASE") == "postgres"
FINAL: Final = {"succeeded", "failed", "timeout", "cancelled", "refused"}


class Store(ABC):
    """A database of one hub."""

    environment: dict[str, str]

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and commit it."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Lock the calls against other writers."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the database itself finds wrong with its files."""

    @abstractmethod
    def size(self) -> int:
        """The bytes that it takes, without a log of changes."""

    def calls(self) -> dict[str, str]:
        """The status of every call by its id; says so if a call has two rows."""
        rows = self.query("SELECT id, status FROM tools_app_call")
        found = dict(rows)
        assert len(found) == len(rows), "a call has more than one row"
        return found

    def under_way(self) -> set[str]:
        return {call for call, status in self.calls().items() if status == "started"}

    def leases(self) -> list[datetime]:
        """Until when the processes that are known may keep their calls open."""
        rows = self.query("SELECT lease_until FROM tools_app_process")
        found = [datetime.fromisoformat(str(until)) for (until,) in rows]
        return [until if until.tzinfo else until.replace(tzinfo=UTC) for until in found]

    def counted(self) -> dict[str, set[tuple[str, str, int]]]:
        """The number of calls of each tool and outcome: as recorded, and as the figures have it."""
        sources = {
            "calls": "SUM(count) AS bigint) FROM tools_app_call",
            "hours": "SUM(calls) AS bigint) FROM tools_app_callhour WHERE span = 'hour'",
            "days": "SUM(calls) AS bigint) FROM tools_app_callhour WHERE span = 'day'",
        }
        return {
            name: {
                (tool, status, number)
                for tool, status, number in self.query(f"SELECT tool_name, status, CAST({source} GROUP BY 1, 2")
                if number
            }
            for name, source in sources.items()
        }

    def uncounted(self) -> int:
        return int(self.query("SELECT COUNT(*) FROM tools_app_pendingcount")[0][0])

    def statuses(self, tool: str) -> list[str]:
        rows = self.query(f"SELECT status FROM tools_app_call WHERE tool_name = '{tool}' ORDER BY started_at")  # noqa: S608
        return [status for (status,) in rows]

    def governed(self) -> dict[str, list[tuple[Any, ...]]]:
        """What people decided and what was written down of it, to be compared."""
        return {
            table: self.query(f"SELECT {columns} FROM {table} ORDER BY 1")  # noqa: S608
            for table, columns in (
                ("tools_app_toolrecord", "name, enabled, retired_at"),
                ("tools_app_apikey", "id, name, hash, revoked_at"),
                ("tools_app_auditentry", "id, at, actor, action, subject"),
            )
        }


class SQLiteStore(Store):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {"DATABASE_URL": f"sqlite:///{path}"}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self._connected()) as database:
            return database.execute(sql).fetchall()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with closing(self._connected()) as database:
            database.execute("BEGIN IMMEDIATE")
            yield
            database.execute("ROLLBACK")

    def damage(self) -> list[str]:
        return [found for (found,) in self.query("PRAGMA integrity_check") if found != "ok"]

    def size(self) -> int:
        ((size,),) = self.query("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(size)

    def _connected(self) -> sqlite3.Connection:
        # Never made where it is missing.
        return sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=20, isolation_level=None)


class PostgresStore(Store):
    def __init__(self, url: str) -> None:
        self.url = url
        self.environment = {"DATABASE_URL": url}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        import psycopg

        with psycopg.connect(self.url) as connection:
            connection.execute("LOCK TABLE tools_app_call IN ACCESS EXCLUSIVE MODE")
            yield
            connection.rollback()

    def damage(self) -> list[str]:
        return []  # Its checks (amcheck) are not for everybody; reading every row is what is left.

    def size(self) -> int:
        return int(self.query("SELECT pg_database_size(current_database())")[0][0])


@contextlib.contextmanager
def copied(template: Store, folder: Path) -> Iterator[Store]:
    """A copy of a database that is not in use. Dropped at the end of the block."""
    if isinstance(template, SQLiteStore):
        path = folder / template.path.name
        shutil.copy(template.path, path)
        yield SQLiteStore(path)
        return
    assert isinstance(template, PostgresStore)
    with created(template.url, like=urlsplit(template.url).path[1:]) as store:
        yield store


@contextlib.contextmanager
def created(server: str, like: str = "template1") -> Iterator[PostgresStore]:
    """A new database on a PostgreSQL server. Gone with the block."""
    name = f"toolhub_trial_{secrets.token_hex(4)}"
    parts = urlsplit(server)
    maintenance = PostgresStore(urlunsplit(parts._replace(path="/postgres")))
    maintenance.query(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
    try:
        yield PostgresStore(urlunsplit(parts._replace(path=f"/{name}")))
    finally:
        maintenance.query(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def fresh(folder: Path) -> Iterator[Store]:
    """An empty database of the kind that this run of the tests is about. Gone with the block."""
    if POSTGRES:
        with created(os.environ["TOOLHUB_TEST_POSTGRES_URL"]) as store:
            yield store
    else:
        yield SQLiteStore(folder / "toolhub.sqlite3")
