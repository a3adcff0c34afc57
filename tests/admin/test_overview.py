"""The first page: true figures, each leading to what is behind it, and a way in for newcomers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import browser, call, days_ago, error_group, failed_call
from tests.admin.pages import Page, page
from tests.support.state import rebuild_catalog
from tools_app import governance
from tools_app.journal import insights
from tools_app.models import ApiKey, Call, Connection, ToolRecord

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/"


def figures(shown: Page) -> dict[str, tuple[str, str]]:
    """Title → number and address."""
    tiles = [
        link
        for link in shown.all("a")
        if any("hub-tiles" in parent.attributes.get("class", "") for parent in link.parents)
    ]
    found = {}
    for link in tiles:
        number, title = (" ".join(span.text.split()) for span in shown.all("span") if span.parents[-1] is link)
        found[title] = (number, link["href"])
    return found


@pytest.fixture
def half_past(db: None) -> Iterator[None]:
    """Half past some hour, for a moment: nothing falls into the next one while a test runs."""
    now = timezone.now().replace(minute=30, second=0)
    with time_machine.travel(now, tick=True):
        yield


def test_every_figure_is_what_the_list_behind_it_shows(tools: None, half_past: None, viewer: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    ToolRecord.objects.create(name="elsewhere", source_kind="file")
    ToolRecord.objects.create(name="left", source_kind="file", retired_at=days_ago(1))
    for hours in (0, 1, 12, 23, 24, 72):
        call("calculate", days_ago(hours / 24))
    failed_call("calculate", days_ago(0.2))
    failed_call("calculate", days_ago(2))
    call("calculate", days_ago(0.3), status="timeout", code="TIMEOUT")
    call("calculate", days_ago(0.4), status="interrupted", code="INTERRUPTED")
    call("calculate", days_ago(0.4), status="refused", code="RATE_LIMIT_EXCEEDED")
    error_group("calculate")
    governance.resolve_errors([error_group("echo").pk], actor=governance.trusted("test"))
    found = figures(page(viewer, OVERVIEW))
    numbers = {title: number for title, (number, _) in found.items()}
    assert numbers == {
        "Tools on": "2",
        "Tools off": "1",
        "Tools not callable": "1",
        "Tools removed": "1",
        "Calls": "8",
        "Errors": "3",
        "Error rate 3 of 7, without 1 refused": "42.9%",
        "Median (p50)": "≤ 10 ms",
        "p95": "≤ 10 ms",
        "Open issues": "1",
        "Connected agents": "0",
    }
    for title, (number, address) in found.items():
        if number.isdigit():
            assert len(page(viewer, address).all("tr", class_="data-row")) == int(number), title


@pytest.mark.parametrize(("since", "calls"), [("1h", 1), ("24h", 3), ("7d", 4), ("30d", 5)])
def test_every_time_is_counted_as_its_list_is(
    tools: None, half_past: None, viewer: Client, since: str, calls: int
) -> None:
    for days in (0, 0.1, 0.8, 4, 20, 40):
        call("echo", days_ago(days))
    shown = page(viewer, OVERVIEW, since=since)
    number, address = figures(shown)["Calls"]
    assert int(number) == calls
    assert len(page(viewer, address).all("tr", class_="data-row")) == calls
    assert shown.one("a", href=f"?since={since}")["aria-current"] == "page"


def test_every_bar_leads_to_its_calls(tools: None, half_past: None, viewer: Client) -> None:
    for minutes in (0, 1, 120):
        call("echo", timezone.now() - timedelta(minutes=minutes))
    for since in insights.PERIODS:
        shown = page(viewer, OVERVIEW, since=since)
        [calls, _] = shown.all("figure", class_="hub-figure")
        rows = [row for row in shown.all("tr") if calls in row.parents][1:]
        linked = 0
        for row in rows:
            number = sum(int(cell.text) for cell in shown.all("td") if row in cell.parents)
            if number:
                [link] = [link for link in shown.all("a") if row in link.parents]
                assert len(page(viewer, link["href"]).all("tr", class_="data-row")) == number
                linked += number
        assert linked == (2 if since == "1h" else 3)


def test_nothing_else_is_a_period(tools: None, viewer: Client) -> None:
    call("echo")
    for asked in ("2h", "", "'", "\x00"):
        assert page(viewer, OVERVIEW, since=asked).one("a", href="?since=24h")["aria-current"] == "page"


def test_a_new_hub_tells_how_to_begin(tools: None, viewer: Client) -> None:
    shown = page(viewer, OVERVIEW)
    assert "Get started" in shown.text
    connect, first_call = (element.text for element in shown.all("pre", class_="hub-pre"))
    assert connect.strip().endswith("toolhub connect claude-code")
    assert "calltool calculate" in first_call
    assert "/admin/tools_app/apikey/add/" not in shown.addresses
    assert shown.all("figure", class_="hub-figure") == []


def test_only_whoever_may_make_keys_is_led_to_making_one(tools: None, chief: Client) -> None:
    assert "/admin/tools_app/apikey/add/" in page(chief, OVERVIEW).addresses


def test_after_the_first_call_it_is_shown_instead(tools: None, viewer: Client) -> None:
    group = error_group("echo", message="It broke", count=12)
    made, _ = failed_call("echo", message="It broke", group=group)
    governance.set_policy("echo", {"timeout_ms": 500}, actor=governance.trusted("user:bob"))
    shown = page(viewer, OVERVIEW)
    assert "Get started" not in shown.text
    assert f"/admin/tools_app/call/{made.pk}/change/" in shown.addresses
    assert f"/admin/tools_app/errorgroup/{group.pk}/change/" in shown.addresses
    assert "It broke" in shown.text
    assert "tool.policy echo timeout_ms: 500 by user:bob" in shown.text


def answer(shown: Page) -> list[str]:
    """What the page says first: the answer, and its reasons."""
    section = shown.one("section", class_="hub-answer")
    marks = [element for tag in ("h2", "li") for element in shown.all(tag) if section in element.parents]
    return [" ".join(element.text.split()) for element in marks]


def test_all_right_is_said_in_a_sentence(tools: None, chief: Client) -> None:
    for _ in range(3):
        call("echo")
    failed_call("echo")
    assert answer(page(chief, OVERVIEW)) == ["All systems operational."]


def test_what_is_wrong_is_said_first_and_leads_there(tools: None, chief: Client) -> None:
    for _ in range(8):
        failed_call("calculate")
    call("echo")
    error_group("calculate")
    for name, healthy in (("works", True), ("broken", False), ("never_tested", None)):
        Connection.objects.create(
            name=name, pack="n8n", url="https://n8n.example.org", sealed=b"x", healthy=healthy, health="Not reachable"
        )
    ApiKey.objects.create(name="old", hash="a" * 64, prefix="thk_1", expires_at=days_ago(-3))
    shown = page(chief, OVERVIEW)
    assert answer(shown) == [
        "2 problems.",
        "Connection broken is failing: Not reachable",
        "8 of 9 calls failed (88.9%).",
        "1 unresolved issue.",
        "1 API key needs attention.",
    ]
    section = shown.one("section", class_="hub-answer")
    for link in [link for link in shown.all("a") if section in link.parents]:
        assert page(chief, link["href"]).status == 200


def test_packs_that_nobody_has_set_up_are_no_trouble(tools: None, chief: Client) -> None:
    call("echo")
    shown = page(chief, OVERVIEW)
    assert answer(shown) == ["All systems operational."]
    ToolRecord.objects.create(name="elsewhere", source_kind="file")
    rebuild_catalog()  # On PostgreSQL changes count when they are committed, which a test never is.
    assert answer(page(chief, OVERVIEW)) == [
        "Operational – 1 item needs attention.",
        "1 enabled tool is not callable.",
    ]


def test_the_tools_that_stand_out_are_named_with_their_lists(tools: None, viewer: Client) -> None:
    for _ in range(3):
        failed_call("echo", duration_ms=20)
    failed_call("calculate", duration_ms=900)
    call("calculate", duration_ms=5)
    shown = page(viewer, OVERVIEW)

    def rows(name: str) -> list[list[str]]:
        section = shown.one("section", aria_labelledby=name)
        return [row.text.split() for row in shown.all("tr") if section in row.parents][1:]

    assert rows("failing") == [
        ["echo", "3", "3", "3", "of", "3,", "100.0%"],
        ["calculate", "2", "1", "1", "of", "2,", "50.0%"],
    ]
    assert rows("slowest") == [
        ["calculate", "2", "≤", "10", "ms", "≤", "1", "s"],
        ["echo", "3", "≤", "50", "ms", "≤", "50", "ms"],
    ]
    [errors] = {address for address in shown.addresses if "tool=echo" in address and "status=error" in address}
    assert len(page(viewer, errors).all("tr", class_="data-row")) == 3


def test_errors_are_drawn_for_those_who_may_see_them(tools: None) -> None:
    failed_call("echo")
    for name, permissions, seen in (("porter", (), False), ("guard", ("view_errorlog",), True)):
        shown = page(browser(name, "view_call", *permissions), OVERVIEW)
        chart = shown.all("figure", class_="hub-figure")[0]
        assert ("1 error" in chart.text) is seen
        assert any(chart in bar.parents for bar in shown.all("rect", class_="hub-tone-bad")) is seen
        assert ("Tools that fail most" in shown.text) is seen


def test_whoever_may_not_see_calls_is_led_to_the_error_log(tools: None) -> None:
    failed_call("echo")
    found = figures(page(browser("doctor", "view_errorlog"), OVERVIEW))
    assert found == {"Errors": ("1", "/admin/tools_app/errorlog/?since=24h")}


def test_what_somebody_may_not_see_is_not_on_the_page(tools: None) -> None:
    failed_call("echo", message="It broke")
    governance.set_policy("echo", {"timeout_ms": 500}, actor=governance.trusted("user:bob"))
    shown = page(browser("porter", "view_toolrecord"), OVERVIEW)
    assert set(figures(shown)) == {"Tools on", "Tools off", "Tools not callable"}
    hidden_from_porters = ("It broke", "Newest", "Open issues", "Connections", "Connected agents", "user:bob")
    for hidden in hidden_from_porters:
        assert hidden not in shown.text
    assert "has no permissions yet" in page(browser("nobody"), OVERVIEW).text


def test_a_long_journal_costs_no_more_queries(tools: None, viewer: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(viewer, OVERVIEW)
        return len(captured)

    call("echo")
    page(viewer, OVERVIEW)
    few = queries()
    Call.objects.bulk_create(
        Call(id=f"{number:032x}", tool_name="echo", door="mcp", status="succeeded", started_at=days_ago(number / 500))
        for number in range(800)
    )
    assert queries() == few <= 27


def test_the_sidebar_offers_what_the_user_may_open(tools: None, chief: Client) -> None:
    def offered(client: Client) -> list[str]:
        shown = page(client, OVERVIEW)
        sidebar = [
            link
            for link in shown.all("a")
            if any(parent.attributes.get("id") == "nav-sidebar-apps" for parent in link.parents)
        ]
        for link in sidebar:
            assert client.get(link["href"]).status_code == 200
        return [link.text.split(maxsplit=1)[1].strip() for link in sidebar]

    everything = [
        *("Overview", "Tools", "Sources", "Agents", "Connections", "Kill switches"),
        *("Approvals", "Alerts", "Calls", "Usage", "Issues", "Error events", "Audit entries"),
        *("Toolsets", "API keys", "Alert rules", "Users", "Groups", "Data", "Settings in force"),
    ]
    assert offered(chief) == everything
    assert offered(browser("porter", "view_toolrecord", "view_call")) == ["Overview", "Tools", "Calls"]


def test_nothing_on_the_pages_comes_from_elsewhere(tools: None, chief: Client) -> None:
    governance.create_key("agent", actor=governance.trusted("test"))
    key = ApiKey.objects.get()
    for address in (
        OVERVIEW,
        "/admin/tools_app/toolrecord/",
        f"/admin/tools_app/apikey/{key.pk}/change/",
        "/admin/logout/",
    ):
        shown = page(chief, address)
        for element in shown.elements:
            for name in ("src", "href", "action", "formaction"):
                assert "//" not in element.attributes.get(name, ""), element


def test_the_newest_changes_are_changes(tools: None, viewer: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("user:ann"), reason="for a test")
    looked_at = call("calculate")
    for name in ("ben", "cleo", "dan", "eve", "fay", "gus", "hal"):
        governance.note_payload_read(looked_at.pk, actor=governance.trusted(f"user:{name}"))
    governance.note_export("calls", payloads=False, filters="", actor=governance.trusted("user:ann"))
    shown = page(viewer, OVERVIEW).text
    assert "tool.disable" in shown
    assert "payload.read" not in shown
    assert "list.export" not in shown
    assert "payload.read" in page(viewer, "/admin/tools_app/auditentry/").text


def test_a_newcomer_makes_the_first_call_without_leaving_the_admin(tools: None, chief: Client, viewer: Client) -> None:
    [first] = [link for link in page(chief, OVERVIEW).all("a") if link.text.strip() == "test it here"]
    form = page(chief, first["href"])
    assert (form.one("input", name="argument-a")["value"], form.one("input", name="argument-b")["value"]) == ("2", "3")
    # Who may not call tools is not led to where that is refused.
    assert "test it here" not in page(viewer, OVERVIEW).text
    assert OVERVIEW in [link["href"] for link in page(viewer, "/admin/tools_app/call/").all("a", class_="hub-link")]
    nothing = page(chief, "/admin/tools_app/toolset/")
    assert nothing.one("a", class_="hub-button")["href"] == "/admin/tools_app/toolset/add/"


def test_the_age_of_the_last_backup_is_shown_where_there_is_one(tools: None, viewer: Client, settings: Any) -> None:
    assert "Age of the last backup" not in figures(page(viewer, OVERVIEW))
    governance.note_backup(timezone.now() - timedelta(hours=5), {"file": "a.backup"}, actor=governance.trusted("hub"))
    number, address = figures(page(viewer, OVERVIEW))["Age of the last backup"]
    assert number.replace("\xa0", " ") == "5 hours"
    assert "a.backup" in page(viewer, address).text
    settings.TOOLHUB_BACKUP_DIR, settings.TOOLHUB_BACKUP_EVERY_HOURS = "backups", 2
    assert "Scheduled backups fail: the last good one is of" in page(viewer, OVERVIEW).text
