"""Standing approvals: calls that an operator has approved in advance, within limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone

from tests.engine.test_approvals import OPERATOR, asked, call
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.engine import standing as engine_standing
from tools_app.governance.standing import constraint, in_state, state_of
from tools_app.models import Approval, AuditEntry, StandingApproval
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    ConflictError,
    NotFoundError,
    RateLimitError,
    ToolError,
    ValidationError,
)
from tools_app.sdk.hub_errors import ApprovalRefusedError, ApprovalRequiredError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("asking")]
OLIVIA = governance.trusted(OPERATOR)


def granted(approval_id: str, **parts: Any) -> StandingApproval:
    values: dict[str, Any] = {"uses": 3, "lasts": timedelta(hours=1), "actor": OLIVIA}
    return governance.grant_standing(approval_id, **values | parts)


def refused(caller: Caller, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(caller, **arguments)
    return caught.value


def test_covers_as_many_calls_as_it_says(asking: Programmable, alice: Caller) -> None:
    standing = granted(asked(alice, value=7), uses=2)
    for _ in range(2):
        call(alice, value=7)
    assert isinstance(refused(alice, value=7), ApprovalRequiredError)
    standing.refresh_from_db()
    assert (standing.used, standing.state_at(timezone.now())) == (2, "used_up")
    used = Approval.objects.filter(standing_id=standing.pk)
    assert {(one.state, one.decided_by) for one in used} == {("used", OPERATOR)}
    assert used.exclude(call_id="").count() == 2
    assert len(asking.calls) == 2


def test_the_pending_call_that_it_was_made_from_is_the_first_use(alice: Caller) -> None:
    pending = asked(alice, value=7)
    granted(pending)
    call(alice, approval=pending, value=7)
    assert Approval.objects.get().state == "used"


@pytest.mark.parametrize(
    ("parts", "covered", "not_covered"),
    [
        ({}, [{"value": 7, "text": "a"}], [{"value": 8, "text": "a"}, {"value": 7, "text": "b"}]),
        ({"free": ["text"]}, [{"value": 7, "text": "b"}, {"value": 7}], [{"value": 8, "text": "a"}]),
        (
            {"limits": {"value": {"minimum": 5, "maximum": 10}}},
            [{"value": 5, "text": "a"}, {"value": 10, "text": "a"}],
            [{"value": 4, "text": "a"}, {"value": 11, "text": "a"}],
        ),
        ({"limits": {"text": {"enum": ["a", "b"]}}}, [{"value": 7, "text": "b"}], [{"value": 7, "text": "c"}]),
    ],
)
def test_arguments_have_to_be_within_its_limits(
    alice: Caller, parts: dict[str, Any], covered: list[dict[str, Any]], not_covered: list[dict[str, Any]]
) -> None:
    granted(asked(alice, value=7, text="a"), uses=10, **parts)
    for arguments in covered:
        call(alice, **arguments)
    for arguments in not_covered:
        assert isinstance(refused(alice, **arguments), ApprovalRequiredError), arguments


def test_arguments_that_the_call_did_not_have_are_not_covered() -> None:
    schema = constraint({"value": 7}, [], {})
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["value"]


def test_holds_for_its_caller_and_tool_only(hub: Hub, asking: Programmable, alice: Caller) -> None:
    other = Programmable("other", hints=asking.tool.hints)
    hub.add(other.tool)
    governance.set_ask("other", True, actor=governance.trusted("test"))
    granted(asked(alice, value=7))
    assert isinstance(refused(replace(alice, id="key:2"), value=7), ApprovalRequiredError)
    with pytest.raises(ApprovalRequiredError):
        call(alice, name="other", value=7)


def test_is_void_when_the_tool_changes(alice: Caller) -> None:
    pending = asked(alice, value=7)
    granted(pending)
    StandingApproval.objects.update(definition_hash="0" * 64)
    assert isinstance(refused(alice, value=7), ApprovalRequiredError)
    Approval.objects.update(definition_hash="0" * 64)
    with pytest.raises(ConflictError, match="has changed since"):
        granted(pending)


def test_is_void_for_another_origin_of_its_source(alice: Caller) -> None:
    granted(asked(alice, value=7))
    StandingApproval.objects.update(identity="wiki:2")
    assert isinstance(refused(alice, value=7), ApprovalRequiredError)


def test_ends_at_its_time(alice: Caller) -> None:
    standing = granted(asked(alice, value=7))
    with time_machine.travel(standing.expires_at + timedelta(seconds=1)):
        assert isinstance(refused(alice, value=7), ApprovalRequiredError)


def test_a_revoked_one_permits_nothing(alice: Caller) -> None:
    standing = granted(asked(alice, value=7))
    call(alice, value=7)
    assert governance.revoke_standing(standing.pk, actor=OLIVIA, reason="done")
    assert not governance.revoke_standing(standing.pk, actor=OLIVIA)
    assert isinstance(refused(alice, value=7), ApprovalRequiredError)
    entry = AuditEntry.objects.get(action="standing.revoke")
    assert (entry.subject, entry.actor, entry.reason) == (f"standing:{standing.pk}", OPERATOR, "done")
    assert entry.changes["state"] == ["active", "revoked"]
    with pytest.raises(NotFoundError):
        governance.revoke_standing("f" * 32, actor=OLIVIA)


def test_a_refusal_of_the_same_call_takes_precedence(alice: Caller) -> None:
    pending = asked(alice, value=7)
    granted(pending, free=["value"])
    governance.refuse_call(pending, actor=OLIVIA, reason="not this one")
    assert isinstance(refused(alice, value=7), ApprovalRefusedError)
    call(alice, value=8)


def test_a_call_that_did_nothing_returns_its_use(asking: Programmable, alice: Caller) -> None:
    standing = granted(asked(alice, value=7), uses=1)
    asking.outcomes.append(RateLimitError("busy", retry_after=1))
    assert isinstance(refused(alice, value=7), RateLimitError)
    standing.refresh_from_db()
    assert standing.used == 0
    call(alice, value=7)


@pytest.mark.django_db(transaction=True)
def test_parallel_calls_get_no_more_uses_than_there_are(alice: Caller) -> None:
    standing = granted(asked(alice, value=7), uses=3)

    def spend(_: int) -> bool:
        try:
            return engine_standing.spend(standing, timezone.now())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 3
    standing.refresh_from_db()
    assert standing.used == 3


def test_without_the_encryption_key_it_covers_nothing(alice: Caller) -> None:
    standing = granted(asked(alice, value=7))
    StandingApproval.objects.update(constraint=b"not a token")
    assert isinstance(refused(alice, value=7), ApprovalRequiredError)
    standing.refresh_from_db()
    assert standing.schema() is None


# ---- granting


def test_the_audit_entry_names_arguments_and_no_values(alice: Caller) -> None:
    standing = granted(asked(alice, value=7, text="confidential"), free=["value"], reason="nightly job")
    entry = AuditEntry.objects.get(action="standing.grant")
    assert (entry.subject, entry.reason) == (f"standing:{standing.pk}", "nightly job")
    assert (entry.changes["same"], entry.changes["free"]) == ([None, ["text"]], [None, ["value"]])
    assert "confidential" not in str(entry.changes)
    assert b"confidential" not in bytes(standing.constraint)


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"uses": 0}, "/uses"),
        ({"uses": 1_001}, "/uses"),
        ({"lasts": timedelta(seconds=59)}, "/seconds"),
        ({"lasts": timedelta(days=91)}, "/seconds"),
        ({"limits": {"value": {}}}, "/limits/value"),
        ({"limits": {"value": {"pattern": "(a+)+"}}}, "/limits/value"),
        ({"limits": {"value": {"enum": []}}}, "/limits/value"),
        ({"limits": {"value": {"enum": [1], "minimum": 1}}}, "/limits/value"),
        ({"limits": {"value": {"minimum": "1"}}}, "/limits/value"),
        ({"limits": {"value": {"minimum": True}}}, "/limits/value"),
        ({"limits": {"value": {"minimum": 9, "maximum": 8}}}, "/limits/value"),
        ({"limits": {"value": {"minimum": 8}}}, "/limits"),
        ({"limits": {"value": {"maximum": 9}}, "free": ["value"]}, "/free"),
        ({"limits": {"text": {"enum": ["x" * 70_000, "a"]}}}, "/limits"),
    ],
)
def test_refuses_limits_that_make_no_sense(alice: Caller, parts: dict[str, Any], path: str) -> None:
    pending = asked(alice, value=7, text="a")
    with pytest.raises(ValidationError) as caught:
        granted(pending, **parts)
    assert [problem.path for problem in caught.value.problems] == [path]
    assert not StandingApproval.objects.exists()


def test_there_are_no_more_than_an_operator_can_review(alice: Caller) -> None:
    pending = asked(alice, value=7)
    for _ in range(engine_standing.MOST_ACTIVE):
        granted(pending)
    with pytest.raises(ConflictError, match="standing approvals"):
        granted(pending)


def test_a_program_grants_none_for_its_own_calls(alice: Caller) -> None:
    manager = Caller(alice.kind, alice.id, alice.name, scopes=frozenset({"tools:execute", "tools:manage"}))
    pending = asked(manager, value=7)
    with pytest.raises(AuthorizationError, match="a key cannot approve its own calls"):
        granted(pending, actor=governance.of_caller(manager))


# ---- the two-person rule


def test_with_the_two_person_rule_people_do_not_approve_their_own_calls(settings: Any) -> None:
    olivia = Caller("user", "user:1", "olivia", scopes=frozenset({"tools:execute"}))
    pending = asked(olivia, value=7)
    settings.TOOLHUB_TWO_PERSON_RULE = True
    for decide in (governance.approve_call, granted):
        with pytest.raises(AuthorizationError, match="two-person rule"):
            decide(pending, actor=OLIVIA)
    governance.approve_call(pending, actor=governance.trusted("user:peter"))
    governance.refuse_call(asked(olivia, value=8), actor=OLIVIA)


@pytest.mark.parametrize("as_key", [True, False])
def test_with_the_two_person_rule_a_key_of_the_same_person_does_not_approve_either(settings: Any, as_key: bool) -> None:
    user = User.objects.create_user("olivia")
    by = governance.trusted("test")
    keys = [governance.create_key(name, actor=by, owner=user)[0] for name in ("agent", "manager")]
    agent, manager = (
        Caller("key", f"key:{key.pk}", key.name, scopes=frozenset({"tools:execute", "tools:manage"})) for key in keys
    )
    caller = agent if as_key else Caller("user", f"user:{user.pk}", "olivia", scopes=agent.scopes)
    pending = asked(caller, value=7)
    settings.TOOLHUB_TWO_PERSON_RULE = True
    for decide in (governance.approve_call, granted):
        with pytest.raises(AuthorizationError, match="two-person rule"):
            decide(pending, actor=governance.of_caller(manager))
    settings.TOOLHUB_TWO_PERSON_RULE = False
    governance.approve_call(pending, actor=governance.of_caller(manager))


def test_a_pending_call_that_did_nothing_is_pending_again(asking: Programmable, alice: Caller) -> None:
    pending = asked(alice, value=7)
    standing = granted(pending, uses=1)
    asking.outcomes.append(RateLimitError("busy", retry_after=1))
    with pytest.raises(RateLimitError):
        call(alice, approval=pending, value=7)
    approval = Approval.objects.get()
    assert (approval.state, approval.standing_id, approval.decided_by) == ("pending", "", "")
    call(alice, approval=pending, value=7)
    standing.refresh_from_db()
    assert standing.used == 1


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), float("-inf")])
def test_refuses_limits_that_are_no_numbers_of_json(alice: Caller, bound: float) -> None:
    pending = asked(alice, value=7)
    with pytest.raises(ValidationError, match="minimum and maximum are numbers"):
        granted(pending, limits={"value": {"minimum": bound}})


@pytest.mark.parametrize("parts", [{"free": ["txt"]}, {"limits": {"txt": {"enum": ["a"]}}}])
def test_refuses_names_of_arguments_that_the_tool_does_not_have(alice: Caller, parts: dict[str, Any]) -> None:
    pending = asked(alice, value=7)
    with pytest.raises(ValidationError, match=r"no argument 'txt': it has .*text"):
        granted(pending, **parts)


def test_those_of_earlier_versions_take_no_room(alice: Caller) -> None:
    pending = asked(alice, value=7)
    for _ in range(engine_standing.MOST_ACTIVE):
        granted(pending)
    StandingApproval.objects.update(definition_hash="0" * 64)
    granted(pending)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "active"),
        ({"definition_hash": "0" * 64}, "void"),
        ({"identity": "wiki:2"}, "void"),
        ({"tool_name": "gone"}, "void"),
        ({"used": 3}, "used_up"),
        ({"expires_at": timezone.now()}, "expired"),
        ({"revoked_at": timezone.now(), "definition_hash": "0" * 64}, "revoked"),
    ],
)
def test_its_state_and_the_condition_for_it_agree(alice: Caller, change: dict[str, Any], state: str) -> None:
    standing = granted(asked(alice, value=7))
    if change:
        StandingApproval.objects.update(**change)
    standing.refresh_from_db()
    now = timezone.now()
    assert state_of(standing, now) == state
    found = {one for one in StandingApproval.State.values if StandingApproval.objects.filter(in_state(one, now))}
    assert found == {state}


def test_a_restored_hub_has_none(alice: Caller) -> None:
    standing = granted(asked(alice, value=7))
    governance.settle_restored(
        "a.backup", timezone.now(), None, keys_as_of_backup=True, actor=governance.trusted("command:root")
    )
    standing.refresh_from_db()
    assert (standing.state_at(timezone.now()), standing.revoked_by) == ("revoked", "command:root")


def test_can_be_read_after_a_rotation_of_the_encryption_key(alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = "first"
    standing = granted(asked(alice, value=7))
    settings.TOOLHUB_ENCRYPTION_KEY = "second,first"
    governance.rotate_secrets(actor=governance.trusted("test"))
    settings.TOOLHUB_ENCRYPTION_KEY = "second"
    standing.refresh_from_db()
    assert standing.covers({"value": 7, "text": ""})
