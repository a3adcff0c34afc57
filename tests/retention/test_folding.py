"""Days that are over are added up once, and anew when something came late."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import time_machine

from tests.retention.rows import NOW, call, hour
from tools_app.journal import retention, rows
from tools_app.journal.retention.keeper import Keeper
from tools_app.journal.retention.pace import Pace
from tools_app.models import Call, CallHour, CallSum
from tools_app.models.figures import EVERY_TOOL

pytestmark = pytest.mark.django_db(transaction=True)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YESTERDAY = NOW.replace(hour=0) - DAY


def sums() -> list[tuple[str, datetime, str, int]]:
    return list(
        CallSum.objects.order_by("span", "start", "tool_name").values_list("span", "start", "tool_name", "calls")
    )


def test_adds_up_the_hours_of_all_tools_and_the_day_of_each() -> None:
    hour(YESTERDAY, calls=1)
    hour(YESTERDAY, calls=2, caller_id="key:2")
    hour(YESTERDAY, calls=4, tool_name="calculate")
    hour(YESTERDAY + 23 * HOUR, calls=8, code="X")
    assert retention.fold(NOW) == 1
    assert sums() == [
        ("day", YESTERDAY, "calculate", 4),
        ("day", YESTERDAY, "echo", 11),
        ("hour", YESTERDAY, EVERY_TOOL, 7),
        ("hour", YESTERDAY + 23 * HOUR, EVERY_TOOL, 8),
    ]
    assert retention.fold(NOW) == 0


def test_a_day_that_is_not_over_is_left_alone() -> None:
    hour(NOW)
    hour(YESTERDAY)
    just_after_midnight = NOW.replace(hour=0, minute=9)
    assert retention.fold(just_after_midnight) == 0
    assert retention.fold(just_after_midnight + timedelta(minutes=1)) == 1
    assert {start.date() for _, start, _, _ in sums()} == {YESTERDAY.date()}


def test_days_without_calls_are_no_work() -> None:
    hour(YESTERDAY - 30 * DAY)
    hour(YESTERDAY)
    assert retention.fold(NOW) == 2
    assert retention.fold(NOW) == 0


def test_what_is_cut_off_goes_on_where_it_was() -> None:
    for number in range(3):
        hour(YESTERDAY - number * DAY)
    assert retention.fold(NOW, Pace(seconds=0)) == 0
    assert retention.fold(NOW) == 3


def test_what_was_written_while_its_day_was_added_up_is_found_at_the_next_look() -> None:
    """Neither of the two transactions has seen the other."""
    hour(YESTERDAY, calls=2)
    assert retention.fold(NOW) == 1
    hour(YESTERDAY + HOUR, calls=4)
    assert retention.fold(NOW + HOUR) == 1
    assert ("day", YESTERDAY, "echo", 6) in sums()
    assert retention.fold(NOW + 2 * HOUR) == 0


def test_the_keeper_does_it_by_itself() -> None:
    hour(YESTERDAY)
    with time_machine.travel(NOW, tick=False):
        assert Keeper()._look()
    assert len(sums()) == 2


def test_a_call_that_is_written_late_counts_in_its_day() -> None:
    hour(YESTERDAY, calls=5)
    hour(YESTERDAY - DAY, calls=6)
    retention.fold(NOW)
    late = Call(tool_name="echo", caller_id="key:1", caller_name="alice", status="succeeded", finished_at=YESTERDAY)
    with time_machine.travel(NOW, tick=False):
        rows.add_to_figures([(late, 1)])
        assert {start for span, start, _, _ in sums() if span != "moment"} == {YESTERDAY - DAY}
        assert retention.fold(NOW) == 1
    assert CallSum.objects.get(span="day", start=YESTERDAY).calls == 6


def test_a_call_that_others_had_given_up_is_taken_out_of_its_day() -> None:
    lost = call(YESTERDAY, status="interrupted", code="INTERRUPTED", finished_at=YESTERDAY + HOUR)
    with time_machine.travel(YESTERDAY + HOUR, tick=False):
        rows.add_to_figures([(lost, 1)])
    retention.fold(NOW)
    ended = Call(id=lost.id, started_at=YESTERDAY, finished_at=NOW)
    with time_machine.travel(NOW, tick=False):
        rows.take_back([ended])
    assert sums() == [("moment", YESTERDAY + HOUR, "echo", 0)]
    retention.fold(NOW)
    assert CallSum.objects.get(span="day").calls == CallHour.objects.get().calls == 0


def test_moments_are_written_with_the_calls_whoever_makes_them() -> None:
    for minutes in (0, 4, 5):
        moment = NOW + timedelta(minutes=minutes)
        made = call(moment, finished_at=moment, caller_id=f"key:{minutes}", duration_ms=40)
        rows.add_to_figures([(made, 1)])
    found = CallSum.objects.filter(span="moment").order_by("start")
    assert list(found.values_list("start", "calls", "within_50", "total_ms")) == [
        (NOW, 2, 2, 80),
        (NOW + timedelta(minutes=5), 1, 1, 40),
    ]
