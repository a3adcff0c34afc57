"""Calls are added to the figures after their commit, each exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Sum

from tests.support.processes import Home
from tests.support.tools import Hub, database_url, eventually
from tools_app import engine
from tools_app.journal import rows
from tools_app.models import Call, CallHour, PendingCount
from tools_app.models.figures import SUMS
from tools_app.sdk.context import Caller

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Two batches and an error happen in every round; what is committed is in the database.
WORK = """
import secrets, sys
import django
django.setup()
from datetime import UTC, datetime
from django.db import transaction
from tools_app.journal import rows
from tools_app.models import Call
rows.FOLDED_AT_ONCE = 7
print("ready", flush=True)
for number in range(1_000_000):
    now = datetime.now(UTC)
    calls = [
        Call(id=secrets.token_hex(16), tool_name=f"tool_{number % 3}", status="succeeded", caller_id=f"key:{n}",
             caller_name="x", door="code", caller_kind="key", started_at=now, finished_at=now, duration_ms=number % 99)
        for n in range(3)
    ]
    with transaction.atomic():
        rows.insert_calls(calls)
        rows.insert_counts((call, 1) for call in calls)
    rows.fold()
"""


def ended(at: datetime = NOON, **changes: Any) -> Call:
    values: dict[str, Any] = {"tool_name": "echo", "caller_id": "key:1", "caller_name": "alice", "status": "succeeded"}
    return Call(finished_at=at, **values | changes)


def counted() -> list[tuple[Any, ...]]:
    columns = ("hour", "tool_name", "caller_id", "status", "code", "calls")
    return list(CallHour.objects.order_by(*columns).values_list(*columns))


def test_calls_of_one_hour_tool_caller_and_outcome_are_one_row() -> None:
    rows.insert_counts(
        [
            (ended(duration_ms=10, result_bytes=5), 1),
            (ended(NOON + HOUR / 2, duration_ms=11, result_bytes=7, answered_by="cache"), 1),
            (ended(duration_ms=10_001, caller_name="alicia"), 1),
            (ended(NOON + HOUR), 1),
            (ended(tool_name="calculate"), 1),
            (ended(status="refused", code="RATE_LIMIT_EXCEEDED"), 40),
            (ended(status="refused", code="TOOL_NOT_FOUND", tool_name="what"), 1),
            (ended(status="refused", code="TOOL_NOT_FOUND", tool_name="who"), 1),
            # The name of the sums.
            (ended(status="refused", code="SHUTTING_DOWN", tool_name="*"), 1),
        ]
    )
    assert not CallHour.objects.exists()
    assert rows.fold() == 9
    assert rows.fold() == PendingCount.objects.count() == 0
    assert counted() == [
        (NOON, "", "key:1", "refused", "SHUTTING_DOWN", 1),
        (NOON, "", "key:1", "refused", "TOOL_NOT_FOUND", 2),
        (NOON, "calculate", "key:1", "succeeded", "", 1),
        (NOON, "echo", "key:1", "refused", "RATE_LIMIT_EXCEEDED", 40),
        (NOON, "echo", "key:1", "succeeded", "", 3),
        (NOON + HOUR, "echo", "key:1", "succeeded", "", 1),
    ]
    hour = CallHour.objects.get(hour=NOON, tool_name="echo", status="succeeded")
    assert {name: getattr(hour, name) for name in SUMS if getattr(hour, name)} == {
        "calls": 3,
        "from_cache": 1,
        "total_ms": 10_022,
        "result_bytes": 12,
        "within_10": 1,
        "within_50": 1,
        "slower": 1,
    }
    assert hour.caller_name == "alicia"


def test_an_hour_is_added_to_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FOLDED_AT_ONCE", 3)
    rows.insert_counts((ended(), 1) for _ in range(7))
    assert [rows.fold() for _ in range(4)] == [3, 3, 1, 0]
    assert CallHour.objects.get().calls == 7


@pytest.mark.parametrize("is_folded_before", [True, False])
def test_an_outcome_that_was_replaced_is_taken_back(is_folded_before: bool) -> None:
    lost = ended(status="interrupted", code="INTERRUPTED")
    rows.insert_counts([(lost, 1), (ended(), 1)])
    if is_folded_before:
        rows.fold()
    rows.insert_counts([(lost, -1), (ended(duration_ms=3), 1)])
    rows.fold()
    assert {(status, calls) for *_, status, _, calls in counted()} == {("interrupted", 0), ("succeeded", 2)}
    assert CallHour.objects.aggregate(timed=Sum("within_10"))["timed"] == 2
    rows.insert_counts([(lost, -1)])
    assert rows.fold() == 1, "no number below zero, and nothing that stops the others"
    assert CallHour.objects.get(status="interrupted").calls == 0


@pytest.mark.parametrize("seconds", [0.3, 5])
def test_the_end_of_a_call_that_is_written_late_replaces_its_interruption(seconds: float) -> None:
    """However short the call was: its process may have been without a database since."""
    begun = datetime.now(UTC) - timedelta(seconds=10)
    lost = ended(started_at=begun, status="interrupted", code="INTERRUPTED")
    lost.save(force_insert=True)
    late = ended(begun + timedelta(seconds=seconds), id=lost.pk, started_at=begun)
    with transaction.atomic():
        assert [call.pk for call in rows.given_up([late])] == [lost.pk]


def test_what_fails_is_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rows.insert_counts([(ended(), 1)])
    with monkeypatch.context() as broken:
        broken.setattr(rows, "_TAKE_FROM_HOUR", "nonsense")
        broken.setattr(rows, "_ADD_TO_HOUR", f"{rows._ADD_TO_HOUR}, nonsense = 1")
        with pytest.raises(DatabaseError):
            rows.fold()
    assert PendingCount.objects.count() == 1
    rows.fold()
    assert CallHour.objects.get().calls == 1


def test_two_processes_that_fold_do_not_count_twice() -> None:
    """The second one waits for the first, and does not see the same rows."""
    rows.insert_counts((ended(), 1) for _ in range(20))
    told: list[int] = []

    def fold() -> None:
        try:
            told.append(rows.fold())
        finally:
            connection.close()

    other = threading.Thread(target=fold)
    with transaction.atomic():
        assert rows.fold() == 20
        other.start()
        assert not eventually(lambda: not other.is_alive(), 0.3)
    other.join()
    assert told == [0]
    assert CallHour.objects.get().calls == 20


def test_a_running_hub_counts_its_calls_by_itself(hub: Hub, alice: Caller) -> None:
    engine.call_sync("echo", {"message": "hi"}, alice, door="code")
    assert eventually(lambda: CallHour.objects.filter(tool_name="echo", calls=1).exists(), 10)


def test_every_call_of_killed_processes_is_counted_once(tmp_path: Path) -> None:
    chance = random.Random(11)
    extra = {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "DATABASE_URL": database_url()}
    environment = Home(tmp_path, extra).environment
    for _ in range(4):
        processes = [
            subprocess.Popen([sys.executable, "-c", WORK], env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            time.sleep(chance.uniform(0.02, 0.2))
            process.kill()
            process.communicate()
    left = PendingCount.objects.count()
    before = CallHour.objects.aggregate(calls=Sum("calls"))["calls"]
    while rows.fold():
        pass
    calls = dict(Call.objects.order_by().values_list("tool_name").annotate(number=Sum("count")))
    assert calls == dict(CallHour.objects.order_by().values_list("tool_name").annotate(number=Sum("calls")))
    assert before == sum(calls.values()) - left > 0
