"""The inventory has every table and every file of the hub, once."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, models
from django.test import Client

from tests.admin.conftest import browser
from tests.admin.pages import page
from tests.retention.rows import call
from tools_app.journal import retention
from tools_app.journal.retention.pruning import RULES
from tools_app.setup import inventory
from tools_app.setup.inventory import FORGET, RETENTION, TABLES, UNTIL_DELETED

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.mark.django_db
def test_every_table_is_in_it_once() -> None:
    names = [one.name for one in TABLES]
    assert len(set(names)) == len(names)
    assert set(names) == set(inventory.tables()), "say what is in it, how long and what removes it"


@pytest.mark.django_db
def test_tables_that_forget_changes_say_so() -> None:
    forgotten = {rows.model._meta.db_table for rows in retention.traces("key:1").values()}
    assert {one.name for one in TABLES if one.removed_by == FORGET} == forgotten
    assert all(one.is_personal for one in TABLES if one.removed_by == FORGET)


def test_how_long_is_said_of_every_table_that_retention_empties() -> None:
    by_name = {one.name: one for one in TABLES}
    for rule in RULES:
        one = by_name[rule.model._meta.db_table]
        assert rule.settings or one.kept != UNTIL_DELETED, one.name
    ruled = {rule.model._meta.db_table for rule in RULES}
    assert {one.name for one in TABLES if one.removed_by == RETENTION} <= ruled


def test_columns_that_are_encrypted_are_in_tables_that_say_so() -> None:
    """Binary columns hold encrypted content, except documents, which are public texts of sources, and digests.

    allauth stores what the hub encrypts as text.
    """
    from django.apps import apps

    binary = {
        model._meta.db_table
        for model in apps.get_models()
        if any(isinstance(field, models.BinaryField) for field in model._meta.concrete_fields)
    }
    said = {one.name for one in TABLES if one.protection == inventory.ENCRYPTED}
    assert said == binary - {"tools_app_sourcedocument", "tools_app_auditseal"} | {"mfa_authenticator"}


@pytest.mark.django_db(transaction=True)
def test_shows_rows_sizes_and_settings_in_force(settings: Any) -> None:
    settings.TOOLHUB_KEEP_AUDIT_DAYS = 7
    call()
    rows = {one.place: one for one in inventory.holdings()}
    if connection.vendor == "sqlite":
        assert rows["tools_app_call"].rows == 1
    assert rows["tools_app_auditentry"].settings == (("TOOLHUB_KEEP_AUDIT_DAYS", 7),)
    assert (rows["tools_app_call"].size or 0) > 0


@pytest.mark.django_db(transaction=True)
def test_large_tables_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL estimates")
    monkeypatch.setattr(inventory, "MOST_COUNTED", 3)
    monkeypatch.setattr(inventory, "MOST_MEASURED", 0)
    for _ in range(5):
        call()
    one = next(one for one in inventory.holdings() if one.place == "tools_app_call")
    assert (one.rows, one.number, one.size) == (4, "> 3", None)


def test_every_file_that_a_hub_writes_is_in_it(tmp_path: Path) -> None:
    """A real home, after setup, an update, a backup and a first login."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT),
        "TOOLHUB_HOME": str(tmp_path),
        "TOOLHUB_ENV_FILE": os.devnull,
    }

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "toolhub", *words]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)

    run("migrate")
    run("backup")
    run("migrate", "tools_app", "0025")
    run("migrate")
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    known = [path for paths in inventory.files(tmp_path).values() for path in paths]
    assert len(known) == len(set(known)), "a file is in two kinds"
    assert written == {path for path in known if path.is_file()}
    assert {path.name for path in written} >= {"toolhub.sqlite3", "secret_key", "encryption_key"}
    assert any(path.suffix == ".backup" for path in written)


@pytest.mark.django_db(transaction=True)
def test_is_printed_as_json_and_shown_to_viewers() -> None:
    out = io.StringIO()
    call_command("data", "--json", stdout=out)
    shown = json.loads(out.getvalue())
    assert {one["name"] for one in shown["holdings"]} >= {one.name for one in TABLES}
    assert {"host", "path", "free", "days_left", "is_soon_full"} <= shown["volumes"][0].keys()
    auditor = browser("auditor", "view_disksample")
    text = page(auditor, "/admin/tools_app/process/data/").text
    assert "tools_app_auditentry" in text
    assert "TOOLHUB_KEEP_AUDIT_DAYS=400" in text
    assert "A forecast needs 3 days." in text or "room of the database server" in text
    nosy: Client = browser("nosy", "view_call")
    assert nosy.get("/admin/tools_app/process/data/").status_code == 403
