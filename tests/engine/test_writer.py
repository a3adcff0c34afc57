"""The journal's thread, when the database is locked, gone, or was somewhere else for a moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine
from tools_app.engine import Options, guards
from tools_app.journal import writer
from tools_app.journal.journal import Journal
from tools_app.journal.writer import JournalEntry
from tools_app.models import Call, CallHour, ErrorLog, Process
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import ShuttingDownError, StorageBusyError

pytestmark = pytest.mark.django_db(transaction=True)

only_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="about SQLite's file")
only_postgres = pytest.mark.skipif(connection.vendor != "postgresql", reason="about PostgreSQL's connections")


def row(number: int, status: str = "succeeded") -> Call:
    now = datetime.now(UTC)
    return Call(
        id=f"{number:032x}", tool_name="echo", door="code", caller_kind="key", caller_id="key:1", caller_name="alice",
        status=status, started_at=now, finished_at=now, duration_ms=1,
    )  # fmt: skip


@pytest.fixture
def journal() -> Iterator[Journal]:
    made = Journal()
    yield made
    made.close(5)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Nobody else can write a call meanwhile."""
    with transaction.atomic():
        if connection.vendor == "sqlite":
            Call.objects.filter(pk="nobody").update(count=1)
        else:
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE tools_app_call IN ACCESS EXCLUSIVE MODE")
        yield


@contextlib.contextmanager
def away() -> Iterator[Path]:
    """The database file is somewhere else."""
    path = Path(str(connection.settings_dict["NAME"]))
    moved = path.with_suffix(".away")
    path.rename(moved)
    try:
        yield path
    finally:
        moved.rename(path)


async def outcome(journal: Journal, entry: JournalEntry) -> bool | BaseException:
    [told] = await asyncio.gather(journal.write(entry), return_exceptions=True)
    return told


