"""Standing approvals at a shell: the same functions as in the admin and over REST."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

from tests.admin.conftest import current_approval, standing_approval
from tests.management.test_changekey import run
from tests.support.tools import Hub
from tools_app.management.hub_command import REFUSED
from tools_app.models import Approval, AuditEntry, StandingApproval

pytestmark = pytest.mark.django_db


def granted(approval: Approval, *options: str) -> str:
    return run("standing", "grant", approval.pk, "--uses", "3", "--for", "8h", "--yes", *options)


def test_lists_calls_and_grants_one_like_them(hub: Hub) -> None:
    pending = current_approval("calculate", gives={"operation": "add", "a": 2, "b": 3})
    head, line = run("standing", "calls").splitlines()
    assert head.split() == ["ID", "TOOL", "CALLER", "EXPIRES", "ARGUMENTS"]
    assert pending.pk in line
    assert '{"operation": "add", "a": 2, "b": 3}' in line
    assert AuditEntry.objects.filter(action="payload.read", subject=f"approval:{pending.pk}").exists()

    options = ("--any", "b", "--range", "a=1..5", "--one-of", "operation=add", "--one-of", "operation=subtract")
    said = granted(pending, *options, "--reason", "nightly")
    assert "Covers 3 calls of calculate by agent (key)" in said
    assert 'a is from 1 to 5; operation is one of: "add", "subtract"; b is any value.' in said
    standing = StandingApproval.objects.get()
    assert standing.covers({"operation": "subtract", "a": 5, "b": "x"})
    assert not standing.covers({"operation": "subtract", "a": 6, "b": 1})
    entry = AuditEntry.objects.get(action="standing.grant")
    assert entry.actor.startswith("command:")
    assert entry.reason == "nightly"

    head, line = run("standing", "list").splitlines()
    assert head.split() == ["ID", "STATE", "TOOL", "CALLER", "CONNECTION", "USED", "EXPIRES", "BY"]
    assert line.split()[:6] == [standing.pk, "active", "calculate", "key:agent", "-", "0/3"]


def test_what_is_not_named_stays_as_in_the_call(hub: Hub) -> None:
    granted(current_approval("echo"))
    standing = StandingApproval.objects.get()
    assert standing.covers({"message": "hi"})
    assert not standing.covers({"message": "ho"})


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run("standing", *arguments)
    return int(str(ended.value.code)), capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--one-of", "message=ho"), "The call itself is not within these limits"),
        (("--any", "nothing"), "The tool has no argument 'nothing'"),
        (("--any", "message", "--one-of", "message=hi"), "message is both free and limited"),
    ],
)
def test_refuses_what_the_other_doors_refuse(
    hub: Hub, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    pending = current_approval("echo")
    code, error = refused(capsys, "grant", pending.pk, "--uses", "3", "--for", "8h", "--yes", *options)
    assert code == 1
    assert words in error
    assert not StandingApproval.objects.exists()


def test_a_changed_tool_and_an_unknown_call_are_refused(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    pending = current_approval("echo")
    Approval.objects.update(definition_hash="e" * 64)
    assert "has changed" in refused(capsys, "grant", pending.pk, "--uses", "1", "--for", "1h", "--yes")[1]
    assert "There is no approval" in refused(capsys, "grant", "0" * 32, "--uses", "1", "--for", "1h", "--yes")[1]


def test_asks_before_it_grants(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    pending = current_approval("echo")
    code, error = refused(capsys, "grant", pending.pk, "--uses", "1", "--for", "1h")
    assert code == REFUSED
    assert "--yes" in error
    assert not StandingApproval.objects.exists()


def test_revokes(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    granted(current_approval("echo"))
    standing = StandingApproval.objects.get()
    assert run("standing", "revoke", standing.pk, "--reason", "leak").startswith(f"{standing.pk} is revoked.")
    assert run("standing", "revoke", standing.pk) == f"{standing.pk} was not active any more."
    assert run("standing", "list").startswith("No standing approvals.")
    [row] = json.loads(run("standing", "list", "--all", "--json"))
    assert (row["state"], row["covers"]) == ("revoked", ['message is "hi"'])
    assert AuditEntry.objects.get(action="standing.revoke").reason == "leak"
    assert "There is no standing approval" in refused(capsys, "revoke", "nothing")[1]


def test_shows_why_one_covers_nothing(hub: Hub) -> None:
    standing_approval("echo")
    assert run("standing", "list").startswith("No standing approvals.")
    assert "void" in run("standing", "list", "--all")


@pytest.mark.parametrize("text", ["a", "a=", "a=..", "a=x..y", "a=1-5", "=1..5"])
def test_a_range_must_be_one(hub: Hub, text: str) -> None:
    with pytest.raises(CommandError, match="--range"):
        run("standing", "grant", "x", "--uses", "1", "--for", "1h", "--range", text)
