"""Figures: what the hours hold, added up."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import connection
from django.db.models import OuterRef
from django.test.utils import CaptureQueriesContext

from tools_app import insights
from tools_app.insights import Hour, by_hour, percentile
from tools_app.models import CallHour, ErrorGroup, ToolRecord
from tools_app.models.figures import DURATIONS

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def hour(start: datetime = NOON, **given: Any) -> None:
    values: dict[str, Any] = {"tool_name": "echo", "caller_id": "key:1", "status": "succeeded", "calls": 1}
    CallHour.objects.create(hour=start, **values | given)


def hours_with(*counts: int) -> list[Hour]:
    return [Hour(NOON, durations=counts + (0,) * (len(DURATIONS) + 1 - len(counts)))]


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


def test_hours_are_those_of_a_tool_or_a_caller(db: None) -> None:
    hour(calls=1)
    hour(calls=2, tool_name="calculate")
    hour(calls=4, caller_id="key:2")

    def calls(**given: str) -> int:
        return sum(one.calls for one in by_hour(NOON, NOON + timedelta(hours=1), **given))

    assert calls() == 7
    assert calls(tool="echo") == 5
    assert calls(caller="key:1") == 3
    assert calls(tool="echo", caller="key:2") == 4
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
    assert percentile([*hours_with(3), *hours_with(0, 0, 2), Hour(NOON)], 0.5) == 10
    assert percentile([*hours_with(3), *hours_with(0, 0, 4), Hour(NOON)], 0.5) == 100
    assert percentile([], 0.5) is None


def test_tools_have_their_calls_beside_them(db: None) -> None:
    for name in ("echo", "calculate"):
        ToolRecord.objects.create(name=name, source="file")
    hour(calls=4)
    hour(calls=2, status="failed")
    hour(NOON - timedelta(hours=1), calls=100)
    tools = ToolRecord.objects.annotate(
        all_calls=insights.calls_of(OuterRef("name"), NOON),
        errors=insights.calls_of(OuterRef("name"), NOON, insights.ERRORS),
    )
    found = tools.order_by("name").values_list("name", "all_calls", "errors")
    assert list(found) == [("calculate", 0, 0), ("echo", 6, 2)]


def test_open_error_groups_are_those_that_nobody_called_resolved(db: None) -> None:
    for number, resolved_at in enumerate((None, None, NOON)):
        ErrorGroup.objects.create(
            fingerprint=str(number), code="X", message="x", first_seen_at=NOON, last_seen_at=NOON,
            resolved_at=resolved_at,
        )  # fmt: skip
    assert insights.open_error_groups() == 2
