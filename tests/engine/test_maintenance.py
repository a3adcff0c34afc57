"""Maintenance: tools that only read can be called, and calls of all others are to be repeated later."""

from __future__ import annotations

import asyncio
import io
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine, governance
from tools_app.base import database
from tools_app.catalog import catalog, listed, obstacles
from tools_app.engine import Options
from tools_app.journal import retention
from tools_app.models import Approval, AuditEntry, Call, Stop
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError, ValidationError
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import ApprovalRequiredError, MaintenanceError

TEST = governance.trusted("user:olivia")


@pytest.fixture
def writing(hub: Hub) -> Programmable:
    made = Programmable("writing", hints=Hints(read_only=False, idempotent=True))
    hub.add(made.tool)
    return made


def call(caller: Caller, name: str, **options: Any) -> Any:
    return engine.call_sync(name, {}, caller, door="code", options=Options(**options)).answer.value


def refusal(caller: Caller, name: str = "writing", **options: Any) -> MaintenanceError:
    with pytest.raises(MaintenanceError) as told:
        call(caller, name, **options)
    return told.value


def test_refuses_writes_and_runs_reads(programmable: Programmable, writing: Programmable, alice: Caller) -> None:
    assert governance.stop("writes", actor=TEST, reason="the tracker moves", duration=timedelta(minutes=30))
    error = refusal(alice)
    assert (error.code, error.status, error.retryable, error.nothing_done) == ("MAINTENANCE", 503, True, True)
    assert error.message.startswith("The hub is in maintenance since 20")
    assert " UTC until 20" in error.message
    assert error.message.endswith("tools that write cannot be called: the tracker moves")
    assert "olivia" not in str(error.as_dict()), "who it was is for operators"
    assert error.retry_after is not None
    assert 1790 < error.retry_after <= 1800
    call(alice, "programmable")
    assert governance.resume("writes", actor=TEST)
    call(alice, "writing")
    assert len(writing.calls) == 1


def test_without_an_end_callers_are_told_to_try_again_after_a_minute(writing: Programmable, alice: Caller) -> None:
    governance.stop("writes", actor=TEST)
    assert refusal(alice).retry_after == 60


def test_a_tool_that_says_nothing_of_itself_counts_as_a_write(hub: Hub, alice: Caller) -> None:
    unknown = Programmable("unknown", hints=Hints())
    hub.add(unknown.tool)
    governance.stop("writes", actor=TEST)
    refusal(alice, "unknown")
    assert not unknown.calls


def test_the_list_of_tools_stays_the_same(writing: Programmable, alice: Caller) -> None:
    before = listed.digest(catalog.current().seen_by(alice))
    governance.stop("writes", actor=TEST)
    assert listed.digest(catalog.current().seen_by(alice)) == before


def test_it_ends_at_its_time_without_a_change_of_any_row(writing: Programmable, alice: Caller) -> None:
    governance.stop("writes", actor=TEST, duration=timedelta(seconds=1))
    refusal(alice)
    numbers = catalog.numbers()

    def is_over() -> bool:
        try:
            call(alice, "writing")
        except MaintenanceError:
            return False
        return True

    started = time.monotonic()
    assert eventually(is_over, 10)
    assert time.monotonic() - started > 0.5
    assert catalog.numbers() == numbers
    assert Stop.objects.count() == 1
    assert not Stop.objects.active().exists()
    assert "1 ended maintenance" in str(retention.prune(datetime.now(UTC)))
    assert not Stop.objects.exists()


def test_maintenance_that_has_ended_can_begin_again_and_cannot_be_ended(hub: Hub) -> None:
    governance.stop("writes", actor=TEST, reason="first", duration=timedelta(hours=1))
    assert not governance.stop("writes", actor=TEST, reason="second"), "it is on"
    Stop.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    assert governance.stop("writes", actor=TEST, reason="second")
    assert Stop.objects.get().reason == "second"
    Stop.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    assert not governance.resume("writes", actor=TEST)
    entries = AuditEntry.objects.filter(subject="stop:writes").order_by("pk")
    assert list(entries.values_list("action", "reason")) == [("writes.stop", "first"), ("writes.stop", "second")]
    assert set(entries[0].changes) == {"stopped", "until"}


def test_it_is_over_at_the_moment_it_names(hub: Hub) -> None:
    now = datetime.now(UTC)
    stops = {("writes", ""): Stop(kind="writes", since=now, until=now)}
    assert obstacles.maintenance(stops, now) is None
    assert obstacles.maintenance(stops, now - timedelta(microseconds=1)) is not None


def test_what_runs_already_ends(writing: Programmable, alice: Caller) -> None:
    def stop() -> str:
        governance.stop("writes", actor=TEST)
        return "done"

    writing.outcomes = [lambda: database.run(stop)]
    assert call(alice, "writing") == "done"
    refusal(alice)


def test_an_approval_is_kept_for_the_call_after_maintenance(writing: Programmable, alice: Caller) -> None:
    governance.set_ask("writing", True, actor=TEST)
    with pytest.raises(ApprovalRequiredError) as told:
        call(alice, "writing")
    approval_id = told.value.context["approvalId"]
    governance.approve_call(approval_id, actor=TEST)
    governance.stop("writes", actor=TEST)
    refusal(alice, approval=approval_id)
    assert Approval.objects.get().state == "approved"
    governance.resume("writes", actor=TEST)
    call(alice, "writing", approval=approval_id)


def test_a_flood_of_refusals_is_counted(writing: Programmable, alice: Caller) -> None:
    governance.stop("writes", actor=TEST)
    for _ in range(30):
        refusal(alice)
    asyncio.run(engine.close(2))
    row = Call.objects.get()
    assert (row.code, row.count, row.status) == ("MAINTENANCE", 30, "refused")


def test_configuration_can_be_changed_meanwhile(writing: Programmable) -> None:
    governance.stop("writes", actor=TEST)
    governance.set_enabled(["writing"], False, actor=TEST)
    assert not catalog.current().find("writing").enabled  # type: ignore[union-attr]


@pytest.mark.parametrize("duration", [timedelta(), timedelta(seconds=-1), timedelta(days=30, seconds=1)])
def test_refuses_a_duration_out_of_bounds(hub: Hub, duration: timedelta) -> None:
    with pytest.raises(ValidationError, match="at most 30 days"):
        governance.stop("writes", actor=TEST, duration=duration)


def test_refuses_a_duration_of_another_stop_and_a_name(hub: Hub) -> None:
    with pytest.raises(ValidationError, match="Only maintenance"):
        governance.stop("hub", actor=TEST, duration=timedelta(hours=1))
    with pytest.raises(NotFoundError):
        governance.stop("writes", "x", actor=TEST)
    assert not Stop.objects.exists()


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("maintenance", *words, stdout=out)
    return out.getvalue()


def test_the_command_begins_shows_and_ends_it(hub: Hub) -> None:
    assert run() == "The hub is not in maintenance.\n"
    begun = run("on", "--reason", "moving", "--for", "30m")
    stop = Stop.objects.get()
    assert stop.until is not None
    assert stop.until - stop.since == timedelta(minutes=30)
    assert begun.startswith("The hub is in maintenance since 20")
    assert begun.endswith(f"until {stop.until:%Y-%m-%d %H:%M} UTC. moving\n")
    assert run() == begun
    assert run("on").startswith("Nothing was changed. The hub is in maintenance")
    assert run("off") == "Maintenance has ended.\n"
    assert run("off") == "The hub is not in maintenance.\n"
