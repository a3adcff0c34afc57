"""Bringing a hub into a state in which it can run: home, schema, triggers, tools, the first administrator and key.

Only `serve`, `migrate` and the first use of an empty home change the schema. Everything else refuses a database that
is older or newer than this program, and names the cure.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pkgutil
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from django.apps import apps
from django.core.management import call_command
from django.core.management.commands.migrate import Command as Migrate
from django.db import DatabaseError, OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from tools_app import governance, sources
from tools_app.base import conf
from tools_app.models import ApiKey, revision
from tools_app.sources import sync
from tools_app.sources.sync import SyncReport

Say = Callable[[str], object]

KEPT_COPIES: Final = 5
_ADVISORY_LOCK: Final = 1_620_934_712
# PostgreSQL: connection, resources, locks, shutdown and start.
_PASSING_STATES: Final = ("08", "53", "55", "57")
_PASSING_WORDS: Final = ("starting up", "shutting down", "not currently accepting", "recovery", "too many", "slots")


class NotReady(Exception):
    """The hub cannot be used as it is; the message is one line with cause and cure.

    `passing` is whether that may end by itself.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing

    @classmethod
    def because(cls, error: DatabaseError) -> Self:
        return cls(database_trouble(error), passing=_may_pass(error))


class Schema(Enum):
    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


@dataclass(frozen=True)
class Welcome:
    """What is shown once, after the first start: the way in. A part that existed already is None."""

    password: str | None
    key: str | None


def schema() -> Schema:
    """How the database compares with this program.

    Raises:
        NotReady: it cannot be reached or read.
    """
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError as error:
        raise NotReady.because(error) from error
    if not any(app == "tools_app" for app, _ in applied):
        return Schema.EMPTY  # Nothing of ours yet: also where a first start was cut short.
    shipped = set(_shipped())
    if {step for step in applied if step[0] == "tools_app"} - shipped:
        return Schema.NEWER
    return Schema.OLDER if shipped - applied else Schema.CURRENT


def require_ready(say: Say) -> SyncReport | None:
    """Let a command go on only where the schema fits. An empty home is set up first, and what that did is told.

    Raises:
        NotReady
    """
    if schema() is Schema.CURRENT:
        return None
    return set_up(say, only_if_empty=True)


def set_up(say: Say, *, only_if_empty: bool = False) -> SyncReport | None:
    """Make the schema current, see that changes are counted, and sync the tools.

    Raises:
        NotReady: the database cannot be used, or belongs to a later version (or, with `only_if_empty`, an earlier).
    """
    try:
        with _alone():
            # Another process may have set up this very hub while this one waited for its turn.
            found = schema()
            if found is Schema.NEWER:
                raise NotReady(
                    "the database was made by a later version of ToolHub; install that version, "
                    "or restore a copy from backups"
                )
            if found is Schema.OLDER and only_if_empty:
                raise NotReady(
                    "the database is older than this program; run `toolhub migrate` (or start `toolhub serve`)"
                )
            if found is not Schema.CURRENT:
                _migrate(found, say)
            elif only_if_empty:
                return None
            if revision.missing_triggers(connection):
                revision.create_triggers(connection)
            return sync.sync(sources.whole())
    except DatabaseError as error:
        raise NotReady.because(error) from error


def _migrate(found: Schema, say: Say) -> None:
    say("Preparing the database …" if found is Schema.EMPTY else "Updating the database …")
    if found is Schema.OLDER and (copy := copied()) is not None:
        say(f"  a copy of it as it was: {copy}")
    if apps.is_installed("django.contrib.admin"):
        # Django's own: ours, by that name, would make the copy a second time.
        call_command(Migrate(), verbosity=0, interactive=False, skip_checks=True)
    else:
        _migrate_elsewhere()


def welcome(chosen_password: str, *, actor: str) -> Welcome:
    """Make the first administrator and the first key, where there is none."""
    from django.contrib.auth import get_user_model

    password = key = None
    if not get_user_model().objects.filter(is_superuser=True).exists():
        password = chosen_password or secrets.token_urlsafe(12)
        governance.create_admin("admin", password, actor=actor)
    if not ApiKey.objects.exists():
        _, key = governance.create_key("first", actor=actor)
    return Welcome(None if password == chosen_password else password, key)


def copied() -> Path | None:
    """Copy a SQLite database before it is changed; the last few copies are kept."""
    home = conf.home()
    if connection.vendor != "sqlite" or home is None:
        return None
    folder = home / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"toolhub-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.sqlite3"
    with (
        contextlib.closing(sqlite3.connect(str(connection.settings_dict["NAME"]))) as before,
        contextlib.closing(sqlite3.connect(target)) as after,
    ):
        before.backup(after)
    target.chmod(0o600)
    for old in sorted(folder.glob("toolhub-*.sqlite3"))[:-KEPT_COPIES]:
        old.unlink()
    return target


def database_trouble(error: Exception) -> str:
    """What is wrong with the database, in one line without its password."""
    settings = connection.settings_dict
    where = settings["NAME"]
    if connection.vendor == "postgresql":
        where = f"{settings['NAME']} at {settings['HOST'] or 'the local socket'}:{settings['PORT'] or 5432}"
    cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot use the database {where} ({cause}); check DATABASE_URL and that it can be reached and written"


def _may_pass(error: DatabaseError) -> bool:
    """Whether the database is only busy, starting or not reached, and neither broken nor refusing us."""
    cause: Any = error.__cause__
    if connection.vendor == "sqlite":
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if state := getattr(cause, "sqlstate", None):
        return state[:2] in _PASSING_STATES
    # Connecting failed. What the server itself said, if there is one, stands behind this word.
    said = str(error).partition("FATAL:")[2]
    return isinstance(error, OperationalError) and (not said or any(word in said for word in _PASSING_WORDS))


def _shipped() -> Iterator[tuple[str, str]]:
    """Every migration that the installed apps bring, by name: reading names is quick, loading them is not."""
    for app in apps.get_app_configs():
        spec = importlib.util.find_spec(f"{app.name}.migrations")
        if spec is not None:
            for module in pkgutil.iter_modules(spec.submodule_search_locations):
                if module.name[0] not in "_~":
                    yield app.label, module.name


def _migrate_elsewhere() -> None:
    """This process left out apps that have tables of their own: one that has them all makes the tables."""
    environment = {key: value for key, value in os.environ.items() if key != "TOOLHUB_PROCESS"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise NotReady((done.stderr.strip().splitlines() or ["setting up the database failed"])[-1])


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process at a time sets up a hub; the others wait, and then find it done."""
    with contextlib.ExitStack() as held:
        if (home := conf.home()) is not None:
            held.enter_context(_file_lock(home / ".lock"))
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", [_ADVISORY_LOCK])
            held.callback(_unlock)
        yield


def _unlock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_ADVISORY_LOCK])


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Not on every platform; the database's own locks still hold.
        yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
