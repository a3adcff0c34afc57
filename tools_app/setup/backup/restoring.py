"""Brings a backup back: everything is proved beside the present database, then one takes the place of the other."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management import call_command
from django.core.management.commands.migrate import Command as Migrate
from django.db import DatabaseError, connection, connections
from django.db.models.functions import Now

from tools_app import governance
from tools_app.base import conf, setting_origins
from tools_app.base.setting_origins import Origin
from tools_app.governance import Present, Settled
from tools_app.models import Process, text_index, triggers
from tools_app.setup import installation
from tools_app.setup.backup import archive, postgres, seal, sqlite, tables
from tools_app.setup.backup.archive import Archive, Manifest
from tools_app.setup.backup.errors import BackupError
from tools_app.setup.backup.seal import Keys
from tools_app.setup.backup.tables import Table
from tools_app.setup.installation import NotReady, Schema

Say = Callable[[str], object]

_SHOWN: Final = 5
# The file of the archive, and then that of the database.
_ROOM: Final = 1.1


@dataclass(frozen=True)
class Wishes:
    """The options of a restore."""

    replaces: bool = False
    keys_as_of_backup: bool = False
    accepts_unreadable: bool = False


@dataclass
class Restored:
    """What a restore did, and what an operator has to know."""

    manifest: Manifest
    settled: Settled
    # The database of before.
    kept: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Target:
    """The database that is replaced: what it knows, or None if it is empty or cannot be read."""

    name: str
    is_empty: bool
    present: Present | None


def restore(path: Path, wishes: Wishes, actor: governance.Actor, say: Say) -> Restored:
    """Restore a backup.

    Raises:
        BackupError: it cannot be restored; the present state is unchanged.
    """
    file = archive.read(path)
    manifest = file.manifest
    if manifest.database.kind != connection.vendor:
        raise BackupError(
            f"{path} is a backup of a {manifest.database.kind} database, and this hub has {connection.vendor}: "
            f"set DATABASE_URL to a {manifest.database.kind} database"
        )
    keys = seal.opened(file.seal, file.manifest_text, settings.TOOLHUB_BACKUP_PASSPHRASE)
    _require_known(path, manifest)
    home = conf.home()
    with installation.locked_home(), contextlib.ExitStack() as stack:
        target = _target(wishes)
        notes = _use_keys(keys, home, is_new=target.is_empty)
        if connection.vendor == "sqlite":
            place = Path(target.name)
            stack.enter_context(sqlite.alone(place))
            staged_name = str(stack.enter_context(_staged_file(file, place)))
        else:
            staged_name = stack.enter_context(_staged_database(file, home))
        with _connected_to(staged_name):
            say("Comparing every table with the manifest …")
            _prove(manifest, Path(staged_name))
            settled = _settle(target, manifest, path, wishes, actor, say)
        if keys is not None and target.is_empty:
            notes += _keep_secret_key(keys, home)
        kept = _put_in_place(target, staged_name, home)
    connection.close()
    return Restored(manifest, settled, kept, notes)


# ---- before anything is changed


def _require_known(path: Path, manifest: Manifest) -> None:
    unknown = {name for name in manifest.migrations if name[0] == "tools_app"} - set(installation.shipped_migrations())
    if unknown:
        raise BackupError(
            f"{path} was made by a later version of ToolHub ({manifest.hub_version}): install that version to "
            "restore it"
        )
    if manifest.database.kind == "postgresql" and postgres.server() < manifest.database.server:
        raise BackupError(
            f"{path} is of PostgreSQL {manifest.database.server}, and this server is older "
            f"({postgres.server()}): use a server of that version or later"
        )


def _target(wishes: Wishes) -> _Target:
    name = str(connection.settings_dict["NAME"])
    try:
        state = installation.schema()
        is_empty = state is Schema.EMPTY and not _tables()
    except NotReady as error:
        if connection.vendor == "postgresql":
            raise BackupError(str(error)) from error
        is_empty, state = False, Schema.NEWER  # Damaged: nothing in it can be read.
    if not is_empty and not wishes.replaces:
        raise BackupError(
            "this hub has data: restore into an empty home, or replace its data with --replace, which keeps the "
            "present database under another name"
        )
    present = None
    if state in (Schema.CURRENT, Schema.OLDER):
        with contextlib.suppress(DatabaseError):  # An older schema may lack a column.
            if running := Process.objects.filter(lease_until__gte=Now()).count():
                raise BackupError(f"{running} processes of this hub are running: stop the hub and its agents first")
            present = governance.present_state()
    connection.close()
    return _Target(name, is_empty, present)


def _tables() -> list[str]:
    return connection.introspection.table_names()


def _use_keys(keys: Keys | None, home: Path | None, *, is_new: bool) -> list[str]:
    """Let this process decrypt what the backup has. Everything is re-encrypted with this hub's first key afterwards."""
    if keys is None:
        return []
    own = seal.own_keys()
    settings.TOOLHUB_ENCRYPTION_KEY = ",".join(dict.fromkeys((*own.encryption, *keys.encryption)))
    if keys.secret[0] in own.secret or (is_new and _has_key_file(home)):
        return []
    return [
        "This hub has another SECRET_KEY than the backup: API keys of the backup are refused until that key is in "
        "SECRET_KEY_FALLBACKS, or they are rotated."
    ]


