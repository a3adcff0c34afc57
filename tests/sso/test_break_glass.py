"""The emergency link: one superuser, one sign-in, ten minutes, seen by everyone who reads the audit trail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.sso.conftest import is_signed_in, use
from tools_app import governance
from tools_app.models import AuditEntry


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password="right-and-long")


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of tests is complete without `toolhub migrate`."""
    monkeypatch.setattr("tools_app.setup.installation.require_ready", lambda tell: None)


def link(name: str = "root", **options: Any) -> str:
    output = StringIO()
    call_command("breakglass", name, stdout=output, stderr=StringIO(), **options)
    return output.getvalue().split()[0]


def test_a_link_signs_in_once_while_the_provider_is_down_and_passwords_are_off(
    root: User, settings: Any, caplog: Any
) -> None:
    use(settings, "http://127.0.0.1:1")
    settings.TOOLHUB_PASSWORD_SIGN_IN = False
    path = link(reason="the provider is down")
    client = Client()
    for _ in range(2):
        page = client.get(path)
        assert page.status_code == 200
        assert "You sign in as root, for one hour" in page.content.decode()
        assert not is_signed_in(client), "to look at it is not to use it"
    assert client.post(path)["Location"] == "/admin/"
    assert is_signed_in(client)
    assert "an emergency sign-in for root was opened by command:" in caplog.text
    assert "root signed in with an emergency link" in caplog.text
    again = Client()
    for answer in (again.get(path), again.post(path)):
        assert answer.status_code == 409
        assert "used already, or is older than ten minutes" in answer.content.decode()
    assert not is_signed_in(again)


def test_what_happened_is_in_the_audit_trail(root: User) -> None:
    path = link(reason="the provider is down")
    client = Client(REMOTE_ADDR="192.0.2.1")
    client.post(path)
    client.post("/admin/logout/")
    Client(REMOTE_ADDR="192.0.2.2").post(path)
    opened, signed_in, signed_out, failed = AuditEntry.objects.order_by("pk")
    assert (opened.action, opened.subject, opened.reason) == ("user.break_glass", "user:root", "the provider is down")
    assert opened.actor.startswith("command:")
    assert (signed_in.action, signed_in.changes) == ("user.sign_in", {"channel": [None, "emergency link"]})
    assert (signed_out.action, signed_out.changes) == ("user.sign_out", {"channel": [None, "emergency link"]})
    assert (failed.action, failed.changes) == ("user.sign_in_failed", {"address": [None, "192.0.2.2"]})


def test_the_link_names_the_hub_as_others_reach_it(root: User, settings: Any) -> None:
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org"
    assert link().startswith("https://hub.example.org/admin/emergency/")


def test_a_link_ends_after_ten_minutes(root: User) -> None:
    path = link()
    with time_machine.travel(timezone.now() + timedelta(seconds=601), tick=False):
        assert Client().post(path).status_code == 409


def test_its_session_ends_after_an_hour(root: User) -> None:
    path, client = link(), Client()
    client.post(path)
    with time_machine.travel(timezone.now() + timedelta(minutes=59), tick=False):
        assert is_signed_in(client)
    with time_machine.travel(timezone.now() + timedelta(minutes=61), tick=False):
        assert not is_signed_in(client)


@pytest.mark.parametrize("change", ["password", "role", "off", "other sign-in", "deleted"])
def test_a_link_is_void_when_its_user_has_changed(root: User, change: str) -> None:
    User.objects.create_superuser("other", password="right-and-long")
    path = link()
    match change:
        case "password":
            root.set_password("another-and-long")
            root.save()
        case "role":
            governance.set_role(root, "admin", actor=governance.trusted("test"))
        case "off":
            User.objects.filter(pk=root.pk).update(is_active=False)
        case "other sign-in":
            Client().post(link())
        case _:
            root.delete()
    assert Client().post(path).status_code == 409


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("operator", {"is_staff": True}),
        ("gone", {"is_staff": True, "is_superuser": True, "is_active": False}),
        # As people of the provider are.
        ("guest", {"is_staff": True, "is_superuser": True, "password": "!"}),
        ("nobody", None),
    ],
)
def test_only_local_superusers_have_links(root: User, name: str, fields: dict[str, Any] | None, capsys: Any) -> None:
    if fields is not None:
        User.objects.create(**{"username": name, "password": "x", **fields})
    with pytest.raises(SystemExit):
        link(name)
    assert not AuditEntry.objects.filter(action="user.break_glass").exists()


