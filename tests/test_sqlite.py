"""A database file that is gone is not replaced by an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from toolhub.sqlite.base import DatabaseWrapper

pytestmark = pytest.mark.django_db


@pytest.fixture
def database(tmp_path: Path) -> Iterator[DatabaseWrapper]:
    settings: dict[str, Any] = {
        "ENGINE": "toolhub.sqlite", "NAME": str(tmp_path / "a file.sqlite3"), "OPTIONS": {}, "TIME_ZONE": None,
        "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False,
    }  # fmt: skip
    wrapper = DatabaseWrapper(settings)
    wrapper.connect()
    wrapper.connection.execute("CREATE TABLE kept (id)")
    yield wrapper
    wrapper.close()


def path_of(database: DatabaseWrapper) -> Path:
    return Path(str(database.settings_dict["NAME"]))


def test_the_first_connection_makes_the_file_and_later_ones_find_it(database: DatabaseWrapper) -> None:
    database.close()
    database.connect()
    assert database.connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_file_that_is_gone_is_an_error(database: DatabaseWrapper) -> None:
    database.close()
    path = path_of(database)
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(OperationalError, match="unable to open"):
        database.ensure_connection()
    assert not path.exists()
    path.with_suffix(".moved").rename(path)
    database.connect()
    assert database.is_usable()


def test_a_connection_to_a_file_that_was_exchanged_is_of_no_use(database: DatabaseWrapper) -> None:
    assert database.is_usable()
    path = path_of(database)
    path.rename(path.with_suffix(".moved"))
    assert not database.is_usable()
    path.touch()
    assert not database.is_usable()
