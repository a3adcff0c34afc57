"""The journal: nothing lost, nobody held up by a neighbour."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime

import pytest

from tools_app.base import database
from tools_app.journal import journal as journal_module
from tools_app.journal.failures import failure
from tools_app.journal.journal import Journal
from tools_app.journal.writer import MOST_AT_ONCE, JournalEntry
from tools_app.models import Call, ErrorLog
from tools_app.sdk.errors import ToolExecutionError
from tools_app.sdk.hub_errors import StorageBusyError

pytestmark = pytest.mark.django_db(transaction=True)


def row(number: int, **changes: object) -> Call:
    values = {
        "id": f"{number:032x}",
        "tool_name": "echo",
        "door": "code",
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "alice",
        "status": "succeeded",
        "started_at": datetime.now(UTC),
        **changes,
    }
    return Call(**values)


async def write(journal: Journal, *entries: JournalEntry) -> list[bool | BaseException]:
    return await asyncio.gather(*(journal.write(entry) for entry in entries), return_exceptions=True)


def test_writes_many_at_once_and_each_exactly_once() -> None:
    journal = Journal()
    outcomes = asyncio.run(write(journal, *(JournalEntry(call=row(number)) for number in range(MOST_AT_ONCE + 50))))
    journal.close(5)
    assert set(outcomes) == {True}
    assert Call.objects.count() == MOST_AT_ONCE + 50


def test_a_row_that_the_database_refuses_does_not_take_its_neighbours_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    row(1).save(force_insert=True)
    journal = Journal()
    with caplog.at_level(logging.CRITICAL):
        outcomes = asyncio.run(
            write(journal, JournalEntry(call=row(0)), JournalEntry(call=row(1)), JournalEntry(call=row(2)))
        )
    journal.close(5)
    assert [type(outcome) for outcome in outcomes] == [bool, StorageBusyError, bool]
    assert Call.objects.count() == 3


def test_a_call_that_is_known_is_updated() -> None:
    journal = Journal()
    call = row(7, status="started")

    async def story() -> None:
        await journal.write(JournalEntry(call=call))
        assert await database.run(lambda: Call.objects.values_list("status", flat=True).get()) == "started"
        call.status, call.duration_ms = "failed", 12
        failed = failure(ToolExecutionError("it broke"), "e" * 32, call)
        await journal.write(JournalEntry(call=call, failure=failed, known=True))

    asyncio.run(story())
    journal.close(5)
    assert Call.objects.values_list("status", "duration_ms").get() == ("failed", 12)
    assert ErrorLog.objects.get().call_id == call.id


def test_writes_what_is_waiting_before_it_ends() -> None:
    journal = Journal()

    async def story() -> list[asyncio.Task[bool]]:
        waiting = [asyncio.create_task(journal.write(JournalEntry(call=row(number)))) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(journal.close, 5)
        await asyncio.gather(*waiting)
        return waiting

    assert all(task.done() for task in asyncio.run(story()))
    assert Call.objects.count() == 20


def test_who_waits_too_long_gets_an_error_each_after_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "HUNG", 0.2)
    journal = Journal()
    # A thread that never runs: the database neither answers nor refuses.
    journal._thread = threading.Thread()

    async def story() -> list[float]:
        async def waits(number: int) -> float:
            begun = time.monotonic()
            with pytest.raises(StorageBusyError):
                await journal.write(JournalEntry(call=row(number)))
            return time.monotonic() - begun

        tasks = [asyncio.create_task(waits(0))]
        await asyncio.sleep(0.1)
        tasks.append(asyncio.create_task(waits(1)))
        cancelled = asyncio.create_task(journal.write(JournalEntry(call=row(2))))
        await asyncio.sleep(0)
        cancelled.cancel()
        seconds = list(await asyncio.gather(*tasks))
        assert cancelled.cancelled()
        # Later ones are watched, too.
        return [*seconds, await waits(3)]

    assert min(asyncio.run(story())) > 0.19
    assert journal.trouble == "it does not answer"
    assert not journal._waiting


def test_an_event_loop_that_was_busy_does_not_count_as_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "HUNG", 0.1)
    journal = Journal()

    async def story() -> bool:
        writing = asyncio.create_task(journal.write(JournalEntry(call=row(0))))
        await asyncio.sleep(0)
        # Returns when the row is committed. The event loop proceeds after the time limit only.
        journal.close(5)
        time.sleep(0.2)  # noqa: ASYNC251 – the busy event loop
        return await writing

    assert asyncio.run(story())
    assert not journal.trouble
