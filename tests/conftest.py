"""What every test has: no network but loopback, and a fresh engine, registry and catalog."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import sys
from collections.abc import Generator, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import httpx
import pytest
from django.db import connection
from django.template.base import Template
from pytest_django.plugin import blocking_manager_key

from tests.support.tools import Hub, Programmable
from toolhub.sqlite import base as sqlite
from tools_app import engine
from tools_app.base import hub as hubs
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sources import python, sync

# Also where PYTHONDONTWRITEBYTECODE is set: without a cache, each worker rewrites the asserts of all tests, for 5 s.
sys.dont_write_bytecode = False
LOOPBACK = ("127.", "::1", "localhost")
# What drives a browser is 45 MB that `make test` does without; `make setup-browser` fetches it.
collect_ignore = [] if importlib.util.find_spec("playwright") else ["browser"]


# What starts hubs on the database of this run, in processes of their own.
OF_STORES = {f"tests.support.{name}" for name in ("stores", "hubs", "updates", "troubles")}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL, leave out tests that use no database: the run on SQLite has them, and they are the larger part."""
    if os.environ.get("TOOLHUB_TEST_DATABASE") != "postgres":
        return
    without = [item for item in items if not _uses_a_database(item)]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if _uses_a_database(item)]


def _uses_a_database(item: Any) -> bool:
    if {"db", "transactional_db"} & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("django_db"):
        return True
    fixtures = [one for named in item._fixtureinfo.name2fixturedefs.values() for one in named]
    return any(_knows_stores(name) for name in {item.module.__name__, *(one.func.__module__ for one in fixtures)})


@cache
def _knows_stores(module: str) -> bool:
    values = vars(sys.modules[module]).values()
    return any({getattr(value, "__module__", ""), getattr(value, "__name__", "")} & OF_STORES for value in values)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Before the database is created: mutmut runs several sessions in one process, which creates a file only once."""
    sqlite.DatabaseWrapper.opened.clear()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Close the connections of server threads before the test database is dropped."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            connection.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """What the journal wrote over a connection of its own is not undone with a test; others would find it."""
    yield
    names = getattr(item, "fixturenames", ())
    # After the last one there is no database any more.
    if nextitem is not None and "db" in names and "transactional_db" not in names:
        with item.config.stash[blocking_manager_key].unblock():
            left = list(Call.objects.values_list("tool_name", "code", "door"))
            Call.objects.all().delete()
            connection.close()
        assert not left, f"{left} were written by the journal: this test needs a transactional database"


@pytest.fixture(scope="session", autouse=True)
def entry_points_read_once() -> Iterator[None]:
    """Every hub of a test loads its tools anew, which would read the metadata of all installed distributions."""
    path, installed = sys.path.copy(), entry_points(group=python.ENTRY_POINTS)

    def read_once(*, group: str) -> Any:
        return installed if sys.path == path else entry_points(group=group)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(python, "entry_points", read_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Every client of a test reads the certificates of all authorities, for 50 ms, and then uses none of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def templates_without_signals(django_test_environment: None) -> None:
    """Django's test client copies the context of every template, for `response.context`, which no test here reads."""
    instrumented: Any = Template
    instrumented._render = lambda template, context: template.nodelist.render(context)


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that leaves the machine fails the test that tries it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def fresh_hub(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test has a hub of its own: when the hub of the process is closed, another takes its place."""
    marker = request.node.get_closest_marker("django_db")
    if "transactional_db" in request.fixturenames or (marker is not None and marker.kwargs.get("transaction")):
        # So that the database goes after the engine, which writes down at the end what is left to write.
        request.getfixturevalue("transactional_db")
    yield
    asyncio.run(_close())


async def _close() -> None:
    await engine.close(2)
    await hubs.current().aclose()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def hub(transactional_db: None) -> Hub:
    """A hub with its shipped tools, ready to be called. Real commits: the engine writes from threads of its own."""
    sync.sync()
    return Hub()


@pytest.fixture
def programmable(hub: Hub) -> Programmable:
    """A read-only tool of the hub whose behaviour the test decides."""
    made = Programmable()
    hub.add(made.tool)
    return made


@pytest.fixture
def alice() -> Caller:
    """A caller with a key that can list, read and call tools."""
    return Caller("key", "key:1", "alice", frozenset({"tools:list", "tools:read", "tools:execute"}))


@pytest.fixture
def charlie() -> Caller:
    """A caller with a key without scopes."""
    return Caller("key", "key:3", "charlie", frozenset())
