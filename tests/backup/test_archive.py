"""Which files are restored: complete, unchanged ones of this hub or with its passphrase, and no others."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.backup.conftest import Backed
from tests.support.processes import Home
from tests.support.stores import POSTGRES, Store


def refused(home: Home, path: Path, **extra: str) -> str:
    done = home.run("restore", str(path), **extra)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.strip().endswith("Nothing was changed.")
    assert "Traceback" not in done.stderr
    return done.stderr


def changed(backup: Path, target: Path, name: str, content: bytes) -> Path:
    """A copy with another part."""
    with zipfile.ZipFile(backup) as before, zipfile.ZipFile(target, "w") as after:
        for part in before.namelist():
            after.writestr(part, content if part == name else before.read(part))
    return target


def manifest_of(backup: Path) -> dict[str, object]:
    with zipfile.ZipFile(backup) as archive:
        manifest: dict[str, object] = json.loads(archive.read("manifest.json"))
        return manifest


def test_a_backup_is_private_and_says_what_is_in_it(backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in backup.parent.iterdir()] == [backup.name], "nothing unfinished is left"
    manifest = manifest_of(backup)
    assert (manifest["format"], manifest["version"], manifest["keys"]) == ("toolhub-backup", 1, "encrypted")
    assert manifest["tables"]["tools_app_apikey"]["rows"] == 2  # type: ignore[index]
    assert ["tools_app", "0001_initial"] in manifest["migrations"]  # type: ignore[operator]


def test_no_key_or_passphrase_can_be_read_in_it(template: Backed, backup: Path) -> None:
    with zipfile.ZipFile(backup) as archive:
        texts = archive.read("manifest.json") + archive.read("seal.json")
    for name in ("secret_key", "encryption_key"):
        assert (template.home.path / name).read_bytes().strip() not in texts
    assert template.home.extra["TOOLHUB_BACKUP_PASSPHRASE"].encode() not in backup.read_bytes()


def test_an_existing_file_is_not_overwritten(template: Backed, backup: Path) -> None:
    before = backup.read_bytes()
    done = template.home.run("backup", str(backup))
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert backup.read_bytes() == before


def test_a_short_passphrase_is_refused(template: Backed, tmp_path: Path) -> None:
    done = template.home.run("backup", str(tmp_path / "a.backup"), TOOLHUB_BACKUP_PASSPHRASE="short")
    assert done.returncode == 1
    assert "at least 12 characters" in done.stderr
    assert list(tmp_path.glob("*")) == []


def test_an_empty_home_has_nothing_to_back_up(empty: tuple[Home, Store], tmp_path: Path) -> None:
    done = empty[0].run("backup", str(tmp_path / "a.backup"))
    assert done.returncode == 2
    assert "not set up yet" in done.stderr


def test_incomplete_and_foreign_files_are_refused(backup: Path, empty: tuple[Home, Store], tmp_path: Path) -> None:
    home, _ = empty
    content = backup.read_bytes()
    (tmp_path / "half").write_bytes(content[: len(content) // 2])
    assert "is incomplete or damaged" in refused(home, tmp_path / "half")
    (tmp_path / "text").write_text("not a backup")
    assert "is not a backup of ToolHub" in refused(home, tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("photo.jpg", b"")
    assert "is not a backup of ToolHub" in refused(home, tmp_path / "other.zip")
    assert "No such file" in refused(home, tmp_path / "missing")


def test_later_formats_and_versions_are_refused(backup: Path, empty: tuple[Home, Store], tmp_path: Path) -> None:
    later = json.dumps({**manifest_of(backup), "version": 2, "hub_version": "9.0.0", "more": 1}).encode()
    said = refused(empty[0], changed(backup, tmp_path / "a", "manifest.json", later))
    assert "made by a later version of ToolHub (9.0.0): install that version" in said


def test_a_backup_of_a_later_hub_is_refused(hub: Backed, empty: tuple[Home, Store], tmp_path: Path) -> None:
    hub.store.query(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '2026-01-01')"
    )
    later = hub.backup(tmp_path / "later")
    assert "was made by a later version of ToolHub" in refused(empty[0], later)


def test_changed_files_are_refused(backup: Path, empty: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = empty
    text = json.dumps({**manifest_of(backup), "hub_version": "0.1.1"}).encode()
    assert "the file was changed" in refused(home, changed(backup, tmp_path / "a", "manifest.json", text))
    with zipfile.ZipFile(backup) as archive:
        database = bytearray(archive.read("database"))
    database[len(database) // 2] ^= 1
    path = changed(backup, tmp_path / "b", "database", bytes(database))
    assert "its database is not that of its manifest" in refused(home, path)
    path = changed(backup, tmp_path / "c", "database", bytes(database) + b"more")
    assert "its database is not that of its manifest" in refused(home, path)
    assert "is wrong, or the file was changed" in refused(home, backup, TOOLHUB_BACKUP_PASSPHRASE="another passphrase")
    content = bytearray(backup.read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / "d").write_bytes(content)
    assert "damaged" in refused(home, tmp_path / "d")
    assert list(home.path.glob(".*.partial*")) == []
    if POSTGRES:
        assert store.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    else:
        assert store.query("SELECT count(*) FROM sqlite_master") == [(0,)]


def test_without_passphrase_only_the_keys_of_the_hub_prove_a_backup(
    hub: Backed, empty: tuple[Home, Store], tmp_path: Path
) -> None:
    done = hub.home.run("backup", str(tmp_path / "a.backup"), TOOLHUB_BACKUP_PASSPHRASE="")
    assert done.returncode == 0
    assert "the keys are not in it" in done.stderr
    assert "keys left out" in done.stdout
    home, _ = empty
    assert "put `secret_key` and `encryption_key` into the home" in refused(home, tmp_path / "a.backup")
    for name in ("secret_key", "encryption_key"):
        (home.path / name).write_bytes((hub.home.path / name).read_bytes())
    done = home.run("restore", str(tmp_path / "a.backup"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_backup_of_another_kind_of_database_is_refused(backup: Path, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    if POSTGRES:
        said = refused(home, backup)
        assert "is a backup of a postgresql database, and this hub has sqlite: set DATABASE_URL" in said
        return
    with zipfile.ZipFile(backup) as archive:
        text = archive.read("manifest.json").replace(b'"kind": "sqlite"', b'"kind": "postgresql"')
        text = text.replace(b'"kind":"sqlite"', b'"kind":"postgresql"')
    said = refused(home, changed(backup, tmp_path / "a", "manifest.json", text))
    assert "set DATABASE_URL to a postgresql database" in said


@pytest.mark.skipif(POSTGRES, reason="a file of SQLite")
def test_a_damaged_database_is_not_backed_up(hub: Backed, tmp_path: Path) -> None:
    with closing(sqlite3.connect(hub.home.database)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tools_app_definition'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with hub.home.database.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 200)
    done = hub.home.run("backup", str(tmp_path / "a.backup"))
    assert done.returncode in (1, 2)
    assert "damaged" in done.stderr or "malformed" in done.stderr
    assert list(tmp_path.glob("*.backup")) == []
