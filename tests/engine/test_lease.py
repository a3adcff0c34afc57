"""Calls whose process died."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine
from tools_app.base import database
from tools_app.journal import rows
from tools_app.journal.lease import (
    BUSY_LEASE,
    IDLE_LEASE,
    INTERRUPTED,
    Lease,
    forget_the_dead,
    interrupt_orphans,
)
from tools_app.models import Agent, Call, CallHour, Process
from tools_app.sdk.context import Caller
from tools_app.sdk.hints import Hints

pytestmark = pytest.mark.django_db(transaction=True)


def started(number: int, process_id: str) -> Call:
    return Call.objects.create(
        id=f"{number:032x}",
        tool_name="writing",
        door="rest",
        caller_kind="key",
        caller_id="key:1",
        caller_name="alice",
        status="started",
        process_id=process_id,
        started_at=datetime.now(UTC),
    )


@pytest.fixture
def lease() -> Lease:
    """The lease of some other process."""
    made = Lease(0)
    made.open.add("a call")
    renew(made)
    return made


def renew(lease: Lease) -> None:
    with transaction.atomic():
        lease.renew()


def expire(lease: Lease, **ago: float) -> None:
    Process.objects.filter(pk=lease.process_id).update(lease_until=datetime.now(UTC) - timedelta(**ago))


def test_a_lease_reaches_as_far_as_it_says(lease: Lease) -> None:
    until = Process.objects.get().lease_until
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=BUSY_LEASE + 1)
    lease.open.clear()
    renew(lease)
    assert Process.objects.get().lease_until - until > timedelta(seconds=IDLE_LEASE - BUSY_LEASE - 5)


def test_while_the_lease_lasts_a_call_is_under_way(lease: Lease) -> None:
    started(1, lease.process_id)
    assert interrupt_orphans("mine") == (0, True)
    assert Call.objects.get().status == "started"


def test_when_it_has_run_out_the_call_is_interrupted_and_counted(lease: Lease) -> None:
    started(1, lease.process_id)
    expire(lease, seconds=1)
    assert interrupt_orphans("mine")[0] == 1
    call = Call.objects.get()
    assert (call.status, call.code) == ("interrupted", INTERRUPTED)
    assert "unknown" in call.error
    assert call.finished_at is not None
    rows.fold()
    assert list(CallHour.objects.values_list("status", "calls")) == [("interrupted", 1)]
    assert interrupt_orphans("mine")[0] == 0


def test_a_process_that_never_announced_itself_is_gone() -> None:
    started(1, "somebody before us")
    assert interrupt_orphans("mine")[0] == 1


def test_ones_own_calls_are_never_interrupted() -> None:
    started(1, "mine")
    assert interrupt_orphans("mine")[0] == 0


def test_a_lease_from_a_clock_that_was_set_back_is_none(lease: Lease) -> None:
    started(1, lease.process_id)
    expire(lease, hours=-2)
    assert interrupt_orphans("mine")[0] == 1


def test_processes_long_gone_are_forgotten(lease: Lease) -> None:
    Agent.objects.create(id="a", process_id=lease.process_id, since=datetime.now(UTC), seen_at=datetime.now(UTC))
    expire(lease, minutes=1)
    forget_the_dead()
    assert Agent.objects.count() == Process.objects.count() == 1
    expire(lease, hours=1)
    forget_the_dead()
    assert not Process.objects.exists()
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    ("open_calls", "since", "due"),
    [(0, 1.0, 29.0), (1, 0.5, 0.5), (1, 1.0, 0.0)],
)
def test_is_renewed_every_second_while_calls_are_open(open_calls: int, since: float, due: float) -> None:
    lease = Lease(0)
    lease.open = {str(number) for number in range(open_calls)}
    lease.renewed(100)
    assert lease.due(100 + since) == pytest.approx(due)


def test_the_first_open_call_needs_a_shorter_lease_at_once() -> None:
    lease = Lease(0)
    lease.renewed(100)
    lease.open.add("a call")
    assert lease.due(100.1) == 0


def test_a_process_that_ends_soon_is_not_announced() -> None:
    assert Lease(100).due(101) > 0
    assert Lease(100).due(106) < 0


# ---- in the engine


def test_the_process_stands_there_while_a_tool_that_writes_runs(hub: Hub, alice: Caller) -> None:
    writing = Programmable("writing", hints=Hints())
    hub.add(writing.tool)
    seen: list[Any] = []

    async def look() -> str:
        seen.extend(await database.run(lambda: list(Process.objects.values_list("id", flat=True))))
        seen.append(await database.run(lambda: Call.objects.get().process_id))
        return "done"

    writing.outcomes = [look]
    engine.call_sync("writing", {}, alice, door="code")
    assert len(seen) == 2
    assert seen[0] == seen[1]
    asyncio.run(engine.close())
    assert not Process.objects.exists()


def test_a_read_does_not_announce_the_process(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    engine.call_sync("programmable", {}, alice, door="code")
    assert not Process.objects.exists()


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_process_that_only_slept_corrects_what_others_thought(hub: Hub, alice: Caller, is_counted: bool) -> None:
    writing = Programmable("writing", hints=Hints())
    hub.add(writing.tool)

    async def sleep() -> str:
        def interrupt() -> int:
            Process.objects.update(lease_until=datetime.now(UTC) - timedelta(seconds=1))
            number = interrupt_orphans("another")[0]
            if is_counted:
                rows.fold()
            return number

        assert await database.run(interrupt) == 1
        # As long as it takes at least for a lease to run out.
        await asyncio.sleep(2.1)
        return "done"

    writing.outcomes = [sleep]
    engine.call_sync("writing", {}, alice, door="code")
    assert Call.objects.get().status == "succeeded"
    rows.fold()
    counted = CallHour.objects.filter(calls__gt=0).values_list("status", "calls", "within_10")
    assert [(status, calls) for status, calls, _ in counted] == [("succeeded", 1)]
    assert not CallHour.objects.filter(status="interrupted", within_10__gt=0).exists()


def test_a_running_hub_finds_orphans_by_itself(hub: Hub, alice: Caller) -> None:
    started(1, "somebody before us")
    engine.call_sync("echo", {"message": "hi"}, alice, door="code")
    assert eventually(lambda: Call.objects.filter(status="interrupted").exists(), 10)
