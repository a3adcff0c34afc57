"""Budgets of keys and toolsets: what counts, when a call is refused, and that all processes agree."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.utils import timezone

from tests.support.processes import Home
from tests.support.tools import Hub, Programmable, database_url
from tools_app import engine, governance
from tools_app.engine import Options
from tools_app.journal import budgets
from tools_app.journal.retention import pruning
from tools_app.models import BudgetUse, Call, ErrorGroup
from tools_app.sdk.budgets import Budget, Limit, Used, resets_at
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError, ValidationError
from tools_app.sdk.hub_errors import BudgetSpentError
from tools_app.sdk.reach import Reach

pytestmark = pytest.mark.django_db(transaction=True)

OPERATOR = governance.trusted("test")

WORK = """
import sys
import django
django.setup()
from django.db import transaction
from django.utils import timezone
from tools_app.journal import rows
from tools_app.models import Call
now = timezone.now()
calls = [Call(status="succeeded", result_bytes=300, finished_at=now) for _ in range(3)]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    with transaction.atomic():
        # In both orders: they must not wait for each other.
        rows.spend([(calls[0], ("key:1", "toolset:b")), (calls[1], ("toolset:b", "toolset:a")), (calls[2], ("key:1",))])
"""


def call(caller: Caller, name: str = "programmable", **arguments: Any) -> Any:
    return engine.call_sync(name, arguments, caller, door="code")


def refusal(caller: Caller, name: str = "programmable", **arguments: Any) -> BudgetSpentError:
    with pytest.raises(BudgetSpentError) as caught:
        call(caller, name, **arguments)
    return caught.value


def used(subject: str) -> Used:
    return budgets.used([subject], timezone.now()).get(subject, Used())


def with_budget(caller: Caller, **limits: int) -> Caller:
    return replace(caller, budget=Budget(**limits))


@pytest.fixture
def anyone(programmable: Programmable, alice: Caller) -> Iterator[Caller]:
    """At noon, so that no test runs over the end of a day or month."""
    with time_machine.travel(datetime(2026, 5, 4, 12, tzinfo=UTC)):
        yield alice


def test_a_spent_budget_refuses_until_its_reset_and_refusals_cost_nothing(anyone: Caller) -> None:
    caller = with_budget(anyone, calls_a_day=2, calls_a_month=500)
    for _ in range(2):
        call(caller)
    for _ in range(3):
        error = refusal(caller)
    assert (error.code, error.status, error.retryable, error.nothing_done) == ("BUDGET_SPENT", 429, True, True)
    assert error.message == "The budget of your key is spent: 2 calls a day"
    assert error.context["resetsAt"] in error.next_step
    assert (error.context["limit"], error.context["used"]) == (2, 2)
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert error.retry_after == pytest.approx((midnight - timezone.now()).total_seconds(), abs=2)
    assert used(caller.id) == Used(2, tokens := used(caller.id).tokens_a_day, 2, tokens)
    # No failure, and no issue.
    assert set(Call.objects.filter(code="BUDGET_SPENT").values_list("status", flat=True)) <= {"refused"}
    assert not ErrorGroup.objects.exists()


def test_a_replay_is_never_refused(anyone: Caller, programmable: Programmable) -> None:
    """Its caller would repeat the call when there is a budget again, and by then the key would have expired."""
    caller = with_budget(anyone, calls_a_day=1)
    first, again = (
        engine.call_sync("programmable", {}, caller, door="code", options=Options(idempotency_key="order-4711"))
        for _ in range(2)
    )
    assert (again.call_id, again.answered_by, len(programmable.calls)) == (first.call_id, Call.Origin.REPLAY, 1)
    assert used(caller.id).calls_a_day == 2
    refusal(caller)


def test_tokens_are_those_of_the_answers_as_the_journal_has_them(anyone: Caller, programmable: Programmable) -> None:
    caller = with_budget(anyone, tokens_a_month=1_000)
    programmable.outcomes = ["x" * 2_400, "y" * 900]
    call(caller)
    assert used(caller.id).tokens_a_month in range(800, 805)
    call(caller)
    error = refusal(caller)
    assert (error.context["unit"], error.context["period"]) == ("tokens", "month")
    assert error.context["resetsAt"].startswith("2026-05-31T") or error.context["resetsAt"].startswith("2026-06-01T")


def test_cached_answers_and_failures_count_and_mistakes_of_callers_do_not(
    anyone: Caller, programmable: Programmable, hub: Hub
) -> None:
    caller = with_budget(anyone, calls_a_day=100)
    governance.set_policy("programmable", {"cache_seconds": 60}, actor=OPERATOR)
    call(caller, value=1)
    assert call(caller, value=1).answered_by == Call.Origin.CACHE
    governance.set_policy("programmable", {"cache_seconds": None}, actor=OPERATOR)
    assert used(caller.id).calls_a_day == 2
    programmable.outcomes = [RuntimeError("a bug"), ValidationError("no such thing")]
    for _ in range(2):
        with pytest.raises(ToolError):
            call(caller)
    with pytest.raises(ToolError):
        call(caller, value="no number")
    assert used(caller.id).calls_a_day == 3


@pytest.fixture
def finders(settings: Any) -> None:
    settings.TOOLHUB_PACKS = ("tests.support.packs.small", "tools_app.packs.finding")


def test_each_of_several_calls_counts_and_the_call_that_makes_them_does_not(finders: None, anyone: Caller) -> None:
    caller = with_budget(anyone, calls_a_day=5)
    several = [{"name": "programmable", "arguments": {"value": number}} for number in range(3)]
    engine.call_sync("call_many", {"calls": several}, caller, door="code")
    assert used(caller.id).calls_a_day == 3
    engine.call_sync("call_tool", {"name": "programmable", "arguments": {}}, caller, door="code")
    assert used(caller.id).calls_a_day == 4
    call(caller)
    result = engine.call_sync("call_many", {"calls": several}, caller, door="code")
    assert isinstance(result, engine.Result)
    assert {outcome["error"]["code"] for outcome in result.answer.value["results"]} == {"BUDGET_SPENT"}
    assert used(caller.id).calls_a_day == 5


def test_a_toolset_has_one_budget_for_all_who_call_through_it(anyone: Caller, hub: Hub) -> None:
    governance.create_toolset("shared", names=["programmable"], calls_a_day=2, actor=OPERATOR)
    governance.create_toolset("other", names=["echo"], calls_a_day=1, actor=OPERATOR)
    reach = Reach(frozenset({"shared", "other"}))
    alice, bob = replace(anyone, reach=reach), replace(anyone, id="key:2", reach=reach)
    call(alice)
    call(bob)
    assert refusal(alice).message == "The budget of the toolset shared is spent: 2 calls a day"
    # The other toolset does not have that tool; callers without toolsets count for none.
    call(alice, "echo", message="hello")
    call(anyone)
    assert (used("toolset:shared").calls_a_day, used("toolset:other").calls_a_day) == (2, 1)
    assert refusal(bob, "echo", message="hello").context["budget"] == "the toolset other"
    governance.change_toolset("shared", calls_a_day=3, actor=OPERATOR)
    call(bob)
    # What comes with every toolset counts for all.
    refusal(bob, "read_result", id="0" * 32)


def test_a_budget_is_exceeded_by_the_calls_in_flight_at_most(anyone: Caller) -> None:
    caller = with_budget(anyone, calls_a_day=10)

    async def story() -> list[Any]:
        outcomes: list[Any] = []
        for _ in range(8):
            calls = (engine.call("programmable", {}, caller, door="code") for _ in range(4))
            outcomes += await asyncio.gather(*calls, return_exceptions=True)
        return outcomes

    ran = [outcome for outcome in asyncio.run(story()) if isinstance(outcome, engine.Result)]
    assert 10 <= len(ran) <= 10 + 3
    assert used(caller.id).calls_a_day == len(ran)


def test_many_processes_count_each_call_once(transactional_db: None, tmp_path: Path) -> None:
    home = Home(tmp_path)
    environment = {**home.environment, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([sys.executable, "-c", WORK], env=environment, **pipes) for _ in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.communicate("go\n", timeout=120)
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    totals = {row.subject: (row.calls, row.tokens) for row in BudgetUse.objects.all()}
    assert totals == {"key:1": (600, 60_000), "toolset:a": (300, 30_000), "toolset:b": (600, 60_000)}


def test_use_is_of_today_and_this_month_and_older_days_are_deleted(transactional_db: None) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    for days, calls in ((0, 1), (1, 10), (3, 100), (4, 1_000), (70, 10_000)):
        BudgetUse.objects.create(subject="key:1", day=(now - timedelta(days=days)).date(), calls=calls)
    assert budgets.used(["key:1", "key:2"], now) == {"key:1": Used(1, 0, 111, 0)}
    assert pruning.prune(now).counts["use of budgets"] == 1
    assert BudgetUse.objects.count() == 4


@pytest.mark.parametrize(
    ("period", "now", "end"),
    [
        ("day", "2026-03-28T23:59", "2026-03-29"),
        # Clocks go forward: this day has 23 hours.
        ("day", "2026-03-29T01:00", "2026-03-30"),
        ("month", "2026-01-31T12:00", "2026-02-01"),
        ("month", "2026-12-01T00:00", "2027-01-01"),
    ],
)
def test_days_and_months_end_at_midnight_of_the_time_zone(period: str, now: str, end: str) -> None:
    def in_berlin(moment: str) -> datetime:
        return datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo("Europe/Berlin"))

    assert resets_at(period, in_berlin(now)) == in_berlin(end)


def test_a_share_is_full_only_when_all_is_used() -> None:
    def limit(used: int) -> Limit:
        return Limit("calls", "day", 1_000, used, timezone.now())

    assert [limit(used).percent for used in (0, 799, 800, 999, 1_000, 1_010)] == [0, 79, 80, 99, 100, 101]
    assert [limit(used).is_spent for used in (999, 1_000)] == [False, True]
