"""What has changed, as times: of each topic that a user can follow, and of no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.admin.conftest import approval, browser, call, error_group, failed_call
from tests.admin.pages import Page
from tools_app import governance
from tools_app.admin.live import feed, stream
from tools_app.admin.live.feed import Feed

pytestmark = pytest.mark.django_db

LIVE = "/admin/tools_app/process/live/"
FRAME = f"{LIVE}frame/"
TEST = governance.trusted("test")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A feed that reads at every question, and has seen nothing yet."""
    monkeypatch.setattr(feed, "SECONDS", 0.0)
    made = Feed()
    monkeypatch.setattr(feed, "of_hub", lambda: made)
    return made


def changed(client: Client) -> dict[str, int]:
    answer = client.get(LIVE)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    return dict(answer.json())


def test_the_stream_is_beside_its_view() -> None:
    assert reverse("admin:tools_app_process_live") + "events" == stream.PATH


def test_a_user_learns_only_of_what_the_role_may_see(fresh: Feed, chief: Client) -> None:
    assert changed(chief).keys() == feed.TOPICS.keys()
    assert changed(browser("clerk", "view_call")).keys() == {"calls"}
    assert changed(browser("nobody")) == {}


def test_the_first_answer_knows_the_time_of_what_is_on_record(fresh: Feed, chief: Client) -> None:
    moment = timezone.now() - timedelta(hours=1)
    call(started_at=moment)
    times = changed(chief)
    assert times["calls"] == int(moment.timestamp() * 1000)
    assert times["tools"] == 0, "the counter of tools has no time"


@pytest.mark.django_db(transaction=True)  # PostgreSQL counts changes of access at the commit
@pytest.mark.parametrize("topic", ["calls", "approvals", "issues", "audit", "access"])
def test_a_change_is_noticed_once_and_of_its_topic(fresh: Feed, chief: Client, topic: str) -> None:
    before, now = changed(chief), timezone.now()
    match topic:
        case "calls":
            call()
        case "approvals":
            approval()
        case "issues":
            error_group()
        case _:
            governance.stop("hub", "", actor=TEST, reason="a drill")
    after = changed(chief)
    assert after[topic] >= int(now.timestamp() * 1000) > before[topic]
    # A kill switch is also an entry of the audit trail, and an alert.
    others = {"access", "alerts", "audit"} if topic in {"access", "audit"} else {topic}
    assert {name for name in after if after[name] != before[name]} == others
    assert changed(chief) == after


def test_the_end_of_a_call_is_a_change(fresh: Feed, chief: Client) -> None:
    running = call(status="started", finished_at=None)
    before = changed(chief)["calls"]
    type(running).objects.filter(pk=running.pk).update(status="succeeded")
    assert changed(chief)["calls"] > before


def test_permissions_are_another_after_a_change_of_people_and_not_after_a_sign_in(fresh: Feed, chief: Client) -> None:
    changed(chief)
    governance.note_sign_in(User.objects.get(username="chief"), "admin")
    changed(chief)
    assert fresh.permissions == 0
    governance.create_admin("second", "a long password of a test", actor=TEST)
    changed(chief)
    assert fresh.permissions == 1


def test_who_is_not_signed_in_is_sent_to_the_sign_in(client: Client) -> None:
    for address in (LIVE, FRAME):
        assert client.get(address).status_code == 302


def test_a_database_that_is_away_is_no_change(fresh: Feed, chief: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: Feed, topics: Any) -> dict[str, int]:
        raise DatabaseError("away")

    monkeypatch.setattr(Feed, "changed", away)
    assert chief.get(LIVE).status_code == 503


def test_news_that_come_while_the_database_is_read_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    made, readings = Feed(), 0

    def news_come() -> feed.Version:
        nonlocal readings
        readings += 1
        if readings == 1:
            made.forget()
        return None, None

    monkeypatch.setattr(feed, "SECONDS", 1_000.0)
    monkeypatch.setitem(feed.TOPICS, "tools", (feed.TOPICS["tools"][0], news_come))
    for _ in range(3):
        made.changed(["tools"])
    assert readings == 2


def test_the_frame_has_the_same_parts_as_every_page(fresh: Feed, operator: Client) -> None:
    approval()
    governance.stop("hub", "", actor=TEST, reason="a drill")
    whole, frame = (Page(operator.get(address).content.decode()) for address in ("/admin/", FRAME))
    for tag, name in (("span", "hub-badge-approvals"), ("div", "hub-banner")):
        assert frame.one(tag, id=name).text.split() == whole.one(tag, id=name).text.split() != []


def test_an_error_of_a_call_is_a_change_of_calls(fresh: Feed, chief: Client) -> None:
    before = changed(chief)
    failed_call()
    assert changed(chief)["calls"] > before["calls"]
