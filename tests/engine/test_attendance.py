"""Who is connected: noted at once, written by the journal's thread, gone with the process."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.tools import eventually
from tools_app import engine
from tools_app.base import database
from tools_app.journal.attendance import FIGURES_SECONDS, Attendance, Presence
from tools_app.models import Agent, Process
from tools_app.sdk.context import Caller
from tools_app.sdk.reach import Reach

ALICE = Caller("key", "key:1", "alice", reach=Reach(frozenset({"sums", "pages"})))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attendance(clock: Clock) -> Attendance:
    return Attendance(clock)


def write(attendance: Attendance) -> list[Presence]:
    """What the journal's thread does with the news."""
    news = attendance.news()
    attendance.mark_written([(one, one.row("p")) for one in news if not one.left], [one for one in news if one.left])
    return news


def test_whoever_comes_is_news_once(attendance: Attendance) -> None:
    agent = attendance.arrived(Presence("stdio", ALICE))
    assert write(attendance) == [agent]
    assert write(attendance) == []


def test_figures_are_news_now_and_then(attendance: Attendance, clock: Clock) -> None:
    agent = attendance.arrived(Presence("stdio", ALICE))
    write(attendance)
    agent.seen(calls=True)
    assert write(attendance) == []
    clock.now += FIGURES_SECONDS
    assert write(attendance) == [agent]
    assert (agent.calls, agent.called_at) == (1, agent.seen_at)
    clock.now += FIGURES_SECONDS
    assert write(attendance) == []


def test_whoever_left_is_news_until_that_is_written(attendance: Attendance) -> None:
    agent = attendance.arrived(Presence("stdio", ALICE))
    write(attendance)
    attendance.left(agent)
    assert attendance.news() == [agent]
    assert write(attendance) == [agent]
    assert write(attendance) == []


def test_whoever_came_and_went_unnoticed_is_no_news(attendance: Attendance) -> None:
    attendance.left(attendance.arrived(Presence("stdio", ALICE)))
    assert attendance.news() == []


def test_whoever_leaves_while_being_written_down_is_taken_off_again(attendance: Attendance) -> None:
    agent = attendance.arrived(Presence("stdio", ALICE))
    rows = [(one, one.row("p")) for one in attendance.news()]
    attendance.left(agent)
    attendance.mark_written(rows, [])
    assert attendance.news() == [agent]


def test_whoever_goes_without_a_word_has_left_after_a_while(attendance: Attendance) -> None:
    agent = attendance.arrived(Presence("http", ALICE, idle_seconds=60))
    write(attendance)
    agent.seen_at = datetime.now(UTC) - timedelta(seconds=61)
    agent.busy = 1
    write(attendance)
    assert not agent.left
    agent.busy = 0
    write(attendance)
    assert agent.left


def test_what_a_client_calls_itself_fits_every_database() -> None:
    row = Presence("http", ALICE, client="a\x00\ud800" + "b" * 200, version="1" * 99).row("p")
    assert (len(row.client), len(row.version)) == (100, 64)
    assert "\x00" not in row.client
    assert row.toolset == "pages, sums"


def test_of_many_toolsets_as_many_are_named_as_there_is_room_for() -> None:
    names = [f"toolset-{number:02}" for number in range(50)]
    caller = replace(ALICE, reach=Reach(frozenset(names)))
    named = Presence("http", caller).row("p").toolset
    assert len(named) <= 200
    assert named.split(", ") == names[: named.count(", ") + 1]


# ---- in the engine


@pytest.mark.django_db(transaction=True)
def test_an_agent_stands_there_while_its_process_lives() -> None:
    async def live() -> None:
        engine.adopt_running_loop()
        agent = engine.arrived(Presence("stdio", ALICE, client="probe", version="2"))
        other = engine.arrived(Presence("http", ALICE))
        await database.run(eventually, lambda: Agent.objects.count() == 2, 10)
        kept = await database.run(Agent.objects.select_related("process").get, pk=agent.id)
        assert (kept.client, kept.version, kept.caller_name, kept.calls) == ("probe", "2", "alice", 0)
        assert kept.process.lease_until > datetime.now(UTC)
        engine.left(other)
        await database.run(eventually, lambda: Agent.objects.count() == 1, 10)
        await engine.close(1)

    asyncio.run(live())
    assert not Agent.objects.exists()
    assert not Process.objects.exists()
