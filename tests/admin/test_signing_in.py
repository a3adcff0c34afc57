"""Signing in: guessing is stopped, sessions are bounded, people get their language and their time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import get_hasher
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse

from tests.admin.conftest import call
from tests.admin.pages import Page
from tools_app.governance import users
from tools_app.models import AuditEntry
from tools_app.models.audit import note

LOGIN = "/admin/login/"
PASSWORD = "right-and-long"


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_user("anna", password=PASSWORD, is_staff=True, is_superuser=True)


def sign_in(password: str, name: str = "anna", address: str = "192.0.2.1"):
    return Client(REMOTE_ADDR=address).post(LOGIN, {"username": name, "password": password, "next": "/admin/"})


def guess(times: int, **given: str):
    for _ in range(times):
        answer = sign_in("wrong", **given)
    return answer


def test_who_guesses_too_often_is_locked_out_with_the_right_password_too(anna: User) -> None:
    assert guess(settings.TOOLHUB_LOGIN_FAILURES - 1).status_code == 200
    answer = guess(1)
    assert answer.status_code == 429
    assert answer["Retry-After"] == str(settings.TOOLHUB_LOGIN_SECONDS)
    assert "Try again in 15 minutes" in answer.content.decode()
    assert sign_in(PASSWORD).status_code == 429


def test_others_are_not_locked_out_with_them(anna: User) -> None:
    User.objects.create_user("ben", password=PASSWORD, is_staff=True)
    guess(settings.TOOLHUB_LOGIN_FAILURES)
    assert sign_in(PASSWORD, address="192.0.2.2").status_code == 302
    assert sign_in(PASSWORD, name="ben").status_code == 302


def test_the_right_password_forgets_the_wrong_ones(anna: User) -> None:
    for _ in range(2):
        guess(settings.TOOLHUB_LOGIN_FAILURES - 1)
        assert sign_in(PASSWORD).status_code == 302


def test_a_lock_stands_in_the_audit_trail_once(anna: User) -> None:
    guess(settings.TOOLHUB_LOGIN_FAILURES + 5)
    [entry] = AuditEntry.objects.filter(action="user.lock")
    assert (entry.actor, entry.subject, entry.changes) == ("hub", "user:anna", {"address": [None, "192.0.2.1"]})


def test_addresses_that_only_a_header_claims_do_not_count(anna: User) -> None:
    for number in range(settings.TOOLHUB_LOGIN_FAILURES):
        client = Client(REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
        answer = client.post(LOGIN, {"username": "anna", "password": "wrong"})
    assert answer.status_code == 429


def test_who_chooses_addresses_freely_gets_no_more_guesses(anna: User) -> None:
    for number in range(settings.TOOLHUB_LOGIN_FAILURES):
        answer = sign_in("wrong", address=f"2001:db8:0:1::{number + 1:x}")
    assert answer.status_code == 429
    assert sign_in(PASSWORD, address="2001:db8:0:1:ffff::1").status_code == 429
    assert sign_in(PASSWORD, address="2001:db8:0:2::1").status_code == 302
    [entry] = AuditEntry.objects.filter(action="user.lock")
    assert entry.changes == {"address": [None, "2001:db8:0:1::"]}


def test_the_same_name_in_other_letters_is_the_same_name(anna: User) -> None:
    for name in ("anna", "\uff41nna", " anna", "a\uff4ena", "anna ") * 2:
        answer = sign_in("wrong", name=name)
    assert answer.status_code == 429
    assert sign_in(PASSWORD).status_code == 429


@override_settings(TOOLHUB_ANONYMOUS_RATE_CALLS=5)
def test_one_address_cannot_go_through_all_names(anna: User) -> None:
    answers = [sign_in("wrong", name=f"name{number}", address="192.0.2.9") for number in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert 1 <= int(answers[-1]["Retry-After"]) <= 12
    assert "Too many sign-in attempts" in answers[-1].content.decode()
    assert sign_in(PASSWORD, address="192.0.2.9").status_code == 429, "the password is not even looked at"
    assert sign_in(PASSWORD, address="192.0.2.10").status_code == 302
    assert Client(REMOTE_ADDR="192.0.2.9").get(LOGIN).status_code == 200
    assert not AuditEntry.objects.filter(action="user.lock").exists()


@override_settings(TOOLHUB_ANONYMOUS_RATE_CALLS=5)
def test_who_is_signed_in_stays_so_whatever_comes_from_the_same_address(anna: User) -> None:
    inside = Client(REMOTE_ADDR="192.0.2.9")
    inside.force_login(anna)
    for number in range(9):
        sign_in("wrong", name="anna" if number % 2 else f"name{number}", address="192.0.2.9")
    assert inside.get("/admin/").status_code == 200
    assert inside.get("/v1/tools").status_code != 429


def test_nobody_learns_which_names_there_are(anna: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_staff=True, is_active=False)
    User.objects.create_user("outsider", password=PASSWORD)
    answers = {name: sign_in("wrong", name=name) for name in ("anna", "nobody", "gone", "outsider")}
    told = {
        (answer.status_code, page.partition('class="errornote"')[2][:400].replace(name, ""))
        for name, answer in answers.items()
        if (page := answer.content.decode())
    }
    assert len(told) == 1
    for name in ("anna", "nobody"):
        assert guess(settings.TOOLHUB_LOGIN_FAILURES, name=name).status_code == 429


def refusal(password: str, name: str) -> str:
    answer = sign_in(password, name=name)
    assert answer.status_code == 200
    return " ".join(Page(answer.content.decode()).text.split())


def test_who_knows_the_password_is_told_why_it_is_not_enough(anna: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_staff=True, is_active=False)
    User.objects.create_user("outsider", password=PASSWORD)
    assert "this user is deactivated. An administrator of this hub (role admin) can" in refusal(PASSWORD, "gone")
    assert "this user has no role in this hub. An administrator of this hub (role admin) can" in refusal(
        PASSWORD, "outsider"
    )
    for name in ("gone", "outsider", "anna", "nobody"):
        assert "The user name or the password is wrong." in refusal("wrong", name)
    assert not Session.objects.exists()


def test_every_attempt_costs_one_hash_whatever_the_name(anna: User, monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_staff=True, is_active=False)
    User.objects.create_user("outsider", password=PASSWORD)
    hashed: list[str] = []
    hasher = get_hasher()
    encode = type(hasher).encode

    def counted(self: Any, password: str, *args: Any, **kwargs: Any) -> str:
        hashed.append(password)
        return str(encode(self, password, *args, **kwargs))

    monkeypatch.setattr(type(hasher), "encode", counted)
    costs = {}
    for name in ("anna", "nobody", "gone", "outsider"):
        for password in ("wrong", PASSWORD):
            hashed.clear()
            sign_in(password, name=name)
            costs[name, password] = len(hashed)
    assert set(costs.values()) == {1}, costs


def test_guessing_the_password_of_a_deactivated_user_locks_the_name(anna: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_staff=True, is_active=False)
    assert guess(settings.TOOLHUB_LOGIN_FAILURES, name="gone").status_code == 429
    assert sign_in(PASSWORD, name="gone").status_code == 429


def test_cookies_have_names_of_their_own_and_the_session_is_not_for_scripts(anna: User) -> None:
    client = Client()
    client.get(LOGIN)
    client.post(LOGIN, {"username": "anna", "password": PASSWORD})
    cookies = client.cookies
    assert set(cookies) >= {"toolhub_session", "toolhub_csrf"}
    assert {cookie["samesite"] for cookie in cookies.values()} == {"Lax"}
    assert cookies["toolhub_session"]["httponly"]
    assert cookies["toolhub_session"]["max-age"] == settings.TOOLHUB_SESSION_SECONDS


def test_the_admin_speaks_the_language_that_the_browser_asks_for(anna: User) -> None:
    client = Client(HTTP_ACCEPT_LANGUAGE="ja,en;q=0.5")
    client.force_login(anna)
    page = client.get("/admin/").content.decode()
    assert '<html lang="ja">' in page
    assert "ツール" in page


def test_a_language_that_was_chosen_stays(anna: User) -> None:
    client = Client(HTTP_ACCEPT_LANGUAGE="ja")
    client.force_login(anna)
    answer = client.post(reverse("set_language"), {"language": "en", "next": "/admin/"})
    assert answer["Location"] == "/admin/"
    assert '<html lang="en">' in client.get("/admin/").content.decode()


def test_what_programs_read_is_not_translated(anna: User) -> None:
    answer = Client(HTTP_ACCEPT_LANGUAGE="ja").get("/v1/tools")
    assert answer.json()["error"].isascii()


def test_times_are_shown_in_the_zone_of_the_hub_and_sent_in_utc(anna: User) -> None:
    made = call(started_at=datetime(2026, 3, 1, 20, 30, tzinfo=UTC))
    client = Client()
    client.force_login(anna)
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        page = client.get(f"/admin/tools_app/call/{made.pk}/change/").content.decode()
    assert "2026-03-02 05:30" in page


def test_signing_in_begins_another_session(anna: User) -> None:
    client = Client()
    client.get(LOGIN)
    session = client.session
    session["planted"] = True
    session.save()
    before = client.session.session_key
    assert before is not None
    client.cookies[settings.SESSION_COOKIE_NAME] = before
    client.post(LOGIN, {"username": "anna", "password": PASSWORD})
    assert client.session.session_key != before
    assert Client(headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={before}"}).get("/admin/").status_code == 302


def test_a_session_ends_with_its_password_and_with_its_person(anna: User) -> None:
    changed, gone, left = Client(), Client(), Client()
    for client in (changed, gone, left):
        client.post(LOGIN, {"username": "anna", "password": PASSWORD})
        assert client.get("/admin/").status_code == 200
    assert left.get("/admin/logout/").status_code == 405, "no link and no picture signs anybody out"
    assert left.get("/admin/").status_code == 200
    left.post("/admin/logout/")
    assert left.get("/admin/").status_code == 302
    anna.set_password("another-and-long")
    anna.save()
    assert changed.get("/admin/").status_code == 302
    gone.post(LOGIN, {"username": "anna", "password": "another-and-long"})
    assert gone.get("/admin/").status_code == 200
    User.objects.filter(pk=anna.pk).update(is_active=False)
    assert gone.get("/admin/").status_code == 302
    assert gone.get("/v1/tools").status_code == 401


# ---- the audit trail


def trail(*actions: str) -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(action__in=actions).order_by("pk")
    return list(entries.values_list("action", "actor", "subject", "address"))


def test_signing_in_and_out_are_entries_with_address(anna: User) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1", HTTP_USER_AGENT="browser/1")
    client.post(LOGIN, {"username": "anna", "password": PASSWORD})
    client.post(reverse("admin:logout"))
    assert trail("user.sign_in", "user.sign_out") == [
        ("user.sign_in", "user:anna", "user:anna", "192.0.2.1"),
        ("user.sign_out", "user:anna", "user:anna", "192.0.2.1"),
    ]
    entry = AuditEntry.objects.get(action="user.sign_in")
    assert (entry.changes, entry.client) == ({"channel": [None, "admin"]}, "browser/1")


def test_failures_are_one_entry_for_a_name_and_address(anna: User) -> None:
    guess(settings.TOOLHUB_LOGIN_FAILURES + 5)
    guess(1, address="192.0.2.2")
    assert trail("user.sign_in_failed") == [
        ("user.sign_in_failed", "hub", "user:anna", "192.0.2.1"),
        ("user.sign_in_failed", "hub", "user:anna", "192.0.2.2"),
    ]


def test_names_that_no_user_has_are_not_stored(anna: User) -> None:
    for name in ("my-secret-password", "other"):
        guess(1, name=name)
    assert trail("user.sign_in_failed") == [("user.sign_in_failed", "hub", "user:?", "192.0.2.1")]
    assert "my-secret-password" not in str(list(AuditEntry.objects.values()))


def test_failures_from_everywhere_do_not_fill_the_disk(anna: User) -> None:
    with transaction.atomic():
        for number in range(users.MOST_FAILURES):
            note("user.sign_in_failed", "user:?", actor="hub", changes={"address": [None, f"198.51.100.{number}"]})
    for number in range(5):
        guess(1, address=f"203.0.113.{number}")
    entries = AuditEntry.objects.filter(action="user.sign_in_failed").order_by("pk")[users.MOST_FAILURES :]
    assert [(entry.subject, entry.changes) for entry in entries] == [
        ("user:*", {"omitted": [None, "more than 200 within an hour"]})
    ]
