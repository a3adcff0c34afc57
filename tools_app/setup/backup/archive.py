"""The file of a backup: a ZIP archive of database, manifest and seal. Written under another name, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tools_app.setup.backup.errors import BackupError
from tools_app.setup.backup.seal import Seal
from tools_app.setup.backup.tables import Table

FORMAT: Final = "toolhub-backup"
VERSION: Final = 1
DATABASE, MANIFEST, SEAL = "database", "manifest.json", "seal.json"
_MOST_OF_PART: Final = 4 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
# SQLite files shrink to a quarter; a higher level takes twice the time for a tenth less. Dumps are compressed already.
_LEVEL: Final = 1
# Unfinished files of a process that was killed.
_LEFTOVER_SECONDS: Final = 6 * 3600
_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)

Kind = Literal["sqlite", "postgresql"]


class Contents(BaseModel):
    """The database in an archive. `server`: the major version of PostgreSQL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    server: int = 0
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What is in a backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["toolhub-backup"] = FORMAT
    version: int = VERSION
    hub_version: str
    made_at: datetime
    migrations: list[tuple[str, str]]
    keys: Literal["encrypted", "left out"]
    database: Contents
    tables: dict[str, Table]


class Archive:
    """An archive that is complete in form. Its manifest is to be believed when `seal.opened` has proved it."""

    def __init__(self, path: Path, manifest_text: bytes, seal: Seal) -> None:
        self.path = path
        self.manifest_text = manifest_text
        self.manifest = Manifest.model_validate_json(manifest_text)
        self.seal = seal

    def extract(self, target: IO[bytes] | None = None) -> None:
        """Copy the database to a file, or only compare it with the manifest.

        Raises:
            BackupError: it is not what the manifest says.
        """
        expected, digest, size = self.manifest.database, hashlib.sha256(), 0
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(DATABASE) as database:
                while chunk := database.read(_CHUNK):
                    size += len(chunk)
                    if size > expected.bytes:
                        break
                    digest.update(chunk)
                    if target is not None:
                        _write(target, chunk)
        except _DAMAGES as error:
            raise _damaged(self.path, str(error)) from error
        if (size, digest.hexdigest()) != (expected.bytes, expected.sha256):
            raise _damaged(self.path, "its database is not that of its manifest")


def _write(target: IO[bytes], chunk: bytes) -> None:
    try:
        target.write(chunk)
    except OSError as error:
        # Not to be taken for an error of the archive.
        raise BackupError(f"cannot write {target.name}: {error.strerror}; free some space, and try again") from error


def read(path: Path) -> Archive:
    """Open an archive.

    Raises:
        BackupError: it is missing, foreign, incomplete, damaged, or of a later version.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(4)
    except OSError as error:
        raise BackupError(f"cannot read {path}: {error.strerror}") from error
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
            if MANIFEST not in names or SEAL not in names:
                raise _foreign(path)
            manifest_text, seal_text = _part(archive, MANIFEST), _part(archive, SEAL)
    except _DAMAGES as error:
        if beginning != b"PK\x03\x04":
            raise _foreign(path) from error
        raise BackupError(f"{path} is incomplete or damaged ({error}): copy it again, or use another backup") from error
    try:
        head = json.loads(manifest_text)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise _foreign(path)
        if head.get("version") != VERSION:
            maker = head.get("hub_version", "later")
            raise BackupError(
                f"{path} was made by a later version of ToolHub ({maker:.40}): install that version to restore it"
            )
        if names != sorted((DATABASE, MANIFEST, SEAL)):
            raise _damaged(path, "it has other parts")
        return Archive(path, manifest_text, Seal.model_validate_json(seal_text))
    except (ValueError, ValidationError) as error:
        raise _damaged(path, "its manifest is not readable") from error


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as part:
        content = part.read(_MOST_OF_PART + 1)
    if len(content) > _MOST_OF_PART:
        raise zipfile.BadZipFile(f"{name} is too large")
    return content


def _foreign(path: Path) -> BackupError:
    return BackupError(f"{path} is not a backup of ToolHub; name a file that `toolhub backup` has made")


def _damaged(path: Path, why: str) -> BackupError:
    return BackupError(f"{path} is damaged ({why}): copy it again, or use another backup")


@contextlib.contextmanager
def partial(target: Path, part: str) -> Iterator[Path]:
    """An empty private file beside the target, deleted at the end unless it was renamed."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.{part}.partial")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def clear_leftovers(folder: Path) -> None:
    """Delete unfinished files of processes that were killed."""
    for path in folder.glob(".*.partial*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                path.unlink()


def write_database(archive: zipfile.ZipFile, source: Path, *, is_compressed: bool) -> tuple[int, str]:
    """Add the database. Returns its size and hash."""
    entry = zipfile.ZipInfo(DATABASE, time.gmtime()[:6])
    entry.external_attr = 0o600 << 16
    entry.compress_type = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
    entry._compresslevel = _LEVEL  # type: ignore[attr-defined] # `compress_level` from Python 3.13 on
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as file, archive.open(entry, "w", force_zip64=True) as member:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            member.write(chunk)
    return size, digest.hexdigest()


def flush(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
