"""Users of the admin, at the shell."""

from __future__ import annotations

import getpass
import json

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.conftest import browser_session
from tests.management.test_source import run
from tools_app import governance
from tools_app.models import ApiKey, AuditEntry, Stop

pytestmark = pytest.mark.usefixtures("hub")

PASSWORD = "a-long-and-strange-phrase"


def test_adds_a_user_with_a_link_alone_on_the_last_line() -> None:
    code, out, error = run(
        "users", "add", "ann", "--role", "operator", "--email", "ann@example.org", "--reason", "on call"
    )
    assert code == 0
    assert "TOOLHUB_PUBLIC_URL is not set" in error
    path, _, secret = out.strip().splitlines()[-1].partition("#")
    assert path == "/admin/auth/user/choose-password/"
    assert governance.redeem_link(secret, PASSWORD).username == "ann"
    assert User.objects.get(username="ann").check_password(PASSWORD)
    entry = AuditEntry.objects.get(action="user.create")
    assert entry.actor.startswith("command:")
    assert entry.reason == "on call"


def test_lists_users_with_roles_and_states() -> None:
    run("users", "add", "ann", "--role", "operator")
    run("users", "add", "ben", "--role", "none")
    run("users", "disable", "ben")
    code, out, _ = run("users", "list")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["ann", "operator", "invited", "-"] in lines
    assert ["ben", "-", "deactivated", "-"] in lines
    assert {"name": "ann", "role": "operator", "state": "invited", "lastSignIn": None} in json.loads(
        run("users", "list", "--json")[1]
    )


def test_changes_a_role_and_refuses_what_would_leave_no_superuser() -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    run("users", "add", "ann", "--role", "viewer")
    assert run("users", "role", "ann", "admin")[1].strip() == "ann now has the role admin."
    assert run("users", "role", "ann", "admin")[1].strip() == "ann already had the role admin."
    code, _, error = run("users", "role", "root", "viewer")
    assert code == 1
    assert "root is the last superuser who can sign in. Make another user a superuser first." in error


def test_ends_access_with_the_keys_and_gives_it_back() -> None:
    ann = User.objects.create_user("ann", password=PASSWORD)
    governance.create_key("hers", actor=governance.trusted("test"), owner=ann)
    assert run("users", "disable", "ann")[1].strip() == "ann is deactivated. Keys stopped: hers."
    assert Stop.objects.filter(kind="key", name="hers").exists()
    assert run("users", "disable", "ann")[1].strip() == "ann was deactivated already."
    code, _, error = run("users", "link", "ann")
    assert code == 1
    assert "Reactivate the user first" in error
    assert run("users", "enable", "ann")[1].strip() == "ann is active."
    run("users", "disable", "ann", "--keys", "revoke")
    assert ApiKey.objects.get(name="hers").revoked_at is not None


def test_lists_and_ends_sessions() -> None:
    ann = User.objects.create_user("ann", password=PASSWORD)
    governance.set_role(ann, "viewer", actor=governance.trusted("test"))
    browser = Client(REMOTE_ADDR="192.0.2.7", HTTP_USER_AGENT="Firefox/140.0")
    browser.force_login(ann)
    assert browser.get("/admin/").status_code == 200
    browser_session(ann, session_key="gone", address="203.0.113.9")
    shown = run("users", "sessions", "ann")[1]
    assert "192.0.2.7" in shown
    assert "203.0.113.9" not in shown, "Django has no such session any more"
    assert run("users", "sessions", "ann", "--end")[1].strip() == "Sessions of ann that have ended: 1."
    assert browser.get("/admin/").status_code == 302


def test_an_unknown_user_or_a_name_that_is_taken_is_refused() -> None:
    run("users", "add", "ann", "--role", "viewer")
    code, _, error = run("users", "link", "nobody")
    assert (code, error.strip()) == (2, "toolhub: there is no user 'nobody'; `toolhub users list` lists them")
    code, _, error = run("users", "add", "ann", "--role", "viewer")
    assert code == 1
    assert "already exists" in error


def test_commands_run_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may run under a number that has no name."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert run("users", "add", "ann", "--role", "operator")[0] == 0
    assert AuditEntry.objects.get(action="user.create").actor == "command:unknown"
