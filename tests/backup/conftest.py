"""A hub with keys, a secret, open approvals and a session, on the database that this run is about."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import stores
from tests.support.processes import Home, key_in
from tests.support.stores import Store

PASSPHRASE = "correct horse battery staple"

FILL = """
import django
django.setup()
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone
from tools_app import governance
from tools_app.base import secrets
from tools_app.models import Approval

session = SessionStore()
session["_auth_user_id"] = "1"
session.save()
actor = governance.trusted("test")
governance.create_connection(
    "account", "n8n", url="https://n8n.example.org", secret="n8n-secret-value", actor=actor
)
now = timezone.now()
for number, state in enumerate(("pending", "approved", "used")):
    Approval.objects.create(
        id=f"{number:032x}", tool_name="echo", definition_hash="0" * 64, request_hash="1" * 64,
        arguments=secrets.encrypted(b"arguments"), door="rest", caller_kind="key", caller_id="key:1",
        caller_name="agent", state=state, asked_at=now, expires_at=now + timedelta(minutes=15),
    )
"""


@dataclass
class Backed:
    """A hub that is not running, and its database."""

    home: Home
    store: Store
    key: str

    def backup(self, path: Path, **extra: str) -> Path:
        done = self.home.run("backup", str(path), **extra)
        assert done.returncode == 0, done.stderr
        return path


@contextlib.contextmanager
def hub_in(folder: Path) -> Iterator[tuple[Home, Store]]:
    """An empty home with an empty database."""
    path = folder / "home"
    path.mkdir(parents=True)
    with stores.fresh(path) as store:
        environment = store.environment if stores.POSTGRES else {}
        yield Home(path, {"LOG_LEVEL": "error", "TOOLHUB_BACKUP_PASSPHRASE": PASSPHRASE, **environment}), store


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backed]:
    with hub_in(tmp_path_factory.mktemp("backed")) as (home, store):
        key = key_in(home.run("addkey", "agent").stdout)
        home.run("addkey", "other")
        done = home.python(FILL)
        assert done.returncode == 0, done.stderr
        yield Backed(home, store, key)


@pytest.fixture
def hub(template: Backed, tmp_path: Path) -> Iterator[Backed]:
    """A hub of its own for a test that changes it."""
    path = tmp_path / "hub"
    shutil.copytree(template.home.path, path)
    with stores.copied(template.store, path) as store:
        environment = store.environment if stores.POSTGRES else {}
        yield Backed(Home(path, {**template.home.extra, **environment}), store, template.key)


@pytest.fixture(scope="module")
def backup(template: Backed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with keys."""
    return template.backup(tmp_path_factory.mktemp("backup") / "hub.backup")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tuple[Home, Store]]:
    with hub_in(tmp_path / "empty") as made:
        yield made
