"""Set up a hub: home, schema, triggers, tools, the first administrator and key.

Only `serve`, `migrate` and the first use of an empty home change the schema. All other commands refuse a database that
is older or newer than this program, and say what to do.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
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
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from tools_app import governance
from tools_app.base import conf
from tools_app.models import ApiKey, text_index, triggers
from tools_app.sources import sync
from tools_app.sources.recording import SyncReport

log = logging.getLogger("tools_app.sources")

Say = Callable[[str], object]

KEPT_COPIES: Final = 5
WAY_BACK: Final = (
    "install that version, or restore a backup that was made before the update: `toolhub restore FILE --replace`"
)
_ADVISORY_LOCK: Final = 1_620_934_712
# PostgreSQL: connection, resources, locks, shutdown and start.
_PASSING_STATES: Final = ("08", "53", "55", "57")
_PASSING_WORDS: Final = ("starting up", "shutting down", "not currently accepting", "recovery", "too many", "slots")


class NotReady(Exception):
    """The hub cannot be used; the message is one line with cause and fix.

    `passing`: the problem may be transient.
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
    """Credentials that are shown once, after the first start; None if they existed already."""

    password: str | None
    key: str | None


def schema() -> Schema:
    """Compare the schema of the database with this program.

    Raises:
        NotReady: the database cannot be reached or read.
    """
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError as error:
        raise NotReady.because(error) from error
    if not any(app == "tools_app" for app, _ in applied):
        return Schema.EMPTY  # Also if a first start was interrupted before our first migration.
    shipped = set(shipped_migrations())
    if {step for step in applied if step[0] == "tools_app"} - shipped:
        return Schema.NEWER
    return Schema.OLDER if shipped - applied else Schema.CURRENT


def require_ready(say: Say, *, records: bool = True) -> SyncReport | None:
    """Require a current schema; an empty home is set up first. Returns the report of that setup.

    `records`: sources whose files have changed are recorded, too.

    Raises:
        NotReady
    """
    if schema() is Schema.CURRENT:
        try:
            text_index.detach(connection)
        except DatabaseError as error:
            raise NotReady.because(error) from error
        if records:
            record_changes()
        return None
    return set_up(say, only_if_empty=True)


def record_changes() -> None:
    """Record sources whose files have changed while no process ran."""
    try:
        sync.sync(changed_only=True, complete=False)
    except DatabaseError as error:
        # Busy or read-only, or another process records the same: the recorded tools are valid.
        log.warning("changes of tools cannot be recorded now: %s", error)


def set_up(say: Say, *, only_if_empty: bool = False) -> SyncReport | None:
    """Migrate the schema, create the triggers, and sync the tools.

    Raises:
        NotReady: the database cannot be used, or belongs to a later version (or, with `only_if_empty`, an earlier).
    """
    try:
        with _alone():
            # Another process may have set up this hub while this one waited for the lock.
            state = schema()
            if state is Schema.NEWER:
                raise NotReady(f"the database was created by a later version of ToolHub; {WAY_BACK}")
            if state is Schema.OLDER and only_if_empty:
                raise NotReady(
                    "the database is older than this program; run `toolhub migrate` (or start `toolhub serve`)"
                )
            if state is not Schema.CURRENT:
                _migrate(state, say)
            elif only_if_empty:
                return None
            if triggers.missing_triggers(connection):
                triggers.create_triggers(connection)
            text_index.detach(connection)
            if text_index.missing_triggers(connection):
                text_index.create(connection)
            return sync.sync(changed_only=True)
    except DatabaseError as error:
        raise NotReady.because(error) from error


def _migrate(state: Schema, say: Say) -> None:
    say("Preparing the database …" if state is Schema.EMPTY else "Updating the database …")
    if state is Schema.OLDER and (copy := copied()) is not None:
        say(f"  backup: {copy}")
    if apps.is_installed("django.contrib.admin"):
        with all_or_nothing() if state is Schema.OLDER else contextlib.nullcontext():
            # Django's own command: ours would make a second backup.
            call_command(Migrate(), verbosity=0, interactive=False, skip_checks=True)
    else:
        _migrate_elsewhere()


@contextlib.contextmanager
def all_or_nothing() -> Iterator[None]:
    """One transaction for all migrations of an update: if one fails, the earlier version can continue."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            # A table with deferred checks that are still due could not be altered by the next migration.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            yield
        return
    # Migrations rebuild tables without checks of references, which can be switched outside of a transaction only.
    connection.disable_constraint_checking()
    try:
        with transaction.atomic():
            yield
            connection.check_constraints()
    finally:
        connection.enable_constraint_checking()


def welcome(chosen_password: str, *, actor: governance.Actor) -> Welcome:
    """Create the first administrator and the first key, if there is none."""
    from django.contrib.auth import get_user_model

    password = key = None
    if not get_user_model().objects.filter(is_superuser=True).exists():
        password = chosen_password or secrets.token_urlsafe(12)
        governance.create_admin("admin", password, actor=actor)
    if not ApiKey.objects.exists():
        _, key = governance.create_key("first", actor=actor)
    return Welcome(None if password == chosen_password else password, key)


def copied() -> Path | None:
    """Back up a SQLite database before a migration; the last few backups are kept."""
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
    """Describe a database error in one line, without the password."""
    settings = connection.settings_dict
    where = settings["NAME"]
    if connection.vendor == "postgresql":
        where = f"{settings['NAME']} at {settings['HOST'] or 'the local socket'}:{settings['PORT'] or 5432}"
    cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot use the database {where} ({cause}); check DATABASE_URL, and that it is reachable and writable"


def _may_pass(error: DatabaseError) -> bool:
    """True if the error may be transient: the database is busy, starting or unreachable."""
    cause: Any = error.__cause__
    if connection.vendor == "sqlite":
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if state := getattr(cause, "sqlstate", None):
        return state[:2] in _PASSING_STATES
    # Connecting failed. The server's own message, if any, follows this word.
    reason = str(error).partition("FATAL:")[2]
    return isinstance(error, OperationalError) and (not reason or any(word in reason for word in _PASSING_WORDS))


def shipped_migrations() -> Iterator[tuple[str, str]]:
    """Every migration of the installed apps, by name: listing files is fast, loading them is not."""
    for app in apps.get_app_configs():
        spec = importlib.util.find_spec(f"{app.name}.migrations")
        if spec is not None:
            for module in pkgutil.iter_modules(spec.submodule_search_locations):
                if module.name[0] not in "_~":
                    yield app.label, module.name


def _migrate_elsewhere() -> None:
    """Migrate in a subprocess with all apps: this process did not load those with other tables."""
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0"],
        env=environment_of_children(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise NotReady((done.stderr.strip().splitlines() or ["setting up the database failed"])[-1])


def environment_of_children() -> dict[str, str]:
    """For commands of this hub that `python -m django` runs."""
    environment = {key: value for key, value in os.environ.items() if key != "TOOLHUB_PROCESS"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return environment


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Lock, so that one process at a time sets up a hub."""
    with contextlib.ExitStack() as held:
        held.enter_context(locked_home())
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", [_ADVISORY_LOCK])
            held.callback(_unlock)
        yield


@contextlib.contextmanager
def locked_home() -> Iterator[None]:
    """Let one process at a time set up or replace what is in the home."""
    with _file_lock(home / ".lock") if (home := conf.home()) is not None else contextlib.nullcontext():
        yield


def _unlock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_ADVISORY_LOCK])


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Not available on every platform; the locks of the database still apply.
        yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