def test_waits_for_a_lock_that_ends(journal: Journal) -> None:
    async def story() -> bool:
        with_lock = asyncio.Event()
        held = asyncio.create_task(asyncio.to_thread(hold, 1.0, with_lock.set, asyncio.get_running_loop()))
        await with_lock.wait()
        told = await journal.write(JournalEntry(call=row(1)))
        await held
        return told

    def hold(seconds: float, tell: Any, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with locked():
                loop.call_soon_threadsafe(tell)
                eventually(lambda: False, seconds)
        finally:
            connection.close()

    assert asyncio.run(story()) is True
    assert Call.objects.count() == 1


def test_gives_up_when_a_lock_lasts_and_writes_what_had_happened_later(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 0.2)

    async def story() -> list[bool | BaseException]:
        entries = [JournalEntry(call=row(1)), JournalEntry(call=row(2, "started"))]
        return await asyncio.gather(*(outcome(journal, entry) for entry in entries))

    with locked():
        told = asyncio.run(story())
    assert [type(one) for one in told] == [StorageBusyError, StorageBusyError]
    assert eventually(lambda: Call.objects.filter(pk=f"{1:032x}").exists(), 5)
    assert list(Call.objects.values_list("status", flat=True)) == ["succeeded"], "what never began has no row"
    assert eventually(lambda: list(CallHour.objects.values_list("calls", flat=True)) == [1], 5)
    assert not journal._writer.lease.open


@only_sqlite
def test_a_file_that_is_gone_is_trouble_for_everybody_until_it_is_back(journal: Journal) -> None:
    assert asyncio.run(outcome(journal, JournalEntry(call=row(0)))) is True
    with away() as path:
        assert isinstance(asyncio.run(outcome(journal, JournalEntry(call=row(1)))), StorageBusyError)
        assert "unable to open" in journal.trouble
        assert isinstance(asyncio.run(outcome(journal, JournalEntry(call=row(2, "started")))), StorageBusyError)
        assert not path.exists()
    assert eventually(lambda: not journal.trouble, 5)
    assert eventually(lambda: Call.objects.filter(pk=f"{1:032x}").exists(), 5)
    assert Call.objects.count() == 2
    assert asyncio.run(outcome(journal, JournalEntry(call=row(3)))) is True


@only_postgres
def test_a_connection_that_was_cut_is_made_anew_without_a_word(journal: Journal) -> None:
    assert asyncio.run(outcome(journal, JournalEntry(call=row(0)))) is True
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert asyncio.run(outcome(journal, JournalEntry(call=row(1)))) is True
    assert Call.objects.count() == 2
    assert journal.trouble == ""


def test_what_reached_the_disk_is_not_written_again(journal: Journal) -> None:
    """A connection can break after the commit and before anybody hears of it."""
    entry = JournalEntry(call=row(1))
    assert asyncio.run(outcome(journal, entry)) is True
    journal._writer._unwritten.append(JournalEntry(call=row(1)))
    journal._writer._unwritten.append(JournalEntry(call=row(2)))
    assert asyncio.run(outcome(journal, JournalEntry(call=row(3)))) is True
    assert eventually(lambda: Call.objects.count() == 3, 5)
    journal.close(5)
    assert CallHour.objects.get().calls == 3


def test_a_process_that_lives_long_enough_is_announced(journal: Journal) -> None:
    journal._writer.lease._began -= 60
    journal.start()
    assert eventually(lambda: Process.objects.filter(pk=journal.process_id).exists(), 5)
    journal.close(5)
    assert not Process.objects.exists()


# ---- what callers are told


@pytest.fixture
def writing(hub: Hub) -> Programmable:
    made = Programmable("writing", hints=Hints())
    hub.add(made.tool)
    return made


def call(caller: Caller, **options: Any) -> engine.Result:
    return engine.call_sync("writing", {}, caller, door="code", options=Options(**options))


@only_sqlite
def test_who_changed_something_is_told_that_it_was_changed_and_the_call_is_written_late(
    writing: Programmable, alice: Caller
) -> None:
    with contextlib.ExitStack() as moved:
        writing.outcomes = [lambda: str(moved.enter_context(away()))]
        with pytest.raises(StorageBusyError) as told:
            call(alice)
        assert told.value.message == "The tool ran, but the hub could not record it"
        assert "The change was made" in told.value.next_step
        assert engine.trouble()
        with pytest.raises(StorageBusyError, match="cannot be used right now"):
            call(alice)
        assert len(writing.calls) == 1
    assert eventually(lambda: Call.objects.filter(status="succeeded").exists(), 5)
    assert Call.objects.get().id == told.value.call_id


@only_sqlite
def test_a_failure_that_could_not_be_recorded_is_told_all_the_same(writing: Programmable, alice: Caller) -> None:
    def break_down() -> None:
        moved.enter_context(away())
        raise ValueError("broken")

    with contextlib.ExitStack() as moved:
        writing.outcomes = [break_down]
        with pytest.raises(ToolError, match="Tool execution failed: writing") as told:
            call(alice)
        assert told.value.call_id
    assert eventually(lambda: ErrorLog.objects.filter(call_id=told.value.call_id).exists(), 5)


def test_a_call_that_the_end_of_the_process_breaks_off_gets_its_answer(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = [lambda: asyncio.sleep(30)]

    async def story() -> ToolError:
        running = asyncio.create_task(engine.call("writing", {}, alice, door="code"))
        await asyncio.to_thread(eventually, lambda: bool(writing.calls))
        engine.end_within(0.05)
        with pytest.raises(ShuttingDownError, match="interrupted") as told:
            await running
        with pytest.raises(ShuttingDownError, match="is shutting down"):
            await engine.call("writing", {}, alice, door="code")
        return told.value

    told = asyncio.run(story())
    assert "outcome is unknown" in told.next_step
    assert not told.retryable
    assert Call.objects.get(pk=told.call_id).status == "cancelled"


def test_a_dry_run_tells_how_things_stand_with_the_upstream(writing: Programmable, alice: Caller) -> None:
    call(alice)
    told = call(alice, dry_run=True)
    assert told.answer.value["upstream"] == {"name": "writing", "circuit": "closed", "running": 0, "waiting": 0}


def test_limits_add_up_over_processes(settings: Any) -> None:
    settings.TOOLHUB_RATE_CALLS = 100
    assert guards.in_words(3) == "30 calls of one upstream at once, 300 calls of a tool by one caller in 60 s"
    settings.TOOLHUB_RATE_CALLS = 0
    assert guards.in_words(2) == "20 calls of one upstream at once"
