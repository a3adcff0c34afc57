"""An export of a caller has exactly the rows that `forget` changes, and no secret."""

from __future__ import annotations

import io
import json
import stat
import zlib
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import serializers
from django.core.management import call_command

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
from tools_app.access import actions
from tools_app.base import secrets
from tools_app.governance import Actor, callers
from tools_app.journal import rows
from tools_app.models import (
    Alert,
    ApiKey,
    Approval,
    AuditEntry,
    BrowserSession,
    Call,
    CallHour,
    Connection,
    ErrorGroup,
    ErrorLog,
    IdempotencyKey,
    PendingCount,
    StandingApproval,
    StoredAnswer,
    UpstreamToken,
)
from tools_app.sdk.errors import AuthorizationError, ValidationError

pytestmark = pytest.mark.django_db(transaction=True)

TEST = governance.trusted("test")
TABLES = (
    Call,
    ErrorLog,
    ErrorGroup,
    CallHour,
    PendingCount,
    IdempotencyKey,
    StoredAnswer,
    Approval,
    StandingApproval,
    UpstreamToken,
    BrowserSession,
    Alert,
    AuditEntry,
)
MODELS = {
    "calls": Call,
    "errors": ErrorLog,
    "issues": ErrorGroup,
    "hours": CallHour,
    "pending_counts": PendingCount,
    "idempotency_keys": IdempotencyKey,
    "stored_answers": StoredAnswer,
    "approvals": Approval,
    "standing_approvals": StandingApproval,
    "sessions": BrowserSession,
    "alerts": Alert,
    "audit_entries": AuditEntry,
    "sign_ins": UpstreamToken,
}


def encrypted(text: str) -> bytes:
    return secrets.encrypted(zlib.compress(text.encode()))


@pytest.fixture
def key() -> ApiKey:
    """A key with rows in every table, beside those of another caller."""
    key = governance.create_key("alice", actor=TEST)[0]
    acme = Connection.objects.create(name="acme", pack="acme", form="oauth")
    for who, name in ((f"key:{key.pk}", "alice"), ("key:99", "bob")):
        about: dict[str, Any] = {"caller_id": who, "caller_name": name}
        mine = call(**about, status="failed", code="INTERNAL_ERROR", error=f"{name} did it")
        error(call_id=mine.pk, caller_name=name, group=group(last_call_id=mine.pk))
        # Retention has deleted the call of this one.
        error(call_id="f" * 32, caller_name=name, group=group(last_call_id="f" * 32))
        hour(**about, tool_name="echo", calls=3)
        rows.insert_counts([(mine, 1)])
        idempotency_key(caller_id=who, reply=encrypted('{"note": "kept"}'))
        stored_answer(caller_id=who, content=encrypted('{"page": "secret plan", "password": "hunter2"}'))
        approval(**about, arguments=encrypted('{"message": "approved"}'))
        browser_session(caller_id=who, session_key=f"key of {name}")
        alert(**about)
        standing_approval(**about, constraint=encrypted('{"const": "covered"}'))
        UpstreamToken.objects.create(connection=acme, caller=who, sealed=secrets.encrypted(b'{"access": "hunter2"}'))
    return key


def exported(caller: str, actor: Actor = TEST, **options: Any) -> list[dict[str, Any]]:
    text = "".join(callers.export_caller(caller, actor=actor, **options))
    return [json.loads(line) for line in text.splitlines()]


def state() -> dict[tuple[str, str], str]:
    return {
        (model.__name__, str(row.pk)): serializers.serialize("json", [row])
        for model in TABLES
        for row in model._base_manager.all()
    }


def test_an_export_has_exactly_the_rows_that_forget_changes(key: ApiKey) -> None:
    before = state()
    lines = exported("alice")
    head, *own, last = lines
    in_export = {(MODELS[line["kind"]].__name__, str(line[MODELS[line["kind"]]._meta.pk.attname])) for line in own}
    assert len(in_export) == len(own), "no row twice"
    assert last == {"complete": True, "rows": {kind: sum(line["kind"] == kind for line in own) for kind in MODELS}}
    assert all(last["rows"].values()), "the test has rows of every kind"
    assert head["export"]["caller"] == f"key:{key.pk}"
    callers.forget_caller("alice", actor=TEST)
    after = state()
    changed = {row for row, text in before.items() if after.get(row) != text}
    assert in_export == changed


