"""Sessions in the admin: listed, ended from elsewhere, and ended by time; without a write for each page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.pages import page, sent
from tests.admin.test_users import HUB, PASSWORD, person
from tools_app import governance
from tools_app.admin.live.pages import HEADER
from tools_app.admin.sessions import browser_name
from tools_app.base import conf
from tools_app.models import AuditEntry, BrowserSession
from tools_app.sdk.errors import AuthorizationError

pytestmark = pytest.mark.django_db

SESSIONS: Final = "/admin/tools_app/browsersession/"
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME: Final = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"
)


def signed_in(name: str, address: str = "192.0.2.1", client: str = FIREFOX) -> Client:
    browser = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=client)
    answer = browser.post("/admin/login/", {"username": name, "password": PASSWORD, "next": "/admin/"})
    assert answer.status_code == 302
    assert browser.get("/admin/").status_code == 200
    return browser


def is_in(browser: Client) -> bool:
    return bool(browser.get("/admin/").status_code == 200)


def row_of(browser: Client) -> BrowserSession:
    return BrowserSession.objects.get(session_key=browser.session.session_key)


def test_a_session_is_listed_with_address_browser_and_times(chief: Client) -> None:
    person("bob")
    signed_in("bob", client=CHROME)
    shown = " ".join(page(chief, SESSIONS).text.split())
    assert "bob just now just now 192.0.2.1 Chrome 138 (Windows) password" in shown
    assert not [row for row in BrowserSession.objects.all() if row.session_key in page(chief, SESSIONS).html]


def test_a_session_that_was_ended_is_refused_at_its_next_request(chief: Client) -> None:
    person("bob")
    stolen, own = signed_in("bob", "203.0.113.9"), signed_in("bob")
    sent(chief, f"{SESSIONS}{row_of(stolen).pk}/end/")
    assert not is_in(stolen)
    assert is_in(own)
    entry = AuditEntry.objects.get(action="user.end_session")
    assert (entry.actor, entry.subject) == ("user:chief", "user:bob")
    assert entry.changes == {"sessions": [1, 0], "addresses": [["203.0.113.9"], []]}


def test_a_request_that_was_under_way_does_not_bring_an_ended_session_back(chief: Client) -> None:
    """Its response would save the session, and its use."""
    bob = person("bob")
    browser = signed_in("bob")
    session = browser.session
    governance.end_sessions([row_of(browser)], actor=governance.of_user(bob))
    governance.follow_session(session)
    assert not is_in(browser)
    assert not governance.open_sessions().filter(user=bob).exists()


def test_people_see_and_end_their_own_sessions_only() -> None:
    person("bob", "viewer"), person("eve", "viewer")
    here, there, hers = signed_in("bob"), signed_in("bob", "198.51.100.7"), signed_in("eve", "203.0.113.9")
    shown = page(here, SESSIONS)
    assert "198.51.100.7" in shown.text
    assert "203.0.113.9" not in shown.text
    assert "this session" in shown.text
    assert "already ended" in sent(here, f"{SESSIONS}{row_of(hers).pk}/end/").messages[0]
    assert is_in(hers)
    with pytest.raises(AuthorizationError):
        governance.end_sessions([row_of(hers)], actor=governance.of_user(User.objects.get(username="bob")))
    sent(here, f"{SESSIONS}end-all/")
    assert (is_in(here), is_in(there), is_in(hers)) == (True, False, True)
    assert AuditEntry.objects.get(action="user.end_session").actor == "user:bob"


def test_an_admin_ends_sessions_of_others_and_none_of_a_superuser() -> None:
    person("ada", "admin"), person("root", "superuser"), person("bob", "viewer")
    ada, root = signed_in("ada"), signed_in("root")
    bobs = [signed_in("bob") for _ in range(2)]
    bob = User.objects.get(username="bob")
    shown = page(ada, f"/admin/auth/user/{bob.pk}/change/")
    assert len(shown.all("button", form="end")) == 2
    sent(ada, f"{SESSIONS}end-all/", user=str(bob.pk), **{"from": str(bob.pk)})
    assert not any(map(is_in, bobs))
    assert "Permission denied" in sent(ada, f"{SESSIONS}{row_of(root).pk}/end/").messages[0]
    assert is_in(root)


def test_a_session_ends_when_it_was_not_used_for_a_while_and_says_so() -> None:
    person("bob")
    browser = signed_in("bob")
    start = timezone.now()
    with time_machine.travel(start + timedelta(minutes=110), tick=False):
        assert is_in(browser)
    with time_machine.travel(start + timedelta(minutes=220), tick=False):
        assert is_in(browser), "it was used in between"
    with time_machine.travel(start + timedelta(minutes=341), tick=False):
        answer = browser.get("/admin/", follow=True)
        assert "Your session has ended, as it was not used for a while." in answer.content.decode()
        assert "_auth_user_id" not in browser.session
        assert not Session.objects.exists()


def test_what_a_page_asks_by_itself_does_not_keep_its_session_in_use() -> None:
    person("bob")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        browser = signed_in("bob")
        half = timedelta(seconds=conf.value("TOOLHUB_SESSION_IDLE_SECONDS") // 2 + 1)
        clock.shift(half)
        assert browser.get("/admin/tools_app/process/live/", headers={HEADER: "1"}).status_code == 200
        clock.shift(half)
        assert not is_in(browser)


@pytest.mark.django_db(transaction=True)
def test_a_session_that_was_ended_is_refused_over_rest_too() -> None:
    bob = person("bob")
    browser = signed_in("bob")
    assert browser.get("/v1/tools").status_code == 200
    governance.end_sessions([row_of(browser)], actor=governance.of_user(bob))
    assert browser.get("/v1/tools").status_code == 401


@pytest.mark.django_db(transaction=True)
@override_settings(TOOLHUB_SESSION_IDLE_SECONDS=600)
def test_an_idle_session_is_refused_over_rest_too() -> None:
    person("bob")
    browser = signed_in("bob")
    start = timezone.now()
    with time_machine.travel(start + timedelta(minutes=9), tick=False):
        assert browser.get("/v1/tools").status_code == 200
    with time_machine.travel(start + timedelta(minutes=18), tick=False):
        assert browser.get("/v1/tools").status_code == 200, "requests over REST are uses"
    with time_machine.travel(start + timedelta(minutes=29), tick=False):
        assert browser.get("/v1/tools").status_code == 401
        assert not is_in(browser)


def test_using_a_session_does_not_prolong_its_lifetime() -> None:
    person("bob")
    browser = signed_in("bob")
    start, lifetime = timezone.now(), timedelta(seconds=settings.TOOLHUB_SESSION_SECONDS)
    for hours in range(1, 12):
        with time_machine.travel(start + timedelta(hours=hours), tick=False):
            assert is_in(browser)
    with time_machine.travel(start + lifetime + timedelta(seconds=1), tick=False):
        assert not is_in(browser)


def writes(browser: Client) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert is_in(browser)
    return [one["sql"] for one in queries if one["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]


def test_pages_cost_one_write_a_minute_at_most() -> None:
    person("bob")
    browser = signed_in("bob")
    start = timezone.now()
    assert [writes(browser) for _ in range(3)] == [[], [], []]
    with time_machine.travel(start + timedelta(seconds=61), tick=False):
        assert len(writes(browser)) == 1
        assert writes(browser) == []


def test_pages_stay_readable_when_the_use_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    person("bob")
    browser = signed_in("bob")

    def full(*_: Any) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr("tools_app.governance.sessions._write", full)
    with time_machine.travel(timezone.now() + timedelta(minutes=5), tick=False):
        assert is_in(browser)


def test_sessions_from_before_an_update_are_followed_from_their_next_request_on() -> None:
    person("bob")
    browser = signed_in("bob")
    BrowserSession.objects.all().delete()
    assert is_in(browser)
    assert row_of(browser).user.username == "bob"


def test_signing_out_takes_the_session_off_the_list() -> None:
    person("bob")
    browser = signed_in("bob")
    browser.post("/admin/logout/")
    assert not BrowserSession.objects.exists()


def test_a_new_password_ends_the_other_sessions_and_not_this_one() -> None:
    person("bob")
    here, there = signed_in("bob"), signed_in("bob")
    new = "another-long-and-strange-phrase"
    sent(here, "/admin/password_change/", old_password=PASSWORD, new_password1=new, new_password2=new)
    assert (is_in(here), is_in(there)) == (True, False)
    assert governance.open_sessions().count() == 1


def test_deactivation_ends_sessions_and_clears_the_list() -> None:
    bob = person("bob")
    browser = signed_in("bob")
    governance.deactivate_user(bob, keys="stop", actor=HUB)
    assert not is_in(browser)
    assert not BrowserSession.objects.exists()


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (FIREFOX, "Firefox 140 (Linux)"),
        (CHROME, "Chrome 138 (Windows)"),
        (f"{CHROME} Edg/138.0.0.0", "Edge 138 (Windows)"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Safari/604.1",
            "Safari 604 (iPhone)",
        ),
        ("curl/8.5.0", "curl 8"),
        ("x" * 100, "x" * 40),
        ("", ""),
    ],
)
def test_user_agents_are_shown_in_short(client: str, name: str) -> None:
    assert browser_name(client) == name
