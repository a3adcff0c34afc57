"""The programs of PostgreSQL: without them, or with too old ones, the error names what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools_app.setup.backup import postgres
from tools_app.setup.backup.errors import BackupError


def install(folder: Path, version: str) -> None:
    program = folder / "pg_dump"
    program.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}'\n")
    program.chmod(0o755)


def test_a_missing_program_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupError, match="pg_dump is not installed: .*postgresql-client-15"):
        postgres.program_for("pg_dump", 15)


@pytest.mark.parametrize("version", ["13.4", "9.6.24 (Debian 9.6.24-1)", "of no version"])
def test_an_older_program_names_the_package_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    install(tmp_path, version)
    with pytest.raises(BackupError, match="is older than the server .*PostgreSQL 15.*postgresql-client-15"):
        postgres.program_for("pg_dump", 15)


@pytest.mark.parametrize("version", ["15.20 (Debian 15.20-0+deb12u1)", "17beta1"])
def test_the_same_or_a_later_version_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    install(tmp_path, version)
    assert postgres.program_for("pg_dump", 15) == str(tmp_path / "pg_dump")
