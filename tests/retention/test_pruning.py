"""Expired rows are deleted, others stay, and no call waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from tests.retention.rows import (
    NOW,
    approval,
    browser_session,
    call,
    day_of_calls,
    definition,
    error,
    group,
    hour,
    idempotency_key,
    many_calls,
    password_link,
    stored_answer,
)
from tests.support.tools import Hub, eventually
from tools_app import engine
from tools_app.journal import pace, retention
from tools_app.journal.pace import BATCH, Pace
from tools_app.journal.retention import pruning
from tools_app.journal.retention.pruning import RULES, expired
from tools_app.models import AuditEntry, Call, Chore, Definition, ErrorGroup, ErrorLog, ToolRecord
from tools_app.models.calls import LONGEST
from tools_app.sdk.context import Caller

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


def bare_call(at: datetime) -> Call:
    return call(at, arguments="", result="")


def audit_entry(at: datetime) -> AuditEntry:
    return AuditEntry.objects.create(at=at, actor="user:alice", action="tool.disable", subject="echo")


LIMITS = pytest.mark.parametrize(
    ("kind", "make", "age"),
    [
        ("calls", bare_call, 90 * DAY),
        ("errors", error, 90 * DAY),
        ("error groups", group, 90 * DAY),
        ("hours of calls", hour, 730 * DAY),
        ("hours of calls", day_of_calls, 730 * DAY),
        ("audit entries", audit_entry, 400 * DAY),
        ("idempotency keys", idempotency_key, DAY),
        ("stored answers", stored_answer, timedelta()),
        ("approvals", approval, 14 * DAY),
        ("password links", password_link, timedelta()),
        ("sessions", browser_session, DAY / 2),
        ("definitions", definition, 90 * DAY),
    ],
)


@LIMITS
def test_deletes_what_is_older_than_its_limit(kind: str, make: Callable[[datetime], Any], age: timedelta) -> None:
    kept = make(NOW - age)
    make(NOW - age - MOMENT)
    expected = {rule.kind: 0 for rule in RULES} | {kind: 1}
    assert retention.prunable(NOW).counts == expected
    pruned = retention.prune(NOW)
    assert (pruned.counts, pruned.finished) == (expected, True)
    assert str(pruned) == f"1 {kind}"
    assert list(type(kept)._base_manager.values_list("pk", flat=True)) == [kept.pk]
    assert str(retention.prune(NOW)) == "nothing"


@pytest.mark.parametrize(
    ("name", "kind", "make"),
    [
        ("TOOLHUB_KEEP_CALLS_DAYS", "calls", call),
        ("TOOLHUB_KEEP_CALLS_DAYS", "errors", error),
        ("TOOLHUB_KEEP_CALLS_DAYS", "error groups", group),
        ("TOOLHUB_KEEP_CALLS_DAYS", "definitions", definition),
        ("TOOLHUB_KEEP_FIGURES_DAYS", "hours of calls", hour),
        ("TOOLHUB_KEEP_FIGURES_DAYS", "hours of calls", day_of_calls),
        ("TOOLHUB_KEEP_AUDIT_DAYS", "audit entries", audit_entry),
        ("TOOLHUB_KEEP_PAYLOADS_DAYS", "payloads", call),
    ],
)
def test_the_settings_decide(settings: Any, name: str, kind: str, make: Callable[[datetime], Any]) -> None:
    make(NOW - 3 * DAY)
    setattr(settings, name, 3)
    assert retention.prune(NOW).counts[kind] == 0
    setattr(settings, name, 2)
    assert retention.prune(NOW).counts[kind] == 1


def test_a_definition_stays_while_it_is_needed() -> None:
    old = NOW - 91 * DAY
    unneeded, pinned, offered, called, asked = (definition(old) for _ in range(5))
    refused = definition(old, approved_at=None, refused_at=old)
    approved_late = definition(old, approved_at=NOW - DAY)
    new = definition(NOW - DAY, approved_at=None)
    ToolRecord.objects.filter(pk=pinned.tool_id).update(definition=pinned)
    ToolRecord.objects.filter(pk=offered.tool_id).update(offered=offered)
    # Under another name: hashes alone are compared.
    last_call = bare_call(NOW - 89 * DAY)
    Call.objects.filter(pk=last_call.pk).update(definition_hash=called.hash)
    approval(NOW, definition_hash=asked.hash)
    assert str(retention.prunable(NOW)) == str(retention.prune(NOW)) == "1 definitions"
    needed = {pinned, offered, called, asked, refused, approved_late, new}
    assert set(Definition.objects.all()) == needed
    assert ToolRecord.objects.filter(pk=unneeded.tool_id).exists()
    # With the call that names it, a definition goes in the same run.
    assert str(retention.prune(NOW + 2 * DAY)) == "1 calls, 1 definitions"
    assert set(Definition.objects.all()) == needed - {called}


def test_takes_arguments_and_answers_out_of_calls_and_leaves_the_rest() -> None:
    kept = call(NOW - 14 * DAY)
    emptied = call(NOW - 14 * DAY - MOMENT)
    call(NOW - 15 * DAY, arguments="", result="")
    assert retention.prunable(NOW).counts["payloads"] == 1
    assert str(retention.prune(NOW)) == "1 payloads"
    kept.refresh_from_db()
    emptied.refresh_from_db()
    assert (kept.arguments, kept.result) == ('{"message": "hi"}', '{"message": "hi"}')
    assert (emptied.arguments, emptied.result, emptied.result_bytes) == ("", "", 17)
    assert emptied.result_hash == "a" * 64


def test_resumes_where_arguments_were_cleared_last() -> None:
    call(NOW - 15 * DAY)
    retention.prune(NOW)
    assert Chore.objects.get(name="payloads").done_at == NOW - 14 * DAY
    call(NOW - 14 * DAY)
    assert retention.prune(NOW).counts["payloads"] == 0
    assert retention.prune(NOW + MOMENT).counts["payloads"] == 1
    retention.prune(NOW - DAY)
    assert Chore.objects.get(name="payloads").done_at == NOW - 14 * DAY + MOMENT


def test_another_process_that_is_faster_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        call(NOW - 15 * DAY)
    monkeypatch.setattr(pruning, "BATCH", 2)
    update = QuerySet.update
    batches: list[int] = []

    def update_late(rows: QuerySet[Any], **values: Any) -> int:
        if not batches and rows.model is Call:
            update(Call.objects.filter(pk__in=list(rows.values_list("pk", flat=True))), **values)
        batches.append(update(rows, **values))
        return batches[-1]

    monkeypatch.setattr(QuerySet, "update", update_late)
    assert retention.prune(NOW).counts["payloads"] == 3
    assert batches[0] == 0
    assert not Call.objects.exclude(arguments="").exists()
    assert Chore.objects.get(name="payloads").done_at == NOW - 14 * DAY


def test_keeps_the_newest_of_too_many(settings: Any) -> None:
    settings.TOOLHUB_KEEP_CALLS = 3
    calls = [call(NOW - number * DAY) for number in range(5)]
    errors = [error(NOW - number * DAY, call_id=calls[number].pk) for number in range(5)]
    assert str(retention.prunable(NOW)) == str(retention.prune(NOW)) == "2 calls, 2 errors"
    assert set(Call.objects.values_list("pk", flat=True)) == {one.pk for one in calls[:3]}
    assert set(ErrorLog.objects.values_list("pk", flat=True)) == {one.pk for one in errors[:3]}


def test_a_call_under_way_is_kept_even_when_there_are_too_many(settings: Any) -> None:
    settings.TOOLHUB_KEEP_CALLS = 1
    call(NOW)
    under_way = call(NOW - LONGEST, status=Call.Status.STARTED)
    abandoned = call(NOW - LONGEST - MOMENT, status=Call.Status.STARTED)
    finished = call(NOW - timedelta(seconds=1))
    assert retention.prune(NOW).counts["calls"] == 2
    left = set(Call.objects.values_list("pk", flat=True))
    assert under_way.pk in left
    assert not left & {abandoned.pk, finished.pk}


def test_a_group_is_deleted_with_its_last_error_unless_it_is_needed(settings: Any) -> None:
    settings.TOOLHUB_KEEP_CALLS = 2
    empty_but_open = group(NOW - 89 * DAY)
    resolved_with_an_error = group(NOW - DAY, resolved_at=NOW)
    error(NOW - DAY, group=resolved_with_an_error)
    silent_with_an_error = group(NOW - 91 * DAY)
    error(NOW - 90 * DAY, group=silent_with_an_error)
    resolved = group(NOW - DAY, resolved_at=NOW)
    error(NOW - 2 * DAY - 89 * DAY, group=resolved)
    assert str(retention.prunable(NOW)) == str(retention.prune(NOW)) == "1 errors, 1 error groups"
    assert set(ErrorGroup.objects.all()) == {empty_but_open, resolved_with_an_error, silent_with_an_error}


def test_works_in_small_transactions() -> None:
    many_calls(3 * BATCH, NOW - 91 * DAY)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert retention.prune(NOW).counts["calls"] == 3 * BATCH
    deletions = [query["sql"] for query in queries if query["sql"].startswith('DELETE FROM "tools_app_call"')]
    assert len(deletions) >= 3
    assert max(sql.count("'many ") for sql in deletions) <= BATCH


def test_ends_when_its_time_is_over_and_resumes_in_the_next_run() -> None:
    many_calls(2 * BATCH, NOW - 91 * DAY)
    pruned = retention.prune(NOW, Pace(seconds=0))
    assert (str(pruned), pruned.finished) == ("nothing", False)
    some = retention.prune(NOW, Pace(seconds=0.05))
    assert not some.finished
    assert some.counts["calls"] + Call.objects.count() == 2 * BATCH
    rest = retention.prune(NOW)
    assert rest.finished
    assert some.counts["calls"] + rest.counts["calls"] == 2 * BATCH


def test_finds_rows_by_their_indexes() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads small tables from end to end, whatever their indexes")
    for rule, rows in expired(NOW).items():
        if rule.kind not in (
            "definitions",
            "error groups",
            "notes on errors",
            "ended maintenance",
            "password links",
        ):  # They are few.
            plan = rows.values_list("pk")[:10].explain()
            assert "USING" in plan, (rule, plan)
            assert "SCAN" not in plan, (rule, plan)
            assert "TEMP B-TREE" not in plan, (rule, plan)


def test_calls_are_journaled_while_many_are_deleted(hub: Hub) -> None:
    caller = Caller("local", "local:x", "x", frozenset({"tools:execute"}))
    many_calls(50_000, NOW - 91 * DAY)
    outcome: list[retention.Pruned] = []

    def run() -> None:
        try:
            outcome.append(retention.prune(NOW))
        finally:
            connection.close()

    pruning = threading.Thread(target=run)
    pruning.start()
    took = []
    try:
        while pruning.is_alive():
            begun = time.monotonic()
            engine.call_sync("echo", {"message": "x"}, caller, door="code")
            took.append(time.monotonic() - begun)
    finally:
        pruning.join()
    assert outcome[0].counts["calls"] == 50_000
    # Deleting it all at once would hold up one of them for seconds; and it would be the only one.
    assert len(took) >= 50
    assert max(took) < 4
    assert eventually(lambda: Call.objects.count() == len(took))


@pytest.mark.parametrize("way", ["prune", "forget"])
def test_long_arguments_are_emptied_in_small_batches(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of SQLite reads each text again to delete it, and calls wait meanwhile."""
    monkeypatch.setattr(pace, "MOST_TEXT", 250)
    for number in range(5):
        call(NOW - 20 * DAY + number * DAY / 24, arguments="x" * (300 if number == 2 else 100))
    with CaptureQueriesContext(connection) as captured:
        if way == "prune":
            assert retention.prune(NOW).counts["payloads"] == 5
        else:
            assert retention.forget("key:1", actor="test").calls == 5
    assert not Call.objects.exclude(arguments="").exists()
    changes = [one["sql"] for one in captured if one["sql"].startswith('UPDATE "tools_app_call" SET')]
    ids = sorted(Call.objects.values_list("pk", flat=True))
    assert [sum(pk in sql for pk in ids) for sql in changes if any(pk in sql for pk in ids)] == [2, 1, 2]
