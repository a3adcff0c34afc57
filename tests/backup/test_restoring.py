"""A restored hub has everything that was in the backup, and repeats nothing that happened since."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.backup.conftest import Backed
from tests.support.processes import Home, key_in
from tests.support.stores import POSTGRES, Store
from tools_app.setup.backup import tables

# Settled by a restore, or written by it.
CHANGED = {
    *("tools_app_approval", "tools_app_auditentry", "tools_app_chore", "tools_app_connection", "tools_app_revision"),
    *("tools_app_stop", "django_session"),
}
KILLED = """
import os, sys
import django
django.setup()
from tools_app import governance
settle = governance.settle_restored
def killed(*arguments, **options):
    settle(*arguments, **options)
    os.kill(os.getpid(), 9)
governance.settle_restored = killed
from django.core.management import call_command
call_command("restore", sys.argv[1], "--replace")
"""
WITHOUT_EXTENSION = """
import sys
import django
django.setup()
from tools_app.models import text_index
from tools_app.setup.backup import postgres
text_index.EXTENSION = "pg_trgm_that_nobody_has"
from django.core.management import call_command
call_command("restore", sys.argv[1])
"""
SECRET = """
import django
django.setup()
from tools_app.base import secrets
from tools_app.models import Connection
print(secrets.decrypted(bytes(Connection.objects.get().sealed)).decode())
"""
SEAL = """
import django
django.setup()
from tools_app.journal import trail
trail.seal()
"""
TABLES = """
import django, json
django.setup()
from tools_app.setup.backup import postgres
print(json.dumps({name: table.model_dump() for name, table in postgres.contents().items()}))
"""


def restored(home: Home, path: Path, *options: str, **extra: str) -> str:
    done = home.run("restore", str(path), *options, **extra)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Restored; no problems." in done.stdout
    return done.stdout


def contents(home: Home) -> dict[str, tables.Table]:
    if not POSTGRES:
        return tables.of_sqlite(home.database)
    done = home.python(TABLES)
    assert done.returncode == 0, done.stderr
    return {name: tables.Table(**table) for name, table in json.loads(done.stdout).items()}


def stopped_keys(store: Store) -> list[str]:
    return [name for (name,) in store.query("SELECT name FROM tools_app_stop WHERE kind = 'key' ORDER BY name")]


def revision(store: Store) -> tuple[int, ...]:
    ((value, tools, access),) = store.query("SELECT value, tools, access FROM tools_app_revision")
    return value, tools, access


def test_a_new_home_has_the_same_contents_and_ends_what_was_open(
    template: Backed, backup: Path, empty: tuple[Home, Store]
) -> None:
    home, store = empty
    said = restored(home, backup)
    before, after = contents(template.home), contents(home)
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} <= CHANGED
    assert "Ended: 1 sessions, 2 open approvals." in said
    assert "API keys that are off: agent, other." in said
    assert store.query("SELECT count(*) FROM django_session") == [(0,)]
    states = store.query("SELECT state FROM tools_app_approval ORDER BY id")
    assert states == [("refused",), ("refused",), ("used",)]
    assert stopped_keys(store) == ["agent", "other"]
    assert all(new > old for new, old in zip(revision(store), revision(template.store), strict=True))
    assert home.python(SECRET).stdout.strip() == "n8n-secret-value"
    ((actor, changes),) = store.query("SELECT actor, changes FROM tools_app_auditentry WHERE action = 'backup.restore'")
    assert actor.startswith("command:")
    assert backup.name in str(changes)
    assert not store.damage()
    assert home.run("resume", "key", "agent").returncode == 0
    assert stopped_keys(store) == ["other"]
    # The secret key of the backup is that of the new home: keys are recognised.
    assert (home.path / "secret_key").read_text() == (template.home.path / "secret_key").read_text()
    assert "agent is revoked" in home.run("revokekey", template.key).stdout
    assert home.run("restore", str(backup)).returncode == 2, "a hub with data is not replaced without the option"


@pytest.mark.skipif(not POSTGRES, reason="SQLite has no extensions to install")
def test_a_server_without_the_extension_of_the_index_restores_everything_else(
    template: Backed, backup: Path, empty: tuple[Home, Store]
) -> None:
    home, store = empty
    environment = {**home.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
    command = [sys.executable, "-c", WITHOUT_EXTENSION, str(backup)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert "Restored; no problems." in done.stdout, done.stdout + done.stderr
    before, after = contents(template.home), contents(home)
    assert {name for name in before if before[name] != after[name]} <= CHANGED
    extensions = "SELECT count(*) FROM pg_extension WHERE extname = 'pg_trgm'"
    assert template.store.query(extensions) == [(1,)]
    assert store.query(extensions) == [(0,)]
    triggers = "SELECT count(*) FROM pg_trigger WHERE starts_with(tgname, 'tools_app_calltext')"
    assert store.query(triggers) == [(2,)]
    assert home.run("migrate").returncode == 0
    assert store.query(extensions) == [(1,)]


def test_what_was_revoked_rotated_or_stopped_since_stays_so(hub: Backed, tmp_path: Path) -> None:
    backup = hub.backup(tmp_path / "a.backup")
    rotated = key_in(hub.home.run("rotatekey", "other").stdout)
    for command in (("revokekey", "agent"), ("stop", "key", "other"), ("addkey", "later")):
        assert hub.home.run(*command).returncode == 0
    hub.store.query("UPDATE tools_app_revision SET value = value + 9000000000000")
    before = revision(hub.store)
    said = restored(hub.home, backup, "--replace", "--keys-as-of-backup")
    assert "Revoked since the backup, and still revoked: agent." in said
    keys = {key["name"]: key for key in json.loads(hub.home.run("listkeys", "--json").stdout)}
    assert {name: key["state"] for name, key in keys.items()} == {"agent": "revoked", "other": "stopped"}
    assert keys["other"]["prefix"] == rotated[5:13]
    assert hub.store.query("SELECT kind, name FROM tools_app_stop") == [("key", "other")]
    assert all(new > old for new, old in zip(revision(hub.store), before, strict=True))
    kept = said.partition("is kept as ")[2].partition(". Delete")[0]
    if POSTGRES:
        hub.store.query(f'DROP DATABASE "{kept}"')
    else:
        assert "later" in Home(hub.home.path, {"DATABASE_URL": f"sqlite:///{kept}"}).run("listkeys").stdout


def test_an_encryption_key_that_was_changed_since_decrypts_everything(hub: Backed, tmp_path: Path) -> None:
    backup = hub.backup(tmp_path / "a.backup")
    sealed = hub.home.run("backup", str(tmp_path / "b.backup"), TOOLHUB_BACKUP_PASSPHRASE="")
    assert sealed.returncode == 0
    old, new = (hub.home.path / "encryption_key").read_text(), "n" + "0123456789abcdef" * 3
    assert hub.home.run("rotatesecrets", TOOLHUB_ENCRYPTION_KEY=f"{new},{old}").returncode == 0
    (hub.home.path / "encryption_key").write_text(new)
    said = restored(hub.home, backup, "--replace")
    assert "every secret was decrypted" in said
    # Re-encrypted with the present key: the old one is not needed any more.
    assert hub.home.python(SECRET).stdout.strip() == "n8n-secret-value"
    assert (hub.home.path / "encryption_key").read_text() == new
    again = hub.home.run("restore", str(tmp_path / "b.backup"), "--replace")
    assert again.returncode == 2
    assert "Set TOOLHUB_ENCRYPTION_KEY to the key of that time" in again.stderr
    restored(hub.home, tmp_path / "b.backup", "--replace", TOOLHUB_ENCRYPTION_KEY=f"{new},{old}")
    assert hub.home.python(SECRET).stdout.strip() == "n8n-secret-value"
    if POSTGRES:
        drop_replaced(hub.store)


def test_the_audit_trail_proves_itself_after_a_restore_and_after_a_rotation(hub: Backed, tmp_path: Path) -> None:
    def verified() -> dict[str, Any]:
        done = hub.home.run("verifyaudit", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    assert hub.home.python(SEAL).returncode == 0
    before = verified()
    assert before["entries"] > 0
    assert before["unsealed"] == 0
    backup = hub.backup(tmp_path / "a.backup")
    old, new = (hub.home.path / "encryption_key").read_text(), "n" + "0123456789abcdef" * 3
    assert hub.home.run("addkey", "later").returncode == 0
    assert hub.home.python(SEAL).returncode == 0
    lost = verified()["newest"]
    assert hub.home.run("rotatesecrets", TOOLHUB_ENCRYPTION_KEY=f"{new},{old}").returncode == 0
    (hub.home.path / "encryption_key").write_text(new)
    restored(hub.home, backup, "--replace")
    after = verified()
    assert after["entries"] == before["entries"]
    assert after["unsealed"] > 0, "the restore is on record, and sealed as any other entry"
    assert hub.home.python(SEAL).returncode == 0
    assert verified()["unsealed"] == 0
    # What was added after the backup is gone, and a checkpoint of the log says so.
    assert hub.home.run("verifyaudit", "--checkpoint", lost).returncode == 1
    assert hub.home.run("verifyaudit", "--checkpoint", before["newest"]).returncode == 0
    if POSTGRES:
        drop_replaced(hub.store)


def test_a_restore_that_is_killed_leaves_the_state_of_before(hub: Backed, tmp_path: Path) -> None:
    backup = hub.backup(tmp_path / "a.backup")
    assert hub.home.run("addkey", "later").returncode == 0
    before = contents(hub.home)
    environment = {**hub.home.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(backup)], env=environment, cwd="/", check=False)
    assert done.returncode == -signal.SIGKILL
    assert contents(hub.home) == before
    for leftover in hub.home.path.glob(".*.partial*"):
        os.utime(leftover, (time.time() - 86_400,) * 2)
    restored(hub.home, backup, "--replace")
    assert list(hub.home.path.glob(".*.partial*")) == []
    if POSTGRES:
        staged = "SELECT count(*) FROM pg_database WHERE starts_with(datname, current_database() || '_restore_')"
        assert hub.store.query(staged) == [(0,)]
        drop_replaced(hub.store)


def test_a_secret_under_an_unknown_key_has_to_be_accepted(hub: Backed, tmp_path: Path) -> None:
    kind = "bytea" if POSTGRES else "blob"
    hub.store.query(f"UPDATE tools_app_connection SET sealed = CAST('unknown' AS {kind})")  # noqa: S608
    backup = hub.backup(tmp_path / "a.backup")
    done = hub.home.run("restore", str(backup), "--replace")
    assert done.returncode == 2
    assert "1 stored secrets cannot be decrypted" in done.stderr
    done = hub.home.run("restore", str(backup), "--replace", "--accept-unreadable-secrets")
    assert done.returncode == 1, "the doctor reports the connection"
    assert "connection account" in done.stdout
    if POSTGRES:
        drop_replaced(hub.store)


def test_a_damaged_database_can_be_replaced(hub: Backed, tmp_path: Path) -> None:
    if POSTGRES:
        return
    backup = hub.backup(tmp_path / "a.backup")
    hub.home.database.write_bytes(b"damaged" * 1_000)
    said = restored(hub.home, backup, "--replace")
    assert "agent" in said
    (kept,) = (hub.home.path / "backups").glob("replaced-*.sqlite3")
    assert kept.read_bytes() == b"damaged" * 1_000


def drop_replaced(store: Store) -> None:
    names = "SELECT datname FROM pg_database WHERE starts_with(datname, left(current_database(), 36) || '_replaced_')"
    for (name,) in store.query(names):
        store.query(f'DROP DATABASE "{name}"')