@pytest.mark.parametrize("token", ["x", "gAAAAA", "x" * 2_000, "é"])
def test_a_token_that_the_hub_did_not_make_is_refused(root: User, token: str) -> None:
    assert Client().post(f"/admin/emergency/{token}/").status_code == 409


@pytest.mark.django_db(transaction=True)
def test_of_uses_at_once_one_counts(root: User) -> None:
    path = link()

    def use_it(_: int) -> int:
        try:
            return Client().post(path).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(use_it, range(4))) == [302, 409, 409, 409]
    assert AuditEntry.objects.filter(action="user.sign_in").count() == 1


def test_guesses_are_slowed_down(root: User, settings: Any) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 3
    statuses = [Client(REMOTE_ADDR="192.0.2.4").post("/admin/emergency/x/").status_code for _ in range(4)]
    assert statuses == [409, 409, 409, 429]


# ---- until another person has looked at it


def overview(user: User) -> str:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client.get("/admin/").content.decode()


WORDS = "opened an emergency sign-in for root"


def test_the_overview_shows_it_until_another_administrator_has_reviewed_it(root: User) -> None:
    other = User.objects.create_superuser("other", password="right-and-long")
    assert WORDS not in overview(other)
    link()
    assert WORDS in overview(other)
    entry = AuditEntry.objects.get(action="user.break_glass")
    page = f"/admin/tools_app/auditentry/{entry.pk}/change/"
    assert page in overview(other)
    own, reviewer = Client(), Client()
    own.force_login(root, "django.contrib.auth.backends.ModelBackend")
    reviewer.force_login(other, "django.contrib.auth.backends.ModelBackend")
    assert "Mark as reviewed" not in own.get(page).content.decode()
    own.post(f"/admin/tools_app/auditentry/{entry.pk}/review/")
    assert WORDS in overview(other), "its user cannot make it disappear"
    assert "Mark as reviewed" in reviewer.get(page).content.decode()
    assert reviewer.get(f"/admin/tools_app/auditentry/{entry.pk}/review/").status_code == 405
    reviewer.post(f"/admin/tools_app/auditentry/{entry.pk}/review/")
    assert WORDS not in overview(other)
    review = AuditEntry.objects.get(action="user.break_glass_review")
    assert (review.actor, review.subject, review.changes) == ("user:other", "user:root", {"entry": [None, entry.pk]})
    assert "Mark as reviewed" not in reviewer.get(page).content.decode()


def test_it_is_shown_for_a_day_at_most_and_not_to_who_may_not_review_it(root: User) -> None:
    viewer = User.objects.create_user("viewer", password="right-and-long")
    governance.set_role(viewer, "viewer", actor=governance.trusted("test"))
    link()
    entry = AuditEntry.objects.get(action="user.break_glass")
    assert WORDS in overview(viewer)
    client = Client()
    client.force_login(viewer, "django.contrib.auth.backends.ModelBackend")
    assert "Mark as reviewed" not in client.get(f"/admin/tools_app/auditentry/{entry.pk}/change/").content.decode()
    client.post(f"/admin/tools_app/auditentry/{entry.pk}/review/")
    assert WORDS in overview(viewer)
    with time_machine.travel(timezone.now() + timedelta(hours=24, seconds=1), tick=False):
        assert WORDS not in overview(viewer)
