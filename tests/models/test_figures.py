"""One table of figures: those of the previous release stay, and its processes keep adding to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from tools_app.journal import insights, retention, rows
from tools_app.models import Call, CallHour

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "0018_sources_of_tools"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)
# As the previous release adds a call to its hour and its moment.
ADD_TO_HOUR = """
    INSERT INTO tools_app_callhour (hour, tool_name, caller_id, status, code, caller_name, {columns})
    VALUES (%s, 'echo', 'key:1', 'succeeded', '', 'alice', {values})
    ON CONFLICT (hour, tool_name, caller_id, status, code)
    DO UPDATE SET calls = tools_app_callhour.calls + excluded.calls
"""
SUMS = (
    "calls", "from_cache", "total_ms", "result_bytes", "within_10", "within_50", "within_100", "within_250",
    "within_500", "within_1000", "within_2500", "within_5000", "within_10000", "slower",
)  # fmt: skip


@pytest.fixture
def earlier() -> Iterator[Apps]:
    """The models of the previous release, with its tables; afterwards, the tables of this one."""
    call_command("migrate", "tools_app", BEFORE, verbosity=0)
    yield MigrationLoader(connection).project_state(("tools_app", BEFORE)).apps
    call_command("migrate", verbosity=0)
    call_command("flush", verbosity=0, interactive=False)


def hour(apps: Apps, start: datetime, **values: Any) -> None:
    given = {"tool_name": "echo", "caller_id": "key:1", "caller_name": "alice", "status": "succeeded", "calls": 1}
    apps.get_model("tools_app", "CallHour").objects.create(hour=start, **given | values)


def moment(apps: Any, start: datetime) -> None:
    apps.get_model("tools_app", "CallSum").objects.create(span="moment", start=start, tool_name="echo", calls=1)


def add_to_hour(start: datetime) -> None:
    """A process of the previous release counts a call that took 3 ms."""
    with connection.cursor() as cursor:
        statement = ADD_TO_HOUR.format(columns=", ".join(SUMS), values="1, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0")
        cursor.execute(statement, [connection.ops.adapt_datetimefield_value(start)])


def shown() -> list[tuple[int, int]]:
    periods = [insights.period(key, timezone.now()) for key in ("24h", "7d", "30d")]
    return [
        (insights.together(insights.over(period)).calls, insights.together(insights.tools(period).values()).calls)
        for period in periods
    ]


def test_figures_are_the_same_after_the_upgrade(earlier: Apps) -> None:
    last = timezone.now().replace(minute=0, second=0, microsecond=0)
    for number in range(60):
        hour(earlier, last - DAY * number, calls=number + 1, within_50=number + 1)
        hour(earlier, last - DAY * number, calls=2, caller_id="key:2", status="failed", code="X")
    call_command("migrate", verbosity=0)
    totals = [sum(range(1, count + 1)) + 2 * count for count in (1, 7, 30)]
    assert shown() == [(total, total) for total in totals]
    sums = list(CallHour.sums.filter(hour__gte=last - DAY).order_by("pk").values_list("span", "hour", "calls"))
    retention.add_up(last)
    retention.add_up(last - DAY)
    assert {*CallHour.sums.filter(hour__gte=last - DAY).values_list("span", "hour", "calls")} == {*sums}


def test_processes_of_the_previous_release_add_to_the_same_hours(earlier: Apps) -> None:
    hour(earlier, NOON)
    call_command("migrate", verbosity=0)
    add_to_hour(NOON)
    rows.insert_counts([(ended(), 1)])
    rows.fold()
    retention.add_up(NOON)
    assert list(CallHour.objects.values_list("calls", flat=True)) == [3]
    assert CallHour.sums.get(span=CallHour.Span.DAY).calls == 3
    moment(earlier, NOON)


def test_nothing_is_lost_when_the_upgrade_is_taken_back(earlier: Apps) -> None:
    hour(earlier, NOON - DAY)
    call_command("migrate", verbosity=0)
    retention.add_up(NOON)
    rows.insert_counts([(ended(), 1), (ended(duration_ms=20), 2), (ended(status="failed"), 1)])
    rows.fold()
    rows.insert_counts([(ended(), 1), (ended(duration_ms=60_000), 1), (ended(status="failed"), -1)])
    call_command("migrate", "tools_app", BEFORE, verbosity=0)
    earlier_hours = earlier.get_model("tools_app", "CallHour").objects.order_by("hour", "status")
    columns = ("hour", "status", "calls", "total_ms", "within_10", "within_50", "slower")
    assert list(earlier_hours.values_list(*columns)) == [
        (NOON - DAY, "succeeded", 1, 0, 0, 0, 0),
        (NOON, "failed", 0, 0, 0, 0, 0),
        (NOON, "succeeded", 5, 60_046, 2, 2, 1),
    ]


def ended(**values: Any) -> Call:
    given = {"tool_name": "echo", "caller_id": "key:1", "caller_name": "alice", "status": "succeeded"}
    return Call(finished_at=NOON, **{"duration_ms": 3} | given | values)
