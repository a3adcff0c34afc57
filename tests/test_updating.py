"""An update is all or nothing: if a migration fails, the hub of before can continue, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.processes import Home, free_port
from tests.support.updates import failing_app, schema_of

BEFORE = "0018"


def state(store: stores.Store) -> tuple[object, ...]:
    return schema_of(store), store.query("SELECT name, hash FROM tools_app_apikey ORDER BY name")


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_failed_migration_leaves_the_state_of_before(tmp_path: Path, command: str) -> None:
    arguments = [command, *(("--port", str(free_port())) if command == "serve" else ())]
    (tmp_path / "home").mkdir()
    with stores.fresh(tmp_path / "home") as store:
        home = Home(tmp_path / "home", {**store.environment, "LOG_LEVEL": "error"})
        assert home.run("addkey", "agent").returncode == 0
        done = home.run("migrate", "tools_app", BEFORE)
        assert done.returncode == 0, done.stderr
        before = state(store)
        done = home.run(*arguments, **failing_app(tmp_path / "app"))
        assert done.returncode != 0
        assert "this one fails" in done.stderr
        assert state(store) == before
        # Without the app that fails, the same update works.
        assert home.run("migrate").returncode == 0
        assert "agent" in home.run("listkeys").stdout


def test_an_earlier_version_says_how_to_go_back(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with stores.fresh(tmp_path / "home") as store:
        home = Home(tmp_path / "home", {**store.environment, "LOG_LEVEL": "error"})
        assert home.run("synctools").returncode == 0
        store.query(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '2026-01-01')"
        )
        for command in (("serve", "--port", str(free_port())), ("listkeys",)):
            done = home.run(*command)
            assert done.returncode == 2
            assert "created by a later version of ToolHub; install that version, or restore a backup" in done.stderr
            assert "toolhub restore FILE --replace" in done.stderr
