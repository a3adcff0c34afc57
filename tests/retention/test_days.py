"""The sums of a day are added to with its hours, and can be computed from them."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
import time_machine
from django.db import connection, transaction

from tests.retention.rows import NOW, call, hour
from tests.support.tools import eventually
from tools_app.journal import retention, rows
from tools_app.journal.retention.keeper import Keeper
from tools_app.models import CallHour
from tools_app.models.figures import EVERY

pytestmark = pytest.mark.django_db(transaction=True)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TODAY = NOW.replace(hour=0)
YESTERDAY = TODAY - DAY


def sums() -> list[tuple[str, datetime, str, int]]:
    return sorted(CallHour.sums.values_list("span", "hour", "tool_name", "calls"))


def count(at: datetime, **changes: str) -> None:
    rows.insert_counts([(call(at, finished_at=at, **changes), 1)])
    rows.fold()


def test_the_hours_of_all_tools_and_the_day_of_each() -> None:
    hour(YESTERDAY, calls=1)
    hour(YESTERDAY, calls=2, caller_id="key:2")
    hour(YESTERDAY, calls=4, tool_name="calculate")
    hour(YESTERDAY + 23 * HOUR, calls=8, code="X")
    hour(TODAY, calls=16)
    retention.add_up(YESTERDAY + HOUR / 2)
    expected = [
        ("day", YESTERDAY, "calculate", 4),
        ("day", YESTERDAY, "echo", 11),
        ("total", YESTERDAY, EVERY, 7),
        ("total", YESTERDAY + 23 * HOUR, EVERY, 8),
    ]
    assert sums() == expected
    retention.add_up(YESTERDAY)
    assert sums() == expected


def test_calls_are_added_to_the_sums_as_to_their_hours() -> None:
    for at in (YESTERDAY, YESTERDAY + 23 * HOUR, NOW, NOW):
        count(at)
    count(NOW, tool_name="calculate", caller_id="key:2", status="failed", code="X")
    added = sums()
    assert ("day", TODAY, "echo", 2) in added
    assert ("total", NOW, EVERY, 1) in added
    for day in (TODAY, YESTERDAY):
        retention.add_up(day)
    assert sums() == added


def test_the_keeper_adds_what_the_previous_release_has_added_to_hours_only() -> None:
    for start in (YESTERDAY, NOW):
        count(start)
        CallHour.objects.filter(hour=start).update(calls=5)
    with time_machine.travel(NOW, tick=False):
        assert Keeper()._look()
    assert [calls for *_, calls in sums()] == [5, 5, 5, 5]


def test_a_call_that_is_counted_meanwhile_is_in_the_sums() -> None:
    count(NOW)
    rows.insert_counts([(call(NOW, finished_at=NOW), 1)])

    def fold() -> None:
        try:
            rows.fold()
        finally:
            connection.close()

    other = threading.Thread(target=fold)
    with transaction.atomic():
        retention.add_up(NOW)
        other.start()
        assert not eventually(lambda: not other.is_alive(), 0.3)
    other.join()
    assert [calls for *_, calls in sums()] == [2, 2]
