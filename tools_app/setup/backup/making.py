"""Makes a backup, beside a running hub."""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from tools_app import governance
from tools_app.base import conf
from tools_app.setup.backup import archive, postgres, seal, sqlite, tables
from tools_app.setup.backup.archive import Archive, Contents, Manifest
from tools_app.setup.backup.errors import BackupError
from tools_app.setup.backup.tables import Table

SUFFIX: Final = ".backup"
_SCHEDULED: Final = re.compile(r"toolhub-auto-\d{8}-\d{6}\.backup")


@dataclass(frozen=True)
class Backup:
    path: Path
    bytes: int
    manifest: Manifest


@dataclass(frozen=True)
class _Copy:
    """A copy of the database at one moment."""

    tables: dict[str, Table]
    migrations: list[tuple[str, str]]
    server: int = 0


def folder() -> Path:
    """Where backups are stored if no file is named."""
    directory: Path | None = conf.value("TOOLHUB_BACKUP_DIR")
    home = conf.home()
    if directory is None and home is None:
        raise BackupError("name the file of the backup, or set TOOLHUB_BACKUP_DIR")
    return directory or Path(home or ".") / "backups"


def file_name(*, is_scheduled: bool) -> str:
    return f"toolhub-{'auto-' * is_scheduled}{datetime.now(UTC):%Y%m%d-%H%M%S}{SUFFIX}"


def make(target: Path, actor: governance.Actor) -> Backup:
    """Write a backup, and read it back.

    Raises:
        BackupError: it cannot be made; there is no such file then.
    """
    try:
        backup = _make(target)
    except OSError as error:
        raise BackupError(f"cannot write {error.filename or target}: {error.strerror}") from error
    manifest = backup.manifest
    facts = {"file": str(target), "rows": sum(table.rows for table in manifest.tables.values()), "keys": manifest.keys}
    governance.note_backup(manifest.made_at, facts, actor=actor)
    return backup


def _make(target: Path) -> Backup:
    if target.exists():
        raise BackupError(f"{target} exists already: name a new file")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive.clear_leftovers(target.parent)
    passphrase: str = settings.TOOLHUB_BACKUP_PASSPHRASE
    made_at = datetime.now(UTC)
    with archive.partial(target, "archive") as draft:
        # In the same directory: it is private, and has the room.
        with archive.partial(target, "database") as database:
            copied = _copy(database)
            with zipfile.ZipFile(draft, "w") as file:
                is_dump = connection.vendor == "postgresql"
                size, digest = archive.write_database(file, database, is_compressed=is_dump)
                manifest = Manifest(
                    hub_version=conf.value("TOOLHUB_VERSION"),
                    made_at=made_at,
                    migrations=copied.migrations,
                    keys="encrypted" if passphrase else "left out",
                    database=Contents(
                        kind="postgresql" if is_dump else "sqlite", server=copied.server, bytes=size, sha256=digest
                    ),
                    tables=copied.tables,
                )
                text = manifest.model_dump_json(indent=1).encode()
                file.writestr(archive.MANIFEST, text)
                file.writestr(archive.SEAL, seal.sealed(text, passphrase).model_dump_json())
        archive.flush(draft)
        _read_back(archive.read(draft), text, passphrase)
        draft.replace(target)
        archive.flush(target.parent)
    return Backup(target, target.stat().st_size, manifest)


def _copy(target: Path) -> _Copy:
    if connection.vendor == "postgresql":
        contents, migrations = postgres.dump(target)
        return _Copy(contents, migrations, postgres.server())
    sqlite.copy(Path(str(connection.settings_dict["NAME"])), target)
    if found := sqlite.damage(target, thorough=False):
        raise BackupError(f"the database is damaged ({found}): restore the last good backup")
    return _Copy(tables.of_sqlite(target), sqlite.migrations(target))


def _read_back(written: Archive, manifest_text: bytes, passphrase: str) -> None:
    if written.manifest_text != manifest_text:
        raise BackupError("what was written is not what is in the file: check the disk")
    seal.opened(written.seal, manifest_text, passphrase)
    written.extract()


def rotate(directory: Path, keep: int) -> list[Path]:
    """Delete scheduled backups, except the newest ones. Others are never deleted."""
    own = sorted(path for path in directory.iterdir() if _SCHEDULED.fullmatch(path.name))
    for path in own[:-keep]:
        path.unlink(missing_ok=True)
    return own[:-keep]


def lower_priority() -> None:
    """Calls come first."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
