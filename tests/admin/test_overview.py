"""The first page: true figures, each leading to what is behind it, and a way in for newcomers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import browser, call, days_ago, error_group, failed_call
from tests.admin.pages import Page, page
from tools_app import governance
from tools_app.models import ApiKey, Call, ToolRecord

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/"


def figures(shown: Page) -> dict[str, tuple[str, str]]:
    """Title → number and address."""
    tiles = [
        link
        for link in shown.all("a")
        if any("hub-tiles" in parent.attributes.get("class", "") for parent in link.parents)
    ]
    words = [(link.text.split(), link["href"]) for link in tiles]
    return {" ".join(title): (number, address) for (number, *title), address in words}


@pytest.fixture
def half_past(db: None) -> Iterator[None]:
    """Half past some hour, for a moment: nothing falls into the next one while a test runs."""
    now = timezone.now().replace(minute=30, second=0)
    with time_machine.travel(now, tick=True):
        yield


def test_every_figure_is_what_the_list_behind_it_shows(tools: None, half_past: None, viewer: Client) -> None:
    governance.set_enabled(["echo"], False, actor="test")
    ToolRecord.objects.create(name="elsewhere", source="file")
    ToolRecord.objects.create(name="left", source="file", retired_at=days_ago(1))
    for hours in (0, 1, 12, 23, 24, 72):
        call("calculate", days_ago(hours / 24))
    failed_call("calculate", days_ago(0.2))
    failed_call("calculate", days_ago(2))
    call("calculate", days_ago(0.3), status="timeout", code="TIMEOUT")
    call("calculate", days_ago(0.4), status="interrupted", code="INTERRUPTED")
    call("calculate", days_ago(0.4), status="refused", code="RATE_LIMIT_EXCEEDED")
    error_group("calculate")
    governance.resolve_errors([error_group("echo").pk], actor="test")
    found = figures(page(viewer, OVERVIEW))
    assert {title: number for title, (number, _) in found.items()} == {
        "Tools on": "2",
        "Tools off": "1",
        "Tools unavailable": "1",
        "Tools gone": "1",
        "Calls 24 h": "8",
        "Errors 24 h": "3",
        "Open error groups": "1",
    }
    for number, address in found.values():
        assert len(page(viewer, address).all("tr", class_="data-row")) == int(number)


def test_a_new_hub_tells_how_to_begin(tools: None, viewer: Client) -> None:
    shown = page(viewer, OVERVIEW)
    assert "No agent has called a tool yet" in shown.text
    connect, first_call = (element.text for element in shown.all("pre", class_="hub-pre"))
    assert connect.strip().endswith("toolhub connect claude-code")
    assert "calltool calculate" in first_call
    assert "/admin/tools_app/apikey/add/" not in shown.addresses
    assert shown.all("svg", class_="hub-chart") == []


def test_only_whoever_may_make_keys_is_led_to_making_one(tools: None, chief: Client) -> None:
    assert "/admin/tools_app/apikey/add/" in page(chief, OVERVIEW).addresses


def test_after_the_first_call_it_is_shown_instead(tools: None, viewer: Client) -> None:
    made, error = failed_call("echo", message="It broke")
    governance.set_policy("echo", {"timeout_ms": 500}, actor="user:bob")
    shown = page(viewer, OVERVIEW)
    assert "No agent has called a tool yet" not in shown.text
    assert f"/admin/tools_app/call/{made.pk}/change/" in shown.addresses
    assert f"/admin/tools_app/errorlog/{error.pk}/change/" in shown.addresses
    assert "It broke" in shown.text
    assert "tool.policy echo timeout_ms: 500 by user:bob" in shown.text


def test_the_chart_says_what_it_draws(tools: None, half_past: None, viewer: Client) -> None:
    now = timezone.now()
    for minutes in (5, 6, 31, 23 * 60, 24 * 60):
        call("echo", now - timedelta(minutes=minutes))
    failed_call("echo", now - timedelta(minutes=8))
    call("echo", status="refused", code="RATE_LIMIT_EXCEEDED", count=37)
    chart = page(viewer, OVERVIEW).one("svg", class_="hub-chart")
    assert chart["aria-label"] == "42 calls in the last 24 hours, at most 40 an hour; 1 errors"
    hours = [line.split(": ")[1].strip() for line in chart.text.split("from ")[1:]]
    assert hours == ["1 calls, 0 errors", *["0 calls, 0 errors"] * 21, "1 calls, 0 errors", "40 calls, 1 errors"]


def test_errors_are_drawn_for_those_who_may_see_them(tools: None) -> None:
    failed_call("echo")
    for name, permissions, seen in (("porter", (), False), ("guard", ("view_errorlog",), True)):
        shown = page(browser(name, "view_call", *permissions), OVERVIEW)
        assert ("errors" in shown.one("svg", class_="hub-chart")["aria-label"]) is seen
        assert any(rect["height"] != "0" for rect in shown.all("rect", class_="hub-chart-errors")) is seen


def test_whoever_may_not_see_calls_is_led_to_the_error_log(tools: None) -> None:
    failed_call("echo")
    found = figures(page(browser("doctor", "view_errorlog"), OVERVIEW))
    assert found == {"Errors 24 h": ("1", "/admin/tools_app/errorlog/?since=24h")}


def test_what_somebody_may_not_see_is_not_on_the_page(tools: None) -> None:
    failed_call("echo", message="It broke")
    governance.set_policy("echo", {"timeout_ms": 500}, actor="user:bob")
    shown = page(browser("porter", "view_toolrecord"), OVERVIEW)
    assert set(figures(shown)) == {"Tools on", "Tools off", "Tools unavailable"}
    for hidden in ("It broke", "Newest calls", "Newest errors", "Newest changes", "user:bob"):
        assert hidden not in shown.text
    assert "may not see anything here" in page(browser("nobody"), OVERVIEW).text


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
    assert queries() == few <= 14


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
        *("Overview", "Error groups", "Tools", "Calls", "Errors"),
        *("API keys", "Connections", "Toolsets", "Users", "Groups"),
        *("Audit", "Processes"),
    ]
    assert offered(chief) == everything
    assert offered(browser("porter", "view_toolrecord", "view_call")) == ["Overview", "Tools", "Calls"]


def test_nothing_on_the_pages_comes_from_elsewhere(tools: None, chief: Client) -> None:
    governance.create_key("agent", actor="test")
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
