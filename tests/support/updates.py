"""Updates of a database that fail, and what shows that nothing of them stayed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from tests.support.processes import CHECKOUT
from tests.support.stores import PostgresStore, Store

FAILED: Final = "this one fails"
_FAILING: Final = """
from django.db import migrations


def fail(apps, editor):
    raise RuntimeError("{failed}")


class Migration(migrations.Migration):
    dependencies = [("tools_app", "{latest}")]
    operations = [migrations.RunPython(fail, migrations.RunPython.noop)]
"""


def failing_app(folder: Path) -> dict[str, str]:
    """Variables of a hub with an app whose migration comes after all others, and fails."""
    migrations = folder / "late_app" / "migrations"
    migrations.mkdir(parents=True)
    for package in (migrations.parent, migrations):
        (package / "__init__.py").touch()
    latest = max(path.stem for path in (CHECKOUT / "tools_app" / "migrations").glob("[0-9]*.py"))
    (migrations / "0001_failing.py").write_text(_FAILING.format(failed=FAILED, latest=latest))
    return {"TOOLHUB_APPS": "late_app", "PYTHONPATH": os.pathsep.join((str(CHECKOUT), str(folder)))}


def schema_of(store: Store) -> tuple[list[tuple[Any, ...]], ...]:
    """The migrations that were applied, and every table, column and trigger."""
    migrations = store.query("SELECT app, name FROM django_migrations ORDER BY app, name")
    if isinstance(store, PostgresStore):
        columns = store.query(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        )
        return migrations, columns, store.query("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1")
    return migrations, store.query("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")
