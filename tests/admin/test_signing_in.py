"""Signing in: guessing is stopped, sessions are bounded, people get their language and their time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from tests.admin.conftest import call
from tools_app.models import AuditEntry

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
