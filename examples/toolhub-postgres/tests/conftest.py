"""A database of its own for these tests, on the server that TOOLHUB_TEST_POSTGRES_URL names."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

SERVER = os.environ.get("TOOLHUB_TEST_POSTGRES_URL", "")
# Seconds to wait for what should come at once.
PATIENCE = 20.0

SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    born date,
    vip boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE shop.customers IS 'Who buys';
COMMENT ON COLUMN shop.customers.born IS 'Day of birth, if told';
CREATE TABLE shop.orders (
    id serial PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES shop.customers (id),
    total numeric(10, 2) NOT NULL CHECK (total >= 0)
);
CREATE INDEX orders_of_customer ON shop.orders (customer_id);
CREATE VIEW shop.totals AS SELECT customer_id, sum(total) AS total FROM shop.orders GROUP BY customer_id;
CREATE TABLE shop."Mixed Case" ("a ""b""\" int);
CREATE TABLE shop.numbers AS SELECT n FROM generate_series(1, 20000) AS n;
CREATE TABLE shop.salaries (amount int);
CREATE SEQUENCE shop.counter;
CREATE FUNCTION shop.pretends() RETURNS int LANGUAGE plpgsql STABLE AS
    $$ BEGIN DELETE FROM shop.orders; RETURN 1; END $$;
CREATE FUNCTION shop.doubled(n int) RETURNS int LANGUAGE sql STABLE AS 'SELECT 2 * n';
CREATE FUNCTION shop."Deletes"() RETURNS int LANGUAGE sql AS 'DELETE FROM shop.orders RETURNING 1';
INSERT INTO shop.customers (name, born) VALUES ('Ada', '1815-12-10'), ('Grace', NULL);
INSERT INTO shop.orders (customer_id, total) VALUES (1, 12.50), (1, 7.25), (2, 99.99);
ANALYZE;
"""


@dataclass
class Database:
    """The database, with a connection of its owner, and the URLs of its roles."""

    name: str
    owner: psycopg.Connection[Any]
    owner_url: str
    reader_url: str
    writer_url: str

    def value(self, statement: str, *parameters: object) -> Any:
        row = self.owner.execute(statement.encode(), parameters or None).fetchone()
        assert row is not None
        return row[0]

    @property
    def state(self) -> tuple[object, ...]:
        """What no statement of an agent may change."""
        return (
            self.value("SELECT array_agg(o ORDER BY id) FROM shop.orders o"),
            self.value("SELECT array_agg(relname ORDER BY 1) FROM pg_class WHERE relnamespace = 'shop'::regnamespace"),
            self.value("SELECT is_called FROM shop.counter"),
            self.value("SELECT count(*) FROM pg_largeobject_metadata"),
            self.value("SELECT array_agg(rolname ORDER BY 1) FROM pg_roles WHERE rolname LIKE 'mallory%'"),
        )

    def sessions(self, condition: str = "true") -> int:
        """How many sessions of the pack there are."""
        number: int = self.value(
            "SELECT count(*) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND application_name = 'toolhub' AND {condition}"
        )
        return number

    def locks(self) -> int:
        number: int = self.value(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        return number


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip("TOOLHUB_TEST_POSTGRES_URL names no PostgreSQL")
    for item in items if not SERVER else ():
        if Path(__file__).parent in item.path.parents and "database" in getattr(item, "fixturenames", ()):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    mark = uuid.uuid4().hex[:12]
    names = [f"toolhub_example_{mark}", f"toolhub_reader_{mark}", f"toolhub_writer_{mark}"]
    database, reader, writer = (sql.Identifier(name) for name in names)
    with psycopg.connect(SERVER, autocommit=True) as server:
        for role in (reader, writer):
            server.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(mark)))
        server.execute(sql.SQL("CREATE DATABASE {}").format(database))
        try:
            with psycopg.connect(url_of(names[0]), autocommit=True) as owner:
                owner.execute(SCHEMA.encode())
                for statement in (
                    "GRANT USAGE ON SCHEMA shop TO {0}, {1}",
                    "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO {0}, {1}",
                    "REVOKE ALL ON shop.salaries FROM {0}, {1}",
                    "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
                    "GRANT INSERT ON shop.orders TO {1}",
                ):
                    owner.execute(sql.SQL(statement).format(reader, writer))
                yield Database(
                    names[0],
                    owner,
                    url_of(names[0]),
                    url_of(names[0], names[1], mark),
                    url_of(names[0], names[2], mark),
                )
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
            for role in (reader, writer):
                server.execute(sql.SQL("DROP ROLE {}").format(role))


def url_of(database: str, user: str = "", password: str = "") -> str:
    """The URL of a database on the test server; by default with the user of the server."""
    parts = urlsplit(SERVER)
    host = parts.netloc.rpartition("@")[2]
    login = f"{quote(user)}:{quote(password)}" if user else parts.netloc.rpartition("@")[0]
    return urlunsplit(("postgresql", f"{login}@{host}", f"/{database}", "", ""))


@pytest.fixture
def reader(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The pack reads with a role that can do nothing else."""
    monkeypatch.setenv("POSTGRES_URL", database.reader_url)
    return database


@pytest.fixture
def owner(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The pack has a role that it should not have: that of a superuser."""
    monkeypatch.setenv("POSTGRES_URL", database.owner_url)
    return database
