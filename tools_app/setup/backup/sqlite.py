"""Copies a SQLite database while it is written, and puts one in its place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tools_app.setup.backup.archive import flush
from tools_app.setup.backup.errors import BackupError

SIDES: Final = ("-wal", "-shm", "-journal")


def copy(source: Path, target: Path) -> None:
    """Copy in one step: it reads one state of the database, while others write to the WAL.

    A copy in several steps would begin again whenever another process writes.
    """
    with closing(sqlite3.connect(source, timeout=30)) as before, closing(sqlite3.connect(target)) as after:
        # A copy that fails is deleted: it needs no journal, and waits for the disk once, at its end.
        after.execute("PRAGMA journal_mode=OFF")
        after.execute("PRAGMA synchronous=OFF")
        before.backup(after)
    settle(target)


def settle(path: Path) -> None:
    """Put everything into the one file, on the disk."""
    with closing(sqlite3.connect(path, timeout=30)) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    flush(path)


def damage(path: Path, *, thorough: bool) -> str:
    """What SQLite finds wrong with a file; empty if it is intact."""
    check = "integrity_check" if thorough else "quick_check"
    try:
        with closing(sqlite3.connect(path)) as database:
            findings = [str(row[0]) for row in database.execute(f"PRAGMA {check}(3)")]
            if findings == ["ok"] and thorough:
                findings = [f"{row[0]} refers to missing rows" for row in database.execute("PRAGMA foreign_key_check")]
                return "; ".join(findings[:3])
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if findings == ["ok"] else "; ".join(findings)


def migrations(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.execute("SELECT app, name FROM django_migrations ORDER BY app, name"))


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep all other processes out of a database, whose file is then complete without its WAL.

    Raises:
        BackupError: another process uses it.
    """
    if not path.exists():
        yield
        return
    with closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as database:
        try:
            # Every connection in WAL mode has a shared lock: leaving that mode fails if there is another one.
            mode = database.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
            database.execute("BEGIN EXCLUSIVE")
            is_alone = mode == database.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        except sqlite3.DatabaseError as error:
            # Damaged: that may be why it is replaced.
            is_alone = error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if not is_alone:
            raise BackupError(f"another process uses {path}: stop the hub and its agents, and try again")
        yield


def replace(path: Path, staged: Path, kept: Path | None) -> None:
    """Put a database into its place, in one step. `kept`: where the one of before remains."""
    for side in SIDES:
        # Left by a damaged database only (see `alone`): its pages do not belong to the new one.
        if (file := path.with_name(path.name + side)).exists():
            file.rename((kept or path).with_name(f"{(kept or path).name}{side}.left"))
    if kept is not None:
        os.link(path, kept)
        kept.chmod(0o600)
    staged.replace(path)
    flush(path.parent)
