"""Dumps a PostgreSQL database with `pg_dump`, and replaces one by another with `pg_restore`."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.db import ProgrammingError, connection, transaction

from tools_app.models import text_index
from tools_app.setup.backup import tables
from tools_app.setup.backup.errors import BackupError
from tools_app.setup.backup.tables import Table

_RESTORE_JOBS: Final = 2
_STAGED: Final = "_restore_"
_LONGEST_NAME: Final = 63
# In the list of a dump: what a server without the extension cannot restore. The index is created again.
_OF_INDEX: Final = re.compile(
    rf" (EXTENSION - {text_index.EXTENSION}|COMMENT - EXTENSION {text_index.EXTENSION}|INDEX \S+ {text_index.INDEX}) "
)


def dump(target: Path) -> tuple[dict[str, Table], list[tuple[str, str]]]:
    """Dump to a file. Returns the tables and migrations of the same moment.

    Raises:
        BackupError: the program is missing or too old, or fails.
    """
    program = program_for("pg_dump", server())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        options = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges", "--no-password")
        _run([program, *options, f"--snapshot={snapshot}", f"--file={target}"], _database())
        cursor.execute("SELECT app, name FROM django_migrations ORDER BY app, name")
        migrations = [(str(app), str(name)) for app, name in cursor.fetchall()]
        return tables.of_postgres(cursor), migrations


def contents() -> dict[str, Table]:
    with transaction.atomic(), connection.cursor() as cursor:
        return tables.of_postgres(cursor)


def server() -> int:
    """The major version of the server."""
    connection.ensure_connection()
    version: int = connection.pg_version  # type: ignore[attr-defined]
    return version // 10_000


def program_for(name: str, oldest: int) -> str:
    """Raises: BackupError: it is missing, or older than the server."""
    package = f"install the PostgreSQL client programs, version {oldest} or later (Debian: postgresql-client-{oldest})"
    path = shutil.which(name)
    if path is None:
        raise BackupError(f"{name} is not installed: {package}")
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
        said = done.stdout
        found = re.search(r"\) (\d+)", said)
    except (OSError, subprocess.SubprocessError) as error:
        raise BackupError(f"{path} does not run: {package}") from error
    if found is None or int(found[1]) < oldest:
        raise BackupError(f"{path} is older than the server ({said.strip()}, PostgreSQL {oldest}): {package}")
    return path


def _database() -> str:
    return str(connection.settings_dict["NAME"])


def _run(command: list[str], database: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 – our own arguments
            command, env=_environment(database), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BackupError(f"{command[0]} does not run: {error.strerror}") from error
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if "error" in line.lower()] or ["no message"]
        raise BackupError(f"{Path(command[0]).name} failed: {lines[0][:300]}")
    return done.stdout


def _environment(database: str) -> dict[str, str]:
    """How the program finds the server. A password in its arguments would be visible to other users."""
    from psycopg import pq

    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"} or name.startswith("PG")}
    names = {one.keyword.decode(): one.envvar.decode() for one in pq.Conninfo.get_defaults() if one.envvar}
    parameters: dict[str, Any] = connection.get_connection_params()
    own = {names[key]: str(value) for key, value in parameters.items() if key in names and value is not None}
    return {**kept, **own, "PGDATABASE": database, "LC_ALL": "C"}


@contextlib.contextmanager
def staged(dump_file: Path) -> Iterator[str]:
    """A new database beside the present one, with the contents of a dump. Dropped at the end unless it was renamed.

    Raises:
        BackupError
    """
    program = program_for("pg_restore", server())
    with _maintenance() as cursor:
        cursor.execute(
            "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = %s",
            [_database()],
        )
        encoding, collation, types = cursor.fetchone()
        name = f"{_database()[: _LONGEST_NAME - len(_STAGED) - 8]}{_STAGED}{secrets.token_hex(4)}"
        _drop_leftovers(cursor)
        try:
            cursor.execute(
                f"CREATE DATABASE {_quoted(name)} TEMPLATE template0 ENCODING %s LC_COLLATE %s LC_CTYPE %s",
                [encoding, collation, types],
            )
        except ProgrammingError as error:
            user = connection.settings_dict["USER"] or "the user of DATABASE_URL"
            raise BackupError(
                "a restore needs a second database for a while, and may not create one: as an administrator of the "
                f'server run `ALTER ROLE "{user}" CREATEDB`, and take it back afterwards with NOCREATEDB'
            ) from error
    try:
        options = ["--no-owner", "--no-privileges", "--no-password", "--exit-on-error", f"--jobs={_RESTORE_JOBS}"]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as chosen:
            if not text_index.is_available(connection):
                entries = _run([program, "--list", str(dump_file)], name).splitlines()
                chosen.writelines(f"{entry}\n" for entry in entries if not _OF_INDEX.search(f"{entry} "))
                chosen.flush()
                options.append(f"--use-list={chosen.name}")
            _run([program, *options, f"--dbname={name}", str(dump_file)], name)
        yield name
    finally:
        with _maintenance() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {_quoted(name)}")


def _drop_leftovers(cursor: Any) -> None:
    """Of restores that were killed."""
    prefix = f"{_database()[: _LONGEST_NAME - len(_STAGED) - 8]}{_STAGED}"
    cursor.execute(
        "SELECT datname FROM pg_database WHERE starts_with(datname, %s) AND pg_get_userbyid(datdba) = current_user "
        "AND NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pg_stat_activity.datname = pg_database.datname)",
        [prefix],
    )
    for (name,) in cursor.fetchall():
        if re.fullmatch("[0-9a-f]{8}", name.removeprefix(prefix)):
            cursor.execute(f"DROP DATABASE IF EXISTS {_quoted(name)}")


def replace(staged_name: str, database: str, kept: str | None) -> None:
    """Rename both in one transaction. `kept`: what the present one is called then; None: it is dropped.

    Raises:
        BackupError: another process uses the present database.
    """
    aside = kept or f"{database[: _LONGEST_NAME - 9]}_{secrets.token_hex(4)}"
    with _maintenance() as cursor:
        try:
            cursor.execute(
                f"BEGIN; ALTER DATABASE {_quoted(database)} RENAME TO {_quoted(aside)};"
                f" ALTER DATABASE {_quoted(staged_name)} RENAME TO {_quoted(database)}; COMMIT"
            )
        except Exception as error:
            cursor.execute("ROLLBACK")
            raise BackupError(
                f"cannot replace the database {database} ({str(error).strip().splitlines()[0]}): stop the hub and "
                "its agents, and let its owner restore it"
            ) from error
        if kept is None:
            cursor.execute(f"DROP DATABASE {_quoted(aside)}")


@contextlib.contextmanager
def _maintenance() -> Iterator[Any]:
    """A cursor in another database of the server: one that is in use cannot be renamed."""
    with connection._nodb_cursor() as cursor:
        yield cursor


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
