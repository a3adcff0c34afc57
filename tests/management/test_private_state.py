"""A home that others on the machine can look into is closed, or the hub does not start."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.support.processes import Home

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has other ways")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("template") / "home")
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture
def loose(template: Home, tmp_path: Path) -> Home:
    """One that was made with the usual umask, with a file of settings beside it."""
    copy = tmp_path / "home"
    shutil.copytree(template.path, copy)
    for path in copy.iterdir():
        path.chmod(0o755 if path.is_dir() else 0o644)
    copy.chmod(0o755)
    (tmp_path / "env").write_text("TOOLHUB_NAME=loose\n")
    (tmp_path / "env").chmod(0o644)
    return Home(copy, {"TOOLHUB_ENV_FILE": str(tmp_path / "env")})


def open_files(home: Home) -> dict[str, str]:
    paths = [home.path, *home.path.iterdir(), home.path.parent / "env"]
    return {
        path.name: stat.filemode(path.stat().st_mode)
        for path in paths
        if path.stat().st_mode & 0o077 and (path == home.path or not path.is_dir())
    }


def test_serve_closes_an_open_home_and_makes_closed_files(loose: Home) -> None:
    assert "toolhub.sqlite3" in open_files(loose)
    with loose.serving():
        names = {path.name for path in loose.path.iterdir()}
        assert {"toolhub.sqlite3", "toolhub.sqlite3-wal", "toolhub.sqlite3-shm"} <= names
        assert open_files(loose) == {}


def test_runmcp_closes_an_open_home(loose: Home) -> None:
    assert loose.run("runmcp").returncode == 0
    assert open_files(loose) == {}


def test_a_database_outside_the_home_is_closed(loose: Home, tmp_path: Path) -> None:
    database = tmp_path / "elsewhere.sqlite3"
    shutil.copy(loose.database, database)
    database.chmod(0o644)
    assert loose.run("runmcp", DATABASE_URL=f"sqlite:///{database}").returncode == 0
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


@pytest.mark.parametrize("command", ["serve", "runmcp"])
def test_a_home_that_is_everybodys_is_refused_and_left_as_it_is(loose: Home, command: str) -> None:
    loose.path.chmod(0o1777)
    refused = loose.run(command)
    assert refused.returncode == 2
    assert f"TOOLHUB_HOME: others on this machine can read {loose.path}" in refused.stderr
    assert f"`chmod o-rwx {loose.path}`" in refused.stderr
    assert stat.S_IMODE(loose.path.stat().st_mode) == 0o1777


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a directory away")
def test_a_readable_home_of_another_user_is_refused(loose: Home) -> None:
    os.chown(loose.path, 65534, 65534)
    assert "which belongs to another user" in loose.run("runmcp").stderr
    loose.path.chmod(0o750)
    assert loose.run("runmcp").returncode == 0
