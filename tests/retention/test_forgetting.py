"""A caller can be taken out of the records: nothing personal is left, and every number."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import serializers
from django.db import DatabaseError, connection
from django.db.models import Sum
from django.utils import timezone

from tests.retention.rows import (
    NOW,
    alert,
    approval,
    browser_session,
    call,
    error,
    group,
    hour,
    idempotency_key,
    many_calls,
    standing_approval,
    stored_answer,
)
from tools_app import governance
from tools_app.journal import retention, rows, trail
from tools_app.journal.pace import BATCH
from tools_app.journal.retention import Forgotten
from tools_app.models import (
    ApiKey,
    Approval,
    AuditEntry,
    AuditSeal,
    BrowserSession,
    Call,
    CallHour,
    ErrorGroup,
    ErrorLog,
    IdempotencyKey,
    PendingCount,
    StandingApproval,
    StoredAnswer,
)
from tools_app.models.calls import LONGEST
from tools_app.sdk.errors import ValidationError

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def key() -> ApiKey:
    return governance.create_key("alice", actor=governance.trusted("test"))[0]


def journal() -> str:
    """Everything that is recorded of calls."""
    tables = (
        Call,
        ErrorLog,
        ErrorGroup,
        CallHour,
        PendingCount,
        IdempotencyKey,
        StoredAnswer,
        Approval,
        StandingApproval,
        BrowserSession,
    )
    return str(serializers.serialize("json", [row for table in tables for row in table._base_manager.all()]))


def test_nothing_personal_is_left_and_every_number(key: ApiKey) -> None:
    who = f"key:{key.pk}"
    mine = call(caller_id=who, status="failed", code="INTERNAL_ERROR", error="alice did it", arguments='{"a": "alice"}')
    refused: dict[str, Any] = {"status": "refused", "address": "203.0.113.7", "client": "cli/1", "key_prefix": "al1c"}
    call(caller_id=who, code="AUTHENTICATION_ERROR", **refused)
    kind = group(last_call_id=mine.pk)
    error(call_id=mine.pk, group=kind)
    hour(caller_id=who, calls=3, total_ms=30, within_10=3)
    rows.insert_counts([(mine, 1)])
    idempotency_key(caller_id=who)
    stored_answer(caller_id=who)
    approval(caller_id=who)
    standing_approval(caller_id=who)
    browser_session(caller_id=who, address="203.0.113.7")
    alert(caller_id=who)
    other = call(caller_id="key:99", caller_name="bob", error="bob's")
    error(call_id=other.pk, caller_name="bob", message="bob's", detail="bob's")
    hour(caller_id="key:99", caller_name="bob", calls=5)
    before = journal()
    assert retention.remembered(who) == Forgotten(
        calls=2,
        errors=1,
        hours=1,
        idempotency_keys=1,
        stored_answers=1,
        approvals=1,
        audit_entries=1,
        standing_approvals=1,
        sessions=1,
        alerts=1,
    )

    assert retention.forget(who, actor="user:root", reason="asked to") == Forgotten(2, 1, 1, 1, 1, 1, 1, 1, 1, 1)

    after = journal()
    assert "alice" in before
    assert not [word for word in ("alice", "203.0.113.7", "al1c") if word in after]
    assert who not in after
    mine.refresh_from_db()
    assert (mine.caller_id, mine.caller_name) == ("forgotten", "forgotten")
    assert (mine.arguments, mine.result, mine.error) == ("", "", "")
    assert (mine.status, mine.code, mine.result_bytes, mine.caller_kind) == ("failed", "INTERNAL_ERROR", 17, "key")
    assert rows.fold() == 1
    assert who not in journal()
    nobody = CallHour.objects.get(caller_id="forgotten", status="succeeded")
    assert CallHour.objects.get(caller_id="forgotten", status="failed").calls == 1
    assert (nobody.calls, nobody.total_ms, nobody.within_10, nobody.caller_name) == (3, 30, 3, "forgotten")
    assert after.count("bob's") == before.count("bob's") == 3
    assert CallHour.objects.get(caller_id="key:99").calls == 5
    assert retention.remembered(who) == Forgotten(*[0] * 10)


def test_leaves_one_entry_that_names_people_only_by_id(key: ApiKey) -> None:
    AuditEntry.objects.all().delete()
    call(caller_id=f"key:{key.pk}")
    hour(caller_id=f"key:{key.pk}")
    retention.forget("alice", actor="command:root", reason="asked to")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.actor) == ("caller.forget", f"key:{key.pk}", "command:root")
    assert entry.reason == "asked to"
    assert entry.changes == {
        "calls": 1,
        "errors": 0,
        "hours": 1,
        "idempotency_keys": 0,
        "stored_answers": 0,
        "approvals": 0,
        "audit_entries": 0,
        "standing_approvals": 0,
        "sign_ins": 0,
        "sessions": 0,
        "alerts": 0,
    }


def entry(**values: Any) -> AuditEntry:
    about = {"actor": "user:root", "action": "tool.disable", "subject": "echo", "reason": "why", "address": "192.0.2.1"}
    return AuditEntry.objects.create(**about | values, changes={"enabled": [True, False]}, client="browser")


def test_audit_entries_lose_what_is_personal_and_still_prove_themselves(key: ApiKey) -> None:
    by, about, of_hub, other = (
        entry(actor="key:alice"),
        entry(subject="key:alice"),
        entry(actor="hub", subject="key:alice"),
        entry(),
    )
    trail.seal()

    retention.forget(f"key:{key.pk}", actor="command:root")

    [forgotten] = AuditEntry.objects.filter(action="caller.forget")
    rows = {row.pk: row for row in AuditEntry.objects.all()}
    assert [
        (row.actor, row.subject, row.reason, row.address, row.client, row.changes)
        for row in (rows[one.pk] for one in (by, about, of_hub, other))
    ] == [
        ("key:forgotten", "echo", "", "", "", {"enabled": [True, False]}),
        ("user:root", "key:forgotten", "", "192.0.2.1", "browser", {}),
        ("hub", "key:forgotten", "", "", "", {}),
        ("user:root", "echo", "why", "192.0.2.1", "browser", {"enabled": [True, False]}),
    ]
    seal = AuditSeal.objects.get(pk=by.pk)
    assert (seal.changed_by, seal.changed_at is not None) == (forgotten.pk, True)
    assert AuditSeal.objects.get(pk=other.pk).changed_by is None
    report = trail.verify()
    assert (report.faults, report.redacted) == (0, 4), "with the creation of the key"


def test_a_change_of_a_redacted_entry_is_found(key: ApiKey) -> None:
    by = entry(actor="key:alice")
    retention.forget(f"key:{key.pk}", actor="command:root")
    AuditEntry.objects.filter(pk=by.pk).update(subject="read_page")
    assert str(trail.verify().first) == f"entry {by.pk} was changed"


def test_redacted_entries_can_be_redacted_again_and_pruned(key: ApiKey) -> None:
    user = get_user_model()._default_manager.create_user("bert")
    both = entry(actor="user:bert", subject="key:alice")
    AuditEntry.objects.update(at=timezone.now() - timedelta(days=401))
    retention.forget(f"key:{key.pk}", actor="command:root")
    retention.forget(f"user:{user.pk}", actor="command:root")
    both.refresh_from_db()
    assert (both.actor, both.subject) == ("user:forgotten", "key:forgotten")
    assert trail.verify().faults == 0
    assert retention.prune(timezone.now()).counts["audit entries"] == 2
    report = trail.verify()
    assert (report.faults, report.deleted) == (0, 2)


def test_hours_that_fall_together_are_added_up(key: ApiKey) -> None:
    who = f"key:{key.pk}"
    figures: dict[str, Any] = {"from_cache": 1, "total_ms": 10, "result_bytes": 7, "within_50": 2, "slower": 3}
    hour(caller_id="forgotten", caller_name="forgotten", calls=2, **figures)
    hour(caller_id=who, calls=3, **figures)
    hour(caller_id=who, status="failed", code="TIMEOUT", calls=4)
    hour(NOW - timedelta(hours=1), caller_id=who, calls=5)
    retention.forget(who, actor="test")
    rows = CallHour.objects.order_by("calls")
    assert [(row.caller_id, row.calls) for row in rows] == [("forgotten", 4), ("forgotten", 5), ("forgotten", 5)]
    added = CallHour.objects.get(hour=NOW, status="succeeded")
    assert {name: getattr(added, name) for name in figures} == {name: 2 * n for name, n in figures.items()}


def test_is_found_by_id_or_by_the_exact_name_of_a_key_or_user(key: ApiKey) -> None:
    user = get_user_model()._default_manager.create_user("bert")
    call(caller_id="local:carl", caller_name="carl")
    hour(caller_id="key:77", caller_name="long gone")
    for given, found in {
        f"key:{key.pk}": f"key:{key.pk}",
        "alice": f"key:{key.pk}",
        f"user:{user.pk}": f"user:{user.pk}",
        "bert": f"user:{user.pk}",
        "local:carl": "local:carl",
        "key:77": "key:77",
    }.items():
        assert retention.identified(given) == found


@pytest.mark.parametrize(
    "unknown",
    ["carl", "Alice", "alic", "", "key:99", "key:", "key:²", f"key:{10**30}", "user:99", "local:x", "forgotten"],
)
def test_refuses_an_unknown_caller(key: ApiKey, unknown: str) -> None:
    call(caller_id="local:carl", caller_name="carl")
    call(caller_id="forgotten", caller_name="forgotten")
    before = journal()
    with pytest.raises(ValidationError, match="There is no caller") as caught:
        retention.forget(unknown, actor="test")
    assert "id as a call shows it" in caught.value.next_step
    assert journal() == before


def test_refuses_a_name_that_two_bear(key: ApiKey) -> None:
    user = get_user_model()._default_manager.create_user("alice")
    call(caller_id=f"key:{key.pk}")
    with pytest.raises(ValidationError, match=f"'alice' is key:{key.pk} and user:{user.pk}"):
        retention.forget("alice", actor="test")
    assert Call.objects.get().caller_name == "alice"
    assert not AuditEntry.objects.filter(action="caller.forget").exists()


def test_an_id_goes_before_a_name(key: ApiKey) -> None:
    governance.create_key(f"key:{key.pk}", actor=governance.trusted("test"))
    assert retention.identified(f"key:{key.pk}") == f"key:{key.pk}"


def test_refuses_while_a_call_of_the_caller_is_under_way(key: ApiKey) -> None:
    running = call(timezone.now(), caller_id=f"key:{key.pk}", status=Call.Status.STARTED)
    with pytest.raises(ValidationError, match="has 1 calls under way"):
        retention.forget("alice", actor="test")
    assert "alice" in journal()
    assert not AuditEntry.objects.filter(action="caller.forget").exists()
    Call.objects.filter(pk=running.pk).update(started_at=timezone.now() - LONGEST - timedelta(seconds=1))
    assert retention.forget("alice", actor="test").calls == 1


def test_errors_whose_call_is_gone_are_known_by_name(key: ApiKey) -> None:
    hour(caller_id=f"key:{key.pk}", caller_name="alice as she was")
    error(call_id="d" * 32)
    error(caller_name="alice as she was")
    others = call(caller_id="local:alice")
    kept = error(call_id=others.pk)
    assert retention.remembered(f"key:{key.pk}").errors == 2
    assert retention.forget("alice", actor="test").errors == 2
    assert list(ErrorLog.objects.exclude(caller_name="forgotten")) == [kept]
    assert ErrorLog.objects.filter(message="", detail="").count() == 2


def test_a_group_keeps_text_of_other_callers(key: ApiKey) -> None:
    mine = call(caller_id=f"key:{key.pk}")
    theirs = call(caller_id="key:99", caller_name="bob")
    kind = group(last_call_id=theirs.pk, message="bob's")
    error(call_id=mine.pk, group=kind)
    retention.forget("alice", actor="test")
    assert ErrorGroup.objects.get().message == "bob's"


def test_forgets_many() -> None:
    many_calls(2 * BATCH + 1, NOW, caller_id="local:carl", caller_name="carl")
    for number in range(BATCH + 1):
        hour(NOW - timedelta(hours=number), caller_id="local:carl", caller_name="carl")
    for number in range(BATCH + 1):
        error(call_id=f"many {number}", caller_name="carl")
    assert retention.forget("local:carl", actor="test") == Forgotten(2 * BATCH + 1, BATCH + 1, BATCH + 1, *[0] * 7)
    assert "carl" not in journal()
    assert CallHour.objects.aggregate(calls=Sum("calls")) == {"calls": BATCH + 1}


@pytest.mark.parametrize("table", ["tools_app_call", "tools_app_errorlog", "tools_app_callhour"])
def test_is_repeated_when_it_was_cut_off(key: ApiKey, table: str) -> None:
    who = f"key:{key.pk}"
    mine = call(caller_id=who)
    error(call_id=mine.pk, group=group(last_call_id=mine.pk))
    error(call_id="d" * 32)
    hour(caller_id=who, calls=2)
    hour(caller_id="forgotten", caller_name="forgotten", calls=1)

    def cut_off(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(("UPDATE", "DELETE")) and sql.split('"')[1] == table:
            raise DatabaseError("cut off")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut_off), pytest.raises(DatabaseError, match="cut off"):
        retention.forget(who, actor="test")
    assert AuditEntry.objects.filter(action="caller.forget").count() == 1
    assert sum(CallHour.objects.values_list("calls", flat=True)) == 3
    retention.forget(who, actor="test")
    assert "alice" not in journal()
    assert [row["fields"]["calls"] for row in json.loads(journal()) if row["model"] == "tools_app.callhour"] == [3]


def test_ends_while_the_caller_keeps_calling() -> None:
    def calls_again(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        done = execute(sql, params, many, context)
        if sql.startswith(('UPDATE "tools_app_call" ', 'DELETE FROM "tools_app_callhour" ')):
            now = timezone.now()
            call(now, caller_id="local:carl")
            hour(now, caller_id="local:carl")
            idempotency_key(now, caller_id="local:carl")
        return done

    call(caller_id="local:carl")
    hour(caller_id="local:carl")
    with connection.execute_wrapper(calls_again):
        assert retention.forget("local:carl", actor="test") == Forgotten(1, 0, 1, *[0] * 7)
    assert CallHour.objects.filter(caller_id="forgotten").count() == 1


def test_the_cause_of_an_error_is_forgotten_with_its_message(key: ApiKey) -> None:
    mine = call(caller_id=f"key:{key.pk}")
    kind = group(last_call_id=mine.pk, message="mine", cause="KeyError: 'my place'")
    error(call_id=mine.pk, group=kind, cause="KeyError: 'my place'")
    retention.forget("alice", actor="test")
    assert (ErrorGroup.objects.get().message, ErrorGroup.objects.get().cause) == ("", "")
    assert ErrorLog.objects.get().cause == ""