def test_an_export_of_a_forgotten_caller_is_empty(key: ApiKey) -> None:
    callers.forget_caller("alice", actor=TEST)
    head, last = exported("alice")
    assert not any(last["rows"].values())
    assert head["export"]["names"] == ["alice"], "the key itself is still there"


def test_the_head_says_which_tools_a_key_called(key: ApiKey) -> None:
    hour(caller_id=f"key:{key.pk}", caller_name="alice", tool_name="calculate", calls=7)
    head = exported(f"key:{key.pk}")[0]["export"]
    assert [(one["tool_name"], one["calls"]) for one in head["tools"]] == [("calculate", 7), ("echo", 3)]
    assert (head["key"]["name"], head["key"]["prefix"]) == ("alice", key.prefix)
    assert not {"hash", "previous_hash"} & head["key"].keys()


def test_payloads_are_readable_and_secrets_masked(key: ApiKey) -> None:
    text = json.dumps(exported("alice"))
    for words in ("secret plan", "approved", "covered", "kept"):
        assert words in text
    assert "hunter2" not in text
    assert key.hash not in text
    assert "key of alice" not in text, "the key of a session"
    assert "bob" not in text


def test_without_payloads_everything_else_is_exported(key: ApiKey) -> None:
    lines = exported("alice", payloads=False)
    text = json.dumps(lines)
    for words in ("secret plan", "approved", "covered", "kept", '\\"message\\"'):
        assert words not in text
    assert "alice did it" in text
    [one] = [line for line in lines if line.get("kind") == "calls"]
    assert (one["arguments"], one["result"]) == ("(left out)", "(left out)")


def test_arguments_and_answers_need_a_permission_of_their_own(key: ApiKey) -> None:
    ann = User.objects.create_user("ann")
    ann.user_permissions.add(Permission.objects.get(codename="view_apikey"))
    reader = governance.of_user(User.objects.get(pk=ann.pk))
    assert "secret plan" not in json.dumps(exported("alice", reader))
    ann.user_permissions.add(Permission.objects.get(codename="view_payload"))
    reader = governance.of_user(User.objects.get(pk=ann.pk))
    assert "secret plan" in json.dumps(exported("alice", reader))
    assert not actions.CALLER_EXPORT.permits(User.objects.create_user("eve"))
    entries = AuditEntry.objects.filter(action="caller.export").order_by("pk")
    assert [(one.actor, one.subject, one.changes) for one in entries] == [
        ("user:ann", f"key:{key.pk}", {"payloads": False}),
        ("user:ann", f"key:{key.pk}", {"payloads": True}),
    ]


def test_refuses_the_unknown_and_those_without_permission(key: ApiKey) -> None:
    with pytest.raises(ValidationError, match="There is no caller 'carl'"):
        callers.export_caller("carl", actor=TEST)
    with pytest.raises(AuthorizationError):
        callers.export_caller("alice", actor=governance.of_user(User.objects.create_user("eve")))
    assert not AuditEntry.objects.filter(action="caller.export").exists()


def test_many_rows_are_exported_once_each(key: ApiKey) -> None:
    many_calls(450, NOW, caller_id=f"key:{key.pk}", caller_name="alice")
    lines = [line for line in exported("alice") if line.get("kind") == "calls"]
    assert len({line["id"] for line in lines}) == len(lines) == 451


def test_what_is_encrypted_under_a_lost_key_is_named(key: ApiKey) -> None:
    StoredAnswer.objects.update(content=b"gAAAA")
    [one] = [line for line in exported("alice") if line.get("kind") == "stored_answers"]
    assert one["content"].startswith("(cannot be read")


def test_the_command_writes_a_private_file_and_never_over_another(key: ApiKey, tmp_path: Path) -> None:
    file = tmp_path / "alice.jsonl"
    call_command("exportcaller", "alice", "--output", str(file), "--reason", "request 7", stderr=io.StringIO())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text().splitlines()[-1])["complete"] is True
    assert AuditEntry.objects.get(action="caller.export").reason == "request 7"
    errors = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("exportcaller", "alice", "--output", str(file), stderr=errors)
    assert "File exists" in errors.getvalue()
    out = io.StringIO()
    call_command("exportcaller", "alice", "--no-payloads", stdout=out)
    assert "secret plan" not in out.getvalue()
    assert json.loads(out.getvalue().splitlines()[0])["export"]["payloads"] is False
