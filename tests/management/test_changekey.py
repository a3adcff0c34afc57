"""Changing a key from a shell."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from tools_app import governance
from tools_app.models import ApiKey, AuditEntry, BudgetUse
from tools_app.sdk.budgets import Budget

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().strip()


@pytest.fixture
def key() -> ApiKey:
    governance.create_toolset("wiki", actor=governance.trusted("test"))
    return governance.create_key("agent", actor=governance.trusted("test"))[0]


def test_changes_the_parts_that_are_named(key: ApiKey) -> None:
    options = ("--toolset", "wiki", "--access", "read", "--ask", "writes", "--rate", "5/60", "--address", "10.0.0.0/8")
    said = run("changekey", "agent", *options, "--expires", "30d", "--no-connections", "--reason", "spring")
    assert said == "agent: changed toolsets, connections, may write, may destroy, asks, rate, addresses, expires at."
    kept = ApiKey.objects.get()
    assert [toolset.name for toolset in kept.toolsets.all()] == ["wiki"]
    assert (kept.may_write, kept.may_destroy, kept.asks, kept.rate_calls) == (False, False, "writes", 5)
    assert (kept.addresses, kept.connection_names, kept.scopes) == (["10.0.0.0/8"], [], key.scopes)
    assert kept.expires_at is not None
    assert AuditEntry.objects.get(action="key.change").reason == "spring"


def test_takes_limits_away(key: ApiKey) -> None:
    run("changekey", "agent", "--toolset", "wiki", "--rate", "5/60", "--address", "10.0.0.1", "--expires", "30d")
    run("changekey", "agent", "--all-tools", "--default-rate", "--any-address", "--never-expires", "--ask", "none")
    kept = ApiKey.objects.get()
    assert not kept.toolsets.exists()
    assert (kept.rate, kept.addresses, kept.expires_at, kept.asks) == (None, [], None, "")


def test_says_that_nothing_changed(key: ApiKey) -> None:
    assert run("changekey", "agent", "--access", "all") == "agent: changed nothing."
    assert not AuditEntry.objects.filter(action="key.change").exists()


def test_refuses_an_option_with_its_opposite(key: ApiKey) -> None:
    with pytest.raises(CommandError, match="not allowed with"):
        run("changekey", "agent", "--all-tools", "--toolset", "wiki")
    assert not AuditEntry.objects.filter(action="key.change").exists()


def test_a_budget_is_given_shown_and_taken_away(key: ApiKey) -> None:
    assert "changed budget." in run("changekey", "agent", "--budget", "calls/day=100", "--budget", "tokens/month=5000")
    BudgetUse.objects.create(subject=f"key:{key.pk}", day=timezone.localdate(), calls=82, tokens=5)
    assert " 82% " in run("listkeys")
    listed = json.loads(run("listkeys", "--json"))[0]["budget"]
    assert [(one["unit"], one["period"], one["used"], one["percent"]) for one in listed] == [
        ("calls", "day", 82, 82),
        ("tokens", "month", 5, 0),
    ]
    run("changekey", "agent", "--budget", "calls/month=7")
    assert ApiKey.objects.get().budget == Budget(calls_a_month=7)
    run("changekey", "agent", "--no-budget")
    assert ApiKey.objects.get().budget is None
    with pytest.raises(CommandError, match="must be like calls/day=1000"):
        run("changekey", "agent", "--budget", "calls/week=5")


def test_a_key_and_a_toolset_are_made_with_a_budget() -> None:
    run("addkey", "worker", "--budget", "calls/day=5")
    run("toolset", "add", "support", "--budget", "tokens/day=900")
    assert ApiKey.objects.get().budget == Budget(calls_a_day=5)
    assert "tokens/day 0/900 (0%)" in run("toolset", "list")