def _has_key_file(home: Path | None) -> bool:
    return home is not None and setting_origins.origin_of_variable("SECRET_KEY")[0] is Origin.DEFAULT


def _keep_secret_key(keys: Keys, home: Path | None) -> list[str]:
    """On a new machine the generated key gives way to the one under which the API keys are stored."""
    if home is None or not _has_key_file(home) or keys.secret[0] == settings.SECRET_KEY:
        return []
    place = home / "secret_key"
    with archive.partial(place, "key") as draft:
        draft.write_text(keys.secret[0], encoding="utf-8")
        archive.flush(draft)
        draft.replace(place)
    return [f"SECRET_KEY of the backup is in {place}."]


# ---- beside the present database


@contextlib.contextmanager
def _staged_file(file: Archive, place: Path) -> Iterator[Path]:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive.clear_leftovers(place.parent)
    _require_room(place.parent, file.manifest)
    with archive.partial(place, "restore") as draft:
        try:
            with draft.open("wb") as out:
                file.extract(out)
                out.flush()
                os.fsync(out.fileno())
            yield draft
        finally:
            for side in sqlite.SIDES:
                draft.with_name(draft.name + side).unlink(missing_ok=True)


@contextlib.contextmanager
def _staged_database(file: Archive, home: Path | None) -> Iterator[str]:
    folder = home or file.path.parent
    archive.clear_leftovers(folder)
    _require_room(folder, file.manifest)
    with contextlib.ExitStack() as stack:
        draft = stack.enter_context(archive.partial(folder / "database", "restore"))
        with draft.open("wb") as out:
            file.extract(out)
        yield stack.enter_context(postgres.staged(draft))


def _require_room(folder: Path, manifest: Manifest) -> None:
    needed, free = int(manifest.database.bytes * _ROOM), shutil.disk_usage(folder).free
    if free < needed:
        raise BackupError(f"{folder} has {free:,} bytes left, and the restore needs {needed:,}: free some space")


@contextlib.contextmanager
def _connected_to(name: str) -> Iterator[None]:
    """Let all code of this process use another database."""
    before = connection.settings_dict["NAME"]
    connection.close()
    _use_database(name)
    try:
        yield
    finally:
        connection.close()
        _use_database(before)


def _use_database(name: Any) -> None:
    for one in (connection.settings_dict, connections.settings["default"]):
        one["NAME"] = name


def _prove(manifest: Manifest, staged: Path) -> None:
    found: dict[str, Table]
    if connection.vendor == "postgresql":
        found = postgres.contents()
    else:
        if damage := sqlite.damage(staged, thorough=True):
            raise BackupError(f"the database in the backup is damaged ({damage}): use another backup")
        found = tables.of_sqlite(staged)
    if differences := tables.differences(manifest.tables, found):
        raise BackupError(
            f"the restored tables differ from the manifest: {'; '.join(differences[:_SHOWN])}; use another backup"
        )


def _settle(
    target: _Target, manifest: Manifest, path: Path, wishes: Wishes, actor: governance.Actor, say: Say
) -> Settled:
    """Make it a database of this hub, now: migrated, without sessions, under its encryption key."""
    try:
        if installation.schema() is not Schema.CURRENT:
            say("Updating the restored database …")
            call_command(Migrate(), verbosity=0, interactive=False, skip_checks=True)
        if triggers.missing_triggers(connection):
            triggers.create_triggers(connection)
        text_index.create(connection)
        settled = governance.settle_restored(
            path.name, manifest.made_at, target.present, keys_as_of_backup=wishes.keys_as_of_backup, actor=actor
        )
        say("Decrypting every secret …")
        unreadable = governance.rotate_secrets(actor=actor).unreadable
    except (DatabaseError, NotReady) as error:
        raise BackupError(f"the restored database cannot be used: {error}") from error
    if unreadable and not wishes.accepts_unreadable:
        raise BackupError(
            f"{len(unreadable)} stored secrets cannot be decrypted ({'; '.join(unreadable[:_SHOWN])}): add the key of "
            "that time to TOOLHUB_ENCRYPTION_KEY (new,old), or restore without them: --accept-unreadable-secrets"
        )
    return settled


# ---- one for the other


def _put_in_place(target: _Target, staged_name: str, home: Path | None) -> str:
    """Returns where the database of before is now; empty if there was none."""
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if connection.vendor == "postgresql":
        kept_name = None if target.is_empty else f"{target.name[:36]}_replaced_{stamp.replace('-', '_')}"
        postgres.replace(staged_name, target.name, kept_name)
        return kept_name or ""
    place = Path(target.name)
    kept = None
    if not target.is_empty:
        kept = (home or place.parent) / "backups" / f"replaced-{stamp}.sqlite3"
        kept.parent.mkdir(mode=0o700, exist_ok=True)
    sqlite.settle(Path(staged_name))
    sqlite.replace(place, Path(staged_name), kept)
    return str(kept or "")
