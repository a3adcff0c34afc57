"""Calls that an operator has to approve: asked for once, decided by a person, made once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine, governance, sources
from tools_app.base import database
from tools_app.engine import Options, Result
from tools_app.engine import approvals as waiting
from tools_app.governance import disclosure
from tools_app.models import Approval, AuditEntry, Call
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    ApiError,
    AuthorizationError,
    ConflictError,
    InvalidArgumentsError,
    RateLimitError,
    ToolError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import (
    ApprovalInvalidError,
    ApprovalRefusedError,
    ApprovalRequiredError,
    OverloadedError,
    StorageBusyError,
)
from tools_app.shelf import storage

OPERATOR = "user:olivia"


def call(caller: Caller, approval: str | None = None, name: str = "asking", **arguments: Any) -> Result:
    return engine.call_sync(name, arguments, caller, door="code", options=Options(approval=approval))


def asked(caller: Caller, **arguments: Any) -> str:
    """What a call that is not approved is told to wait for."""
    with pytest.raises(ApprovalRequiredError) as told:
        call(caller, **arguments)
    return str(told.value.context["approvalId"])


def keep(caller: Caller, value: Any) -> str:
    """The handle of what is kept for a caller."""
    content = json.dumps(value).encode()
    kept = storage.keep(content, is_text=False, caller=caller, tool="asking", call_id="", seconds=60)
    return kept.pk


# ---- asking


def test_kept_answers_that_a_call_names_are_part_of_what_is_approved(asking: Programmable, alice: Caller) -> None:
    handle, others = keep(alice, {"nodes": ["rm -rf /data"]}), keep(replace(alice, id="key:2"), "theirs")
    approval = Approval.objects.get(pk=asked(alice, text=f" {handle}, {others} and {'0' * 32}"))
    shown = disclosure.of_approval(approval)
    assert shown is not None
    assert shown.stored_results == {handle: {"nodes": ["rm -rf /data"]}}
    assert "rm -rf /data" in shown.text
    read_only = waiting.kept_values({"id": handle}, "read_result", alice.id)
    assert read_only == {}, "a call that only reads it needs nobody to read it first"


def test_a_call_that_names_more_than_anybody_reads_cannot_be_asked_for(asking: Programmable, alice: Caller) -> None:
    handle = keep(alice, "x" * waiting.MOST_BYTES)
    with pytest.raises(ValidationError, match="kept answers that the arguments name are too large"):
        call(alice, text=handle)
    assert not Approval.objects.exists()


def test_a_call_that_is_not_approved_asks_and_does_nothing(asking: Programmable, alice: Caller) -> None:
    with pytest.raises(ApprovalRequiredError) as told:
        call(alice, value=4, text="secret text")
    approval = Approval.objects.get()
    assert asking.calls == []
    assert told.value.context["approvalId"] == approval.pk
    assert told.value.next_step.count(approval.pk) == 2
    assert not told.value.retryable
    assert (approval.tool_name, approval.caller_id, approval.state) == ("asking", "key:1", "pending")
    assert approval.expires_at - approval.asked_at == timedelta(minutes=15)
    assert b"secret text" not in bytes(approval.arguments)
    assert approval.call_arguments() == {"value": 4, "text": "secret text"}
    row = Call.objects.get()
    assert (row.status, row.code, row.attempts) == ("refused", "APPROVAL_REQUIRED", 0)


def test_the_same_call_asks_for_the_same(asking: Programmable, alice: Caller) -> None:
    first = asked(alice, value=4)
    assert asked(alice, value=4, text="") == first
    assert asked(alice, value=5) != first
    assert asked(replace(alice, id="key:2"), value=4) != first
    assert Approval.objects.count() == 3


def test_of_many_at_once_one_asks(asking: Programmable, alice: Caller) -> None:
    async def story() -> list[Any]:
        calls = (engine.call("asking", {"value": 4}, alice, door="code") for _ in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    told = asyncio.run(story())
    assert {type(one) for one in told} == {ApprovalRequiredError}
    assert Approval.objects.count() == 1


def test_a_caller_can_leave_only_so_much_waiting(asking: Programmable, alice: Caller) -> None:
    for value in range(waiting.MOST_WAITING):
        asked(alice, value=value)
    with pytest.raises(RateLimitError) as told:
        call(alice, value=-1)
    assert told.value.retry_after is not None
    asked(alice, value=0)
    asked(replace(alice, id="key:2"), value=-1)


def test_others_do_not_keep_a_caller_from_asking(
    asking: Programmable, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_WAITING_IN_ALL", 5)
    for value in range(5):
        asked(alice, value=value)
    with pytest.raises(RateLimitError):
        call(alice, value=-1)
    other = replace(alice, id="key:2")
    for value in range(waiting.MOST_WAITING_WHEN_FULL):
        asked(other, value=value)
    with pytest.raises(RateLimitError):
        call(other, value=-1)


def test_what_nobody_answered_is_kept_up_to_a_number(
    asking: Programmable, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_LAPSED", 3)
    refused = asked(alice, value=100)
    governance.refuse_call(refused, actor=governance.trusted(OPERATOR))
    others = asked(replace(alice, id="key:2"), value=100)
    ids = []
    for number in range(6):
        ids.append(asked(alice, value=number))
        Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert set(Approval.objects.values_list("pk", flat=True)) == {refused, others, *ids[2:]}


def test_what_nobody_would_read_cannot_be_asked_for(asking: Programmable, alice: Caller) -> None:
    with pytest.raises(ValidationError, match="too large for an operator"):
        call(alice, text="x" * waiting.MOST_BYTES)
    assert not Approval.objects.exists()


def test_what_is_wrong_anyway_is_not_asked_for(asking: Programmable, alice: Caller) -> None:
    with pytest.raises(InvalidArgumentsError):
        call(alice, value="four")
    assert not Approval.objects.exists()


def test_a_dry_run_says_that_the_call_would_be_asked_for(asking: Programmable, alice: Caller) -> None:
    def outlook(name: str) -> Any:
        done = engine.call_sync(name, {}, alice, door="code", options=Options(dry_run=True))
        return done.answer.value["approvalRequired"]

    assert outlook("asking") is True
    governance.set_ask("asking", False, actor=governance.trusted("test"))
    assert outlook("asking") is False
    assert not Approval.objects.exists()


@pytest.mark.parametrize(
    ("asks", "hints", "waits"),
    [
        ("writes", Hints(read_only=True), False),
        ("writes", Hints(destructive=False), True),
        ("destroys", Hints(destructive=False), False),
        ("destroys", Hints(), True),
        ("", Hints(), False),
    ],
)
def test_a_key_can_be_made_to_ask(hub: Hub, alice: Caller, asks: str, hints: Hints, waits: bool) -> None:
    hub.add(Programmable("plain", hints=hints).tool)
    caller = replace(alice, asks=asks)
    if waits:
        with pytest.raises(ApprovalRequiredError):
            call(caller, name="plain")
    else:
        call(caller, name="plain")


# ---- what was approved


@pytest.mark.parametrize("with_id", [True, False])
def test_what_was_approved_runs_once(asking: Programmable, alice: Caller, with_id: bool) -> None:
    approval_id = asked(alice, value=4)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR), reason="go ahead")
    done = call(alice, approval_id if with_id else None, value=4)
    approval = Approval.objects.get(pk=approval_id)
    assert (approval.state, approval.call_id) == ("used", done.call_id)
    assert len(asking.calls) == 1
    with pytest.raises(ApprovalInvalidError, match="it has been used"):
        call(alice, approval_id, value=4)
    assert asked(alice, value=4) != approval_id
    assert len(asking.calls) == 1


def test_of_many_at_once_one_runs(asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice, value=4)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))

    async def story() -> list[Any]:
        options = Options(approval=approval_id)
        calls = (engine.call("asking", {"value": 4}, alice, door="code", options=options) for _ in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    told = asyncio.run(story())
    assert len(asking.calls) == 1
    assert [type(one) for one in told].count(Result) == 1
    assert {type(one) for one in told} == {Result, ApprovalInvalidError}


def test_it_is_bound_to_caller_tool_and_arguments(hub: Hub, asking: Programmable, alice: Caller) -> None:
    hub.add(Programmable("other").tool)
    governance.set_ask("other", True, actor=governance.trusted("test"))
    approval_id = asked(alice, value=4)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))

    def told(caller: Caller, given: str, name: str = "asking", **arguments: Any) -> str:
        with pytest.raises(ApprovalInvalidError) as error:
            call(caller, given, name, **arguments)
        return error.value.message

    assert "no" in told(replace(alice, id="key:2"), approval_id, value=4)
    assert told(replace(alice, id="key:2"), approval_id, value=4) == told(alice, "0" * 32, value=4)
    assert "another tool" in told(alice, approval_id, "other", value=4)
    assert "other arguments" in told(alice, approval_id, value=5)
    assert asking.calls == []
    call(alice, approval_id, value=4)


def test_it_is_bound_to_the_tool_as_it_was(hub: Hub, asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice, value=4)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    changed = Programmable("asking", hints=Hints(read_only=False), version="2.0.0")
    sources.current().code.loaded().remove("asking")
    hub.add(changed.tool)
    with pytest.raises(ApprovalInvalidError, match="the tool has changed since"):
        call(alice, approval_id, value=4)
    assert asked(alice, value=4) != approval_id


@pytest.mark.parametrize("given", ["", "x", "A" * 32, "0" * 33, 7, ["0" * 32]])
def test_what_can_be_no_id_is_refused(asking: Programmable, alice: Caller, given: Any) -> None:
    with pytest.raises(ApprovalInvalidError):
        call(alice, given)
    assert not Approval.objects.exists()


def test_a_call_that_did_nothing_does_not_use_it_up(asking: Programmable, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_UPSTREAM_RUNNING, settings.TOOLHUB_UPSTREAM_WAITING = 1, 0
    approval_id = asked(alice)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    governance.approve_call(asked(alice, value=1), actor=governance.trusted(OPERATOR))

    async def story() -> None:
        running, release = asyncio.Event(), asyncio.Event()

        async def hold() -> str:
            running.set()
            await release.wait()
            return "done"

        asking.outcomes = [hold]
        first = asyncio.create_task(engine.call("asking", {"value": 1}, alice, door="code"))
        await running.wait()
        with pytest.raises(OverloadedError):
            await engine.call("asking", {}, alice, door="code", options=Options(approval=approval_id))
        release.set()
        await first
        await engine.call("asking", {}, alice, door="code", options=Options(approval=approval_id))

    async def on_one_loop() -> None:
        engine.adopt_running_loop()
        try:
            await story()
        finally:
            await engine.close(5)

    asyncio.run(engine.close(2))
    asyncio.run(on_one_loop())
    assert Approval.objects.get(pk=approval_id).state == "used"
    assert len(asking.calls) == 2


@pytest.mark.parametrize("impatient", [True, False])
def test_nobody_is_left_with_one_that_was_taken_when_the_caller_had_gone(
    asking: Programmable, alice: Caller, monkeypatch: pytest.MonkeyPatch, impatient: bool
) -> None:
    """The database is slow: the call is cancelled, or gives up, while a thread goes on to take the approval."""
    governance.approve_call(asked(alice), actor=governance.trusted(OPERATOR))
    monkeypatch.setattr(waiting, "PATIENCE", 0.2 if impatient else 5)

    def locked(release: threading.Event, tell: Callable[[], object]) -> None:
        try:
            with transaction.atomic():
                list(Approval.objects.select_for_update())
                tell()
                release.wait(10)
        finally:
            connection.close()

    async def story() -> BaseException | Result:
        loop, held, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        locking = asyncio.create_task(asyncio.to_thread(locked, release, lambda: loop.call_soon_threadsafe(held.set)))
        await held.wait()
        calling = asyncio.create_task(engine.call("asking", {}, alice, door="code"))
        await asyncio.sleep(0.5)
        calling.cancel()
        release.set()
        [ended] = await asyncio.gather(calling, return_exceptions=True)
        await locking
        # When every thread has come here, the one that took it has done so.
        everybody = threading.Barrier(database.THREADS)
        await asyncio.gather(*(database.run(everybody.wait, 10) for _ in range(database.THREADS)))
        return ended

    ended = asyncio.run(story())
    assert isinstance(ended, StorageBusyError if impatient else asyncio.CancelledError)
    assert eventually(lambda: Approval.objects.get().state == "approved")
    monkeypatch.undo()
    call(alice)
    assert len(asking.calls) == 1


@pytest.mark.parametrize("refused", [False, True])
def test_one_that_came_back_counts_although_another_was_asked_for_meanwhile(
    asking: Programmable, alice: Caller, refused: bool
) -> None:
    first = asked(alice)
    governance.approve_call(first, actor=governance.trusted(OPERATOR))
    Approval.objects.filter(pk=first).update(state=Approval.State.USED, call_id="f" * 32)
    second = asked(alice)
    assert second != first
    Approval.objects.filter(pk=first).update(state=Approval.State.APPROVED, call_id="")
    if refused:
        governance.refuse_call(second, actor=governance.trusted(OPERATOR))
        with pytest.raises(ApprovalRefusedError):
            call(alice)
    else:
        call(alice)
        assert Approval.objects.get(pk=first).state == "used"
    assert len(asking.calls) == (0 if refused else 1)


def test_a_call_that_was_told_to_call_again_as_nothing_was_sent_gives_it_back(
    asking: Programmable, alice: Caller
) -> None:
    governance.approve_call(asked(alice), actor=governance.trusted(OPERATOR))
    asking.outcomes = [busy(503), busy(504)]
    with pytest.raises(ApiError) as nothing_sent:
        call(alice)
    assert (nothing_sent.value.retryable, Approval.objects.get().state) == (True, "approved")
    with pytest.raises(ApiError) as perhaps_sent:
        call(alice)
    assert (perhaps_sent.value.outcome_unknown, Approval.objects.get().state) == (True, "used")


def busy(status: int) -> ApiError:
    return ApiError("busy", context={"operation": "write", "statusCode": status})


def test_one_that_failed_has_used_it_up(asking: Programmable, alice: Caller) -> None:
    asking.outcomes = [ValueError("half done")]
    approval_id = asked(alice)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    with pytest.raises(ToolError):
        call(alice, approval_id)
    with pytest.raises(ApprovalInvalidError):
        call(alice, approval_id)
    assert len(asking.calls) == 1


def test_an_idempotency_key_gets_the_answer_of_the_one_run(asking: Programmable, alice: Caller) -> None:
    def keyed(approval: str | None) -> Result:
        options = Options(approval=approval, idempotency_key="order-17")
        return engine.call_sync("asking", {"value": 4}, alice, door="code", options=options)

    with pytest.raises(ApprovalRequiredError) as told:
        keyed(None)
    approval_id = told.value.context["approvalId"]
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    first, second = keyed(approval_id), keyed(approval_id)
    assert (second.call_id, second.answered_by) == (first.call_id, "replay")
    assert len(asking.calls) == 1


# ---- what was refused, or forgotten


def test_what_was_refused_says_why_and_is_not_asked_again(asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice)
    governance.refuse_call(approval_id, actor=governance.trusted(OPERATOR), reason="not on a Friday")
    for given in (approval_id, None):
        with pytest.raises(ApprovalRefusedError) as told:
            call(alice, given)
        assert told.value.context == {"approvalId": approval_id, "reason": "not on a Friday"}
    assert Approval.objects.count() == 1


@pytest.mark.parametrize("state", ["pending", "approved", "refused"])
def test_everything_expires_closed(asking: Programmable, alice: Caller, state: str) -> None:
    approval_id = asked(alice)
    Approval.objects.update(state=state, expires_at=timezone.now())
    with pytest.raises((ApprovalInvalidError, ApprovalRefusedError)):
        call(alice, approval_id)
    assert asked(alice) != approval_id
    assert asking.calls == []


def test_a_decision_gives_the_time_anew(asking: Programmable, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_APPROVAL_SECONDS = 60
    approval_id = asked(alice)
    soon = timezone.now() + timedelta(seconds=2)
    Approval.objects.update(expires_at=soon)
    assert governance.approve_call(approval_id, actor=governance.trusted(OPERATOR)).expires_at > soon + timedelta(
        seconds=50
    )


# ---- deciding


def test_decisions_are_on_record(asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR), reason=" fine ")
    entry = AuditEntry.objects.get(subject=f"approval:{approval_id}")
    assert (entry.action, entry.actor, entry.reason) == ("call.approve", OPERATOR, "fine")
    assert entry.changes == {
        "tool": [None, "asking"],
        "caller": [None, "key:alice"],
        "state": ["pending", "approved"],
    }


def test_a_call_is_decided_once(asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice)
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    for decide in (governance.approve_call, governance.refuse_call):
        with pytest.raises(ConflictError, match="approved"):
            decide(approval_id, actor=governance.trusted(OPERATOR))
    late = asked(alice, value=1)
    Approval.objects.filter(pk=late).update(expires_at=timezone.now())
    with pytest.raises(ConflictError, match="expired"):
        governance.approve_call(late, actor=governance.trusted(OPERATOR))


def test_people_may_approve_their_own_and_programs_may_not(
    asking: Programmable, alice: Caller, django_user_model: Any
) -> None:
    owner = django_user_model.objects.create_user("olivia")
    key, _ = governance.create_key("alice", actor=governance.trusted("test"), owner=owner)
    mine = replace(alice, id=f"key:{key.pk}")
    approval_id = asked(mine)
    with pytest.raises(AuthorizationError, match="its own calls"):
        governance.approve_call(approval_id, actor=governance.trusted("key:alice"))
    governance.approve_call(approval_id, actor=governance.trusted(OPERATOR))
    assert AuditEntry.objects.get(action="call.approve").changes["own"] == [None, True]
    governance.refuse_call(asked(mine, value=1), actor=governance.trusted("key:alice"))


def test_a_token_is_known_by_its_subject_whatever_it_is_called(asking: Programmable, alice: Caller) -> None:
    first, renamed = (
        replace(alice, kind="token", id="token:s1", name=name, scopes=alice.scopes | {"tools:manage"})
        for name in ("agent", "somebody else")
    )
    approval_id = asked(first)
    with pytest.raises(AuthorizationError, match="its own calls"):
        governance.approve_call(approval_id, actor=governance.of_caller(renamed))
    other = replace(renamed, id="token:s2")
    governance.approve_call(approval_id, actor=governance.of_caller(other))


def test_a_reason_has_an_end(asking: Programmable, alice: Caller) -> None:
    approval_id = asked(alice)
    with pytest.raises(ValidationError):
        governance.refuse_call(approval_id, actor=governance.trusted(OPERATOR), reason="x" * 501)
    assert Approval.objects.get().state == "pending"


def test_it_asks_from_the_very_next_call(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    call(alice, name="programmable")
    assert governance.set_ask("programmable", True, actor=governance.trusted("test"))
    assert not governance.set_ask("programmable", True, actor=governance.trusted("test"))
    with pytest.raises(ApprovalRequiredError):
        call(alice, name="programmable")
    assert list(AuditEntry.objects.filter(action="tool.ask").values_list("changes", flat=True)) == [
        {"ask": [False, True]}
    ]
