"""An update is all or nothing: if a migration fails, the hub of before can continue, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.processes import Home, free_port
from tests.support.stores import Store

FAILING = """
from django.db import migrations


def fail(apps, editor):
    raise RuntimeError("this one fails")


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0020_sources_outside")]
    operations = [migrations.RunPython(fail, migrations.RunPython.noop)]
"""
BEFORE = "0018"


def failing_app(folder: Path) -> dict[str, str]:
    """Variables of a hub with an app whose migration comes last, and fails."""
    (folder / "late_app" / "migrations").mkdir(parents=True)
    for package in ("late_app", "late_app/migrations"):
        (folder / package / "__init__.py").touch()
    (folder / "late_app" / "migrations" / "0001_failing.py").write_text(FAILING)
    return {"TOOLHUB_APPS": "late_app", "PYTHONPATH": f"{Path(stores.__file__).parents[2]}:{folder}"}


def state(store: Store) -> tuple[object, ...]:
    """What shows that nothing was migrated: migrations, columns, rows and triggers."""
    migrations = store.query("SELECT app, name FROM django_migrations ORDER BY app, name")
    keys = store.query("SELECT name, hash FROM tools_app_apikey ORDER BY name")
    if stores.POSTGRES:
        columns = store.query(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        )
        triggers = store.query("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1")
        return migrations, keys, columns, triggers
    return migrations, keys, store.query("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")


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
        done = home.run(*arguments, **failing_app(tmp_path))
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
