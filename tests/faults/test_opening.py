"""An agent that starts its hub while the database is busy: it is greeted, and served as soon as that can be."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from mcp_types import INTERNAL_ERROR

from tests.support import stores
from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.processes import Home
from tests.support.stores import POSTGRES, PostgresStore, SQLiteStore, Store

CHANGED = "notifications/tools/list_changed"
RECOVERED_WITHIN = 5.0
# SQLite waits for five seconds before it says that it is busy.
ERAS = [pytest.param(era, marks=() if POSTGRES else pytest.mark.faults) for era in (LEGACY, MODERN)]


@contextlib.contextmanager
def busy(store: Store) -> Iterator[None]:
    """Refuse new connections for the moment."""
    if isinstance(store, SQLiteStore):
        with closing(sqlite3.connect(store.path, isolation_level=None)) as database:
            for statement in (
                "PRAGMA locking_mode = EXCLUSIVE",
                "BEGIN EXCLUSIVE",
                "UPDATE tools_app_revision SET id = id",
            ):
                database.execute(statement)
            yield
        return
    name = store.environment["DATABASE_URL"].rpartition("/")[2]
    server = PostgresStore(os.environ["TOOLHUB_TEST_POSTGRES_URL"])
    server.query(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    try:
        yield
    finally:
        server.query(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.parametrize("era", ERAS)
def test_greets_its_client_and_works_as_soon_as_the_database_does(tmp_path: Path, era: str) -> None:
    with stores.fresh(tmp_path) as store:
        home = Home(tmp_path / "home", store.environment)
        assert home.run("synctools").returncode == 0
        with contextlib.ExitStack() as whole:
            trouble = whole.enter_context(contextlib.ExitStack())
            trouble.enter_context(busy(store))
            agent = whole.enter_context(Agent(home, era))
            agent.connect(20)
            if era == MODERN:
                agent.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                agent.told("notifications/subscriptions/acknowledged")
            refused = agent.answer(agent.ask("tools/list"))["error"]
            assert refused["code"] == INTERNAL_ERROR
            assert refused["message"].endswith("; call again in a moment")
            trouble.close()
            begun = time.monotonic()
            agent.told(CHANGED)
            assert {"calculate", "echo"} <= {tool["name"] for tool in agent.tools()}
            assert time.monotonic() - begun < RECOVERED_WITHIN
            assert agent.call("echo", message="hi")["isError"] is False
