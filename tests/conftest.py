"""What every test has: no network but loopback, and a fresh engine, registry and catalog."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from django.db import connection
from django.template.base import Template
from pytest_django.plugin import blocking_manager_key
from servestatic.middleware import ServeStaticMiddleware

from tests.support.tools import Hub, Programmable
from tools_app import engine, sources
from tools_app.access import access, issuer, limits
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sources import sync

LOOPBACK = ("127.", "::1", "localhost")
# What drives a browser is 45 MB that `make test` does without; `make setup-browser` fetches it.
collect_ignore = [] if importlib.util.find_spec("playwright") else ["browser"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """At the end nobody may look at the database any more: threads of servers that tests have started may still."""
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
def static_files_found_once() -> Iterator[None]:
    """Every browser of a test has middleware of its own, which would go through all files of the admin again."""
    find = ServeStaticMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def find_once(middleware: ServeStaticMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ServeStaticMiddleware, "add_files_from_finders", find_once)
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
    """Nothing that a test did to this process reaches the next one."""
    marker = request.node.get_closest_marker("django_db")
    if "transactional_db" in request.fixturenames or (marker is not None and marker.kwargs.get("transaction")):
        # So that the database goes after the engine, which writes down at the end what is left to write.
        request.getfixturevalue("transactional_db")
    yield
    asyncio.run(engine.close(2))
    database.close()
    catalog.forget()
    sources.forget()
    access.forget()
    limits.forget()
    issuer.forget()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def hub(transactional_db: None) -> Hub:
    """A hub with its shipped tools, ready to be called. Real commits: the engine writes from threads of its own."""
    sync.sync(sources.loaded())
    return Hub()


@pytest.fixture
def programmable(hub: Hub) -> Programmable:
    """A read-only tool of the hub whose behaviour the test decides."""
    made = Programmable()
    hub.add(made.tool)
    return made


@pytest.fixture
def alice() -> Caller:
    """Somebody with a key who may list, read and call."""
    return Caller("key", "key:1", "alice", frozenset({"tools:list", "tools:read", "tools:execute"}))


@pytest.fixture
def charlie() -> Caller:
    """Somebody with a key that may do nothing."""
    return Caller("key", "key:3", "charlie", frozenset())
