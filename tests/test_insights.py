"""Figures: what the hours hold, added up."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.db.models import OuterRef
from django.test.utils import CaptureQueriesContext
from django.utils import timezone as django_timezone

from tools_app.journal import insights, retention
from tools_app.journal.insights import Bucket, by_hour, percentile
from tools_app.models import Call, CallHour, ErrorGroup, ToolRecord
from tools_app.models.figures import DURATIONS

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def hour(start: datetime = NOON, **given: Any) -> None:
    values: dict[str, Any] = {"tool_name": "echo", "caller_id": "key:1", "status": "succeeded", "calls": 1}
    CallHour.objects.create(hour=start, **values | given)


def hours_with(*counts: int) -> list[Bucket]:
    return [Bucket(NOON, durations=counts + (0,) * (len(DURATIONS) + 1 - len(counts)))]


def test_a_day_is_the_hour_that_runs_and_the_23_before_it() -> None:
    since, until = insights.last_day(NOON + timedelta(minutes=59))
    assert (since, until) == (NOON - timedelta(hours=23), NOON + timedelta(hours=1))
    assert insights.last_day(NOON) == (since, until)
    kathmandu = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert insights.last_day(kathmandu) == (since, until)


def test_every_hour_is_there_with_what_ended_in_it(db: None) -> None:
    hour(NOON - timedelta(hours=1), calls=9)
    for number, status in enumerate(("succeeded", "failed", "timeout", "interrupted", "cancelled", "refused")):
        hour(status=status, calls=10**number)
    hour(status="succeeded", caller_id="key:2", calls=5)
    hour(NOON + timedelta(hours=2))
    found = by_hour(NOON, NOON + timedelta(hours=2))
    assert [(one.start, one.calls, one.errors, one.refused) for one in found] == [
        (NOON, 111_116, 1_110, 100_000),
        (NOON + timedelta(hours=1), 0, 0, 0),
    ]


def test_an_hour_that_has_begun_counts_whole(db: None) -> None:
    hour(calls=3)
    found = by_hour(NOON + timedelta(minutes=20), NOON + timedelta(minutes=40))
    assert [(one.start, one.calls) for one in found] == [(NOON, 3)]


def test_hours_are_those_of_a_tool(db: None) -> None:
    hour(calls=1)
    hour(calls=2, tool_name="calculate")
    hour(calls=4, caller_id="key:2")

    def calls(**given: str) -> int:
        return sum(one.calls for one in by_hour(NOON, NOON + timedelta(hours=1), **given))

    assert calls() == 7
    assert calls(tool="echo") == 5
    assert calls(tool="") == 0


def test_a_day_is_one_query(db: None) -> None:
    for number in range(48):
        hour(NOON - timedelta(hours=number))
    with CaptureQueriesContext(connection) as captured:
        assert sum(one.calls for one in by_hour(*insights.last_day(NOON))) == 24
    assert len(captured) == 1


def test_only_calls_that_ran_to_their_end_are_timed(db: None) -> None:
    hour(within_50=3)
    hour(status="failed", within_50=2, slower=1)
    for status in ("refused", "cancelled", "interrupted"):
        hour(status=status, within_10=100)
    [found] = by_hour(NOON, NOON + timedelta(hours=1))
    assert found.durations == (0, 5, 0, 0, 0, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("counts", "share", "bound"),
    [
        ((), 0.5, None),
        ((1,), 0.5, 10),
        ((1,), 0.95, 10),
        ((1, 1), 0.5, 10),
        ((1, 1, 1), 0.5, 50),
        ((94, 0, 6), 0.95, 100),
        ((95, 0, 5), 0.95, 10),
        ((0,) * 8 + (1, 0), 0.5, 10_000),
        ((0,) * 9 + (1,), 0.5, math.inf),
    ],
)
def test_a_percentile_is_the_bound_that_enough_calls_kept(
    counts: tuple[int, ...], share: float, bound: float | None
) -> None:
    assert percentile(hours_with(*counts), share) == bound


def test_a_percentile_is_taken_over_all_hours() -> None:
    assert percentile([*hours_with(3), *hours_with(0, 0, 2), Bucket(NOON)], 0.5) == 10
    assert percentile([*hours_with(3), *hours_with(0, 0, 4), Bucket(NOON)], 0.5) == 100
    assert percentile([], 0.5) is None


def test_tools_have_their_calls_beside_them(db: None) -> None:
    for name in ("echo", "calculate"):
        ToolRecord.objects.create(name=name, source_kind="file")
    hour(calls=4)
    hour(calls=2, status="failed")
    hour(NOON - timedelta(hours=1), calls=100)
    tools = ToolRecord.objects.annotate(
        all_calls=insights.calls_of(OuterRef("name"), NOON),
        errors=insights.calls_of(OuterRef("name"), NOON, insights.ERRORS),
    )
    found = tools.order_by("name").values_list("name", "all_calls", "errors")
    assert list(found) == [("calculate", 0, 0), ("echo", 6, 2)]


def test_open_error_groups_are_those_that_are_not_resolved(db: None) -> None:
    for number, resolved_at in enumerate((None, None, NOON)):
        ErrorGroup.objects.create(
            fingerprint=str(number), code="X", message="x", first_seen_at=NOON, last_seen_at=NOON,
            resolved_at=resolved_at,
        )  # fmt: skip
    assert insights.open_error_groups() == 2


def test_tools_are_grouped_in_one_query(db: None) -> None:
    hour(calls=8, within_10=8)
    hour(calls=2, status="failed", within_250=2)
    hour(NOON - timedelta(hours=1), calls=5, within_50=5, tool_name="calculate")
    hour(NOON - timedelta(hours=2), calls=99)
    hour(calls=99, tool_name="other")
    with CaptureQueriesContext(connection) as captured:
        found = insights.by_tool(NOON - timedelta(hours=1), NOON + timedelta(hours=1), ["echo", "calculate", "idle"])
    assert len(captured) == 1
    assert {name: (one.calls, one.errors, percentile([one], 0.95)) for name, one in found.items()} == {
        "echo": (10, 2, 250),
        "calculate": (5, 0, 50),
    }


def test_the_column_says_what_the_percentile_says(db: None) -> None:
    cases: dict[str, dict[str, Any]] = {
        "quick": {"within_10": 95, "slower": 5},
        "slow": {"within_10": 94, "within_250": 1, "slower": 5},
        "slower": {"within_10": 1, "slower": 1},
        "untimed": {"calls": 3},
        "idle": {},
    }
    for name, counts in cases.items():
        ToolRecord.objects.create(name=name, source_kind="file")
        if counts:
            hour(tool_name=name, **counts)
    hour(tool_name="idle", status="refused", within_10=50)
    hour(NOON - timedelta(hours=3), tool_name="idle", within_10=1)
    column = insights.percentile_of(OuterRef("name"), NOON, 95)
    found = dict(ToolRecord.objects.annotate(p95=column).values_list("name", "p95"))
    assert found == {"quick": 10, "slow": 250, "slower": 10_001, "untimed": None, "idle": None}
    there = insights.by_tool(NOON, NOON + timedelta(hours=1), ["quick", "slow", "slower"])
    told = {name: percentile([one], 0.95) for name, one in there.items()}
    assert told == {"quick": 10, "slow": 250, "slower": math.inf}


# ---- periods


def period(key: str) -> insights.Period:
    return insights.period(key, NOON + timedelta(minutes=17))


def test_an_hour_is_twelve_parts_up_to_the_one_that_runs() -> None:
    hour = period("1h")
    assert (hour.since, hour.until) == (NOON - timedelta(minutes=40), NOON + timedelta(minutes=20))
    assert {end - begin for begin, end in zip(hour.cuts, hour.cuts[1:], strict=False)} == {timedelta(minutes=5)}


def test_days_begin_at_midnight_where_people_are() -> None:
    with django_timezone.override("Asia/Tokyo"):
        week, month = period("7d"), period("30d")
    assert week.since == datetime(2026, 4, 27, 15, tzinfo=UTC)
    assert week.until == month.until == datetime(2026, 5, 4, 15, tzinfo=UTC)
    assert (len(week.cuts), len(month.cuts)) == (29, 31)
    assert month.since == datetime(2026, 4, 4, 15, tzinfo=UTC)


def test_a_day_on_which_clocks_are_set_has_another_length() -> None:
    with django_timezone.override("Europe/Berlin"):
        cuts = insights.period("7d", datetime(2026, 3, 29, 12, tzinfo=UTC)).cuts
    assert [cut.hour for cut in cuts[-5:]] == [23, 4, 10, 16, 22]
    assert (cuts[-5].day, cuts[-1].day) == (28, 29)


def test_whole_hours_are_counted_where_midnight_is_at_half_past() -> None:
    with django_timezone.override("Asia/Kolkata"):
        assert period("30d").since == datetime(2026, 4, 4, 18, tzinfo=UTC)


def test_the_last_hour_is_read_from_its_calls(db: None) -> None:
    for _ in range(3):
        call("echo", NOON)
    call("echo", NOON, status="failed", duration_ms=3_000)
    call("calculate", NOON + timedelta(minutes=15), status="refused", count=5)
    call("", NOON, tool_name="what", status="refused", code="TOOL_NOT_FOUND")
    call("echo", NOON - timedelta(minutes=45))
    call("echo", NOON, finished_at=None, status="started")
    call("echo", NOON, started_at=NOON - timedelta(minutes=45))
    hour(calls=1_000)
    found = insights.over(period("1h"))
    assert [(one.calls, one.errors) for one in found] == [*[(0, 0)] * 8, (6, 1), (0, 0), (0, 0), (5, 0)]
    assert found[8].durations == (4, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    assert {name: tool.calls for name, tool in insights.tools(period("1h")).items()} == {"echo": 5, "calculate": 5}


@pytest.fixture
def month(db: None) -> Iterator[datetime]:
    """Calls of two tools in every sixth hour of forty days."""
    now = NOON + timedelta(minutes=17)
    for number in range(40 * 4):
        start = NOON - timedelta(hours=6 * number)
        hour(start, calls=number + 1, within_50=number + 1)
        hour(start, tool_name="calculate", status="failed", code="API_ERROR", calls=2, slower=2)
        retention.add_up(start)
    with time_machine.travel(now, tick=False):
        yield now


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_sums_show_the_same_as_their_hours(month: datetime, zone: str) -> None:
    with django_timezone.override(zone):
        for key in ("24h", "7d", "30d"):
            chosen = insights.period(key, month)
            hours = insights.by_hour(chosen.since, chosen.until)
            parts = insights.over(chosen)
            tools = insights.tools(chosen)
            assert parts[-1].calls == sum(one.calls for one in hours if one.start >= chosen.cuts[-2])
            assert insights.together(parts) == insights.together(hours) == insights.together(tools.values())
            assert insights.together(parts).calls > 0
            assert tools["calculate"].errors == sum(one.errors for one in hours)


def test_sums_are_read_instead_of_the_hours(month: datetime) -> None:
    before = insights.over(period("30d")), insights.tools(period("30d"))
    CallHour.objects.filter(hour__lt=NOON.replace(hour=0)).delete()
    assert (insights.over(period("30d")), insights.tools(period("30d"))) == before


def test_a_period_costs_no_more_queries_however_long_it_is(month: datetime) -> None:
    for key, most in (("1h", 2), ("24h", 3), ("7d", 3), ("30d", 3)):
        chosen = insights.period(key, month)
        with CaptureQueriesContext(connection) as captured:
            insights.over(chosen)
            insights.tools(chosen)
        assert len(captured) <= most


def test_calls_of_unknown_tools_belong_to_no_tool(db: None) -> None:
    hour(tool_name="", status="refused", code="TOOL_NOT_FOUND", calls=7)
    retention.add_up(NOON)
    assert insights.tools(period("24h")) == {}
    assert sum(one.calls for one in insights.over(period("24h"))) == 7


def test_the_error_rate_is_of_accepted_calls() -> None:
    assert insights.Figures(calls=110, refused=10, errors=5).error_rate == 0.05
    assert insights.Figures(calls=10, refused=10).error_rate == 0
    assert insights.Figures(calls=10, succeeded=4, errors=3, refused=2).others == 1


def call(tool: str, end: datetime, **given: Any) -> None:
    values: dict[str, Any] = {"tool_name": tool, "status": "succeeded", "started_at": end, "finished_at": end}
    values |= {"id": secrets.token_hex(16), "duration_ms": 10, "door": "rest"}
    Call.objects.create(**values | given)
