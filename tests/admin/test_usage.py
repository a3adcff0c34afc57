"""Usage by caller, tool and source: the sums of the overview and of the metrics, with the calls behind every number."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import browser, call, days_ago
from tests.admin.pages import Page, page
from tests.admin.test_overview import figures
from tools_app import governance
from tools_app.admin.usage_page import DIMENSIONS, ROWS_A_PAGE
from tools_app.journal import insights
from tools_app.models import AuditEntry, CallHour, ToolRecord
from tools_app.models.figures import DAY, HOUR, beginning

pytestmark = pytest.mark.django_db

USAGE = "/admin/usage/"
HEADINGS = ("name", "calls", "errors", "rate", "refused", "p50", "p95", "size")


@pytest.fixture(autouse=True)
def half_past(db: None) -> Iterator[None]:
    """Half past some hour in the middle of a day: nothing falls into the next one while a test runs."""
    with time_machine.travel(timezone.now().replace(hour=12, minute=30, second=0), tick=True):
        yield


@pytest.fixture
def calls(tools: None) -> None:
    """Of a key, of a person and of an unknown caller, of two sources and of no tool that there is."""
    key, _ = governance.create_key("alice", actor=governance.trusted("test"))
    of_key = {"caller_id": f"key:{key.pk}", "caller_name": "alice", "result_bytes": 2_000}
    for days in (0, 0.1, 0.2, 3, 20):
        call("calculate", days_ago(days), duration_ms=40, **of_key)
    call("calculate", days_ago(0.1), status="failed", code="API_ERROR", duration_ms=7_000, **of_key)
    call("search_web", days_ago(0.1), status="timeout", code="TIMEOUT", duration_ms=9_000, **of_key)
    call("calculate", days_ago(0.2), status="refused", code="RATE_LIMIT_EXCEEDED", count=5, **of_key)
    call("echo", days_ago(0.1), caller_id="user:7", caller_name="bob", caller_kind="user")
    call("", caller_id="", caller_name="", status="refused", code="AUTHENTICATION_ERROR", count=3)
    call("nonsense", caller_id="user:7", caller_name="bob", status="refused", code="TOOL_NOT_FOUND")


def rows(shown: Page) -> dict[str, dict[str, str]]:
    """Name → heading → what the cell says; the sum of all is that of “All”."""
    found = {}
    for row in shown.all("tr")[1:]:
        cells = [cell for cell in shown.elements if cell.tag in ("th", "td") and cell.parents[-1] is row]
        words = [" ".join(cell.text.split()) for cell in cells]
        found[words[0]] = dict(zip(HEADINGS, words, strict=True))
    return found


def address_of(shown: Page, name: str, number: int) -> str:
    """The link of the n-th number of a row."""
    [row] = [one for one in shown.all("tr") if " ".join(one.text.split()).startswith(name)]
    return [link for link in shown.all("a", class_="hub-number") if row in link.parents][number]["href"]


async def whole(response: Any) -> str:
    return b"".join([part async for part in response.streaming_content]).decode()


@pytest.mark.parametrize("since", insights.PERIODS)
@pytest.mark.parametrize("by", DIMENSIONS)
def test_all_rows_together_are_the_figures_of_the_overview(calls: None, viewer: Client, by: str, since: str) -> None:
    total = rows(page(viewer, USAGE, by=by, since=since))["All"]
    overview = {
        title.split(" of ")[0]: number for title, (number, _) in figures(page(viewer, "/admin/", since=since)).items()
    }
    assert total["calls"] == overview["Calls"]
    assert total["errors"] == overview["Errors"]
    assert total["p50"] == overview["Median (p50)"]
    assert total["p95"] == overview["p95"]
    shares = [number for title, number in overview.items() if title.startswith("Error rate")]
    assert total["rate"].split(", ")[1] == shares[0]


def test_all_rows_together_are_the_metrics(calls: None) -> None:
    now = timezone.now()
    window = insights.Period("", (beginning(days_ago(25), DAY), insights.period("24h", now).until))
    metrics = insights.totals_by_tool(insights.totals(window.since))
    tools = insights.all_tools(window)
    assert {name: one.result_bytes for name, one in metrics.items()} == {
        name: one.result_bytes for name, one in tools.items()
    }
    assert sum(one.calls for one in insights.totals(window.since)) == insights.together(tools.values()).calls == 17


def test_rows_say_how_often_what_failed_and_lead_to_the_calls(calls: None, chief: Client) -> None:
    shown = page(chief, USAGE, since="24h")
    assert rows(shown)["alice API key"] == {
        "name": "alice API key", "calls": "10", "errors": "2", "rate": "2 of 5, 40.0%", "refused": "5",
        "p50": "≤ 50 ms", "p95": "≤ 10 s", "size": "19.5 KB",
    }  # fmt: skip
    assert list(rows(shown)) == ["alice API key", "unknown caller", "bob user", "All"]
    expected = {0: 6, 1: 2, 2: 1}  # five equal refusals are one row
    for number, listed in expected.items():
        behind = page(chief, address_of(shown, "alice", number))
        assert len(behind.all("tr", class_="data-row")) == listed
    assert "unknown tools" in rows(page(chief, USAGE, by="tool"))
    sources = page(chief, USAGE, by="source")
    assert rows(sources)["tests.support.packs.small"]["calls"] == "10"
    behind = page(chief, address_of(sources, "tests.support", 0))
    assert {"calculate", "echo"} <= {link.text.strip() for link in behind.all("a", class_="hub-link")}
    assert "search_web" not in behind.one("table", id="result_list").text


@pytest.mark.parametrize("column", HEADINGS)
def test_rows_are_sorted_by_every_column_both_ways(calls: None, viewer: Client, column: str) -> None:
    up, down = (list(rows(page(viewer, USAGE, by="tool", since="30d", o=f"{sign}{column}"))) for sign in ("", "-"))
    assert up != down
    assert sorted(up) == sorted(down)
    [sorted_heading] = [one for one in page(viewer, USAGE, o=f"-{column}").all("th") if "aria-sort" in one.attributes]
    assert sorted_heading["aria-sort"] == "descending"


def test_a_time_range_of_its_own_is_counted_by_whole_hours(calls: None, viewer: Client) -> None:
    now = timezone.now()
    shown = page(viewer, USAGE, **{"from": (now - timedelta(days=4)).isoformat(), "until": days_ago(2).isoformat()})
    assert rows(shown)["All"]["calls"] == "1"
    query = parse_qs(urlsplit(address_of(shown, "alice", 0)).query)
    assert query["from"][0].endswith("00:00+00:00")
    assert len(page(viewer, address_of(shown, "alice", 0)).all("tr", class_="data-row")) == 1
    for wrong in (
        {"from": "9999-01-01"},
        {"until": "0001-01-01"},
        {"from": "x\x00"},
        {"from": "2000-01-01"},
        {"p": "-1"},
    ):
        assert page(viewer, USAGE, **wrong).status == 200, wrong


def test_without_calls_the_page_says_what_to_do(tools: None, viewer: Client) -> None:
    shown = page(viewer, USAGE)
    assert "No calls in this time range" in shown.text
    assert shown.all("table") == []
    assert not [one for one in shown.addresses if "format=csv" in one]


def test_the_csv_has_every_row_and_nothing_that_a_spreadsheet_calculates(calls: None, viewer: Client) -> None:
    call("echo", caller_id="user:8", caller_name="=1+1", caller_kind="user")
    for number in range(ROWS_A_PAGE):
        call("echo", caller_id=f"token:{number}", caller_name=f"someone {number:02}", caller_kind="token")
    shown = page(viewer, USAGE, o="name")
    assert len(rows(shown)) == ROWS_A_PAGE + 1
    [address] = [one for one in shown.addresses if "format=csv" in one]
    response: Any = viewer.get(f"{USAGE}{address}")
    assert response["Content-Disposition"] == 'attachment; filename="usage-by-caller.csv"'
    found = list(csv.DictReader(io.StringIO(asyncio.run(whole(response)))))
    assert len(found) == ROWS_A_PAGE + 4
    assert sum(int(row["calls"]) for row in found) == int(rows(shown)["All"]["calls"])
    assert "'=1+1" in {row["name"] for row in found}
    [alice] = [row for row in found if row["name"] == "alice"]
    assert (alice["calls"], alice["errors"], alice["p95Ms"], alice["responseBytes"]) == ("10", "2", "10000", "20000")
    assert AuditEntry.objects.get(action="list.export").subject == "list:usage"


def test_who_may_not_see_figures_is_refused_and_keys_are_links_for_some(calls: None, chief: Client) -> None:
    assert page(browser("nobody"), USAGE).status == 403
    assert [one for one in page(chief, USAGE).addresses if one.endswith("/change/")]
    counter = page(browser("counter", "view_callhour"), USAGE)
    assert rows(counter)["alice API key"]["calls"] == "10"
    assert not [one for one in counter.addresses if "/call/" in one or one.endswith("/change/")]


@pytest.mark.parametrize("by", DIMENSIONS)
def test_a_hundred_rows_cost_no_more_queries_than_two(tools: None, viewer: Client, by: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert page(viewer, USAGE, by=by, since="7d").status == 200
        return len(captured)

    call("echo")
    call("calculate", caller_id="key:2")
    page(viewer, USAGE)
    few = queries()
    hour = beginning(timezone.now(), HOUR)
    CallHour.objects.bulk_create(
        CallHour(hour=hour, tool_name=f"t{n}", caller_id=f"key:{n}", caller_name=f"k{n}", status="succeeded", calls=1)
        for n in range(100, 200)
    )
    ToolRecord.objects.bulk_create(
        ToolRecord(name=f"t{n}", folded_name=f"t{n}", original_name=f"t{n}", source_kind="file")
        for n in range(100, 200)
    )
    page(viewer, USAGE)  # reads the tools again
    assert queries() == few <= 20
