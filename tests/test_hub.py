"""The container for the state of a hub: what its parts can rely on."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from tools_app.base import hub
from tools_app.base.hub import Hub

events: ContextVar[list[str] | None] = ContextVar("events", default=None)


def note(event: str) -> None:
    noted = events.get()
    if noted is not None:
        noted.append(event)


class Memory:
    """A part without anything to close."""


class Pool:
    def close(self) -> None:
        note("pool")


class Work:
    async def aclose(self) -> None:
        hub.part(Pool)
        note("work")


class Reader:
    def __init__(self) -> None:
        self.pool = hub.part(Pool)

    def close(self) -> None:
        note("reader")


def test_a_part_is_created_once_and_belongs_to_one_hub() -> None:
    here, there = Hub(), Hub()
    with ThreadPoolExecutor(8) as threads:
        first, *others = threads.map(lambda _: here.part(Reader), range(8))
    assert all(other is first for other in others)
    assert first.pool is here.part(Pool), "a part that another one uses is of the same hub"
    assert there.part(Reader) is not first


def test_the_active_hub_comes_before_that_of_the_process() -> None:
    of_process, here = hub.current(), Hub()
    with here.active():
        assert hub.current() is here
        with of_process.active():
            assert hub.current() is of_process
        assert hub.current() is here
    assert hub.current() is of_process


def test_work_ends_before_what_it_uses_and_the_last_created_closes_first() -> None:
    noted: list[str] = []
    events.set(noted)
    here = Hub()
    for kind in (Memory, Work, Reader):
        here.part(kind)
    here.close()
    assert noted == ["work", "reader", "pool"]
    here.close()
    assert noted == ["work", "reader", "pool"], "closing twice does nothing more"
    with pytest.raises(RuntimeError, match="this hub is closed"):
        here.part(Memory)


def test_closing_the_hub_of_the_process_begins_a_new_one() -> None:
    before = hub.current()
    memory = hub.part(Memory)
    asyncio.run(before.aclose())
    assert hub.current() is not before
    assert hub.part(Memory) is not memory


def test_a_dropped_part_is_closed_and_created_again() -> None:
    noted: list[str] = []
    events.set(noted)
    here = Hub()
    here.drop(Pool)
    first = here.part(Pool)
    here.drop(Pool)
    assert noted == ["pool"]
    assert here.part(Pool) is not first


def test_a_part_that_cannot_be_created_is_tried_again() -> None:
    fails = True

    class Moody:
        def __init__(self) -> None:
            if fails:
                raise OSError("not now")

    here = Hub()
    with pytest.raises(OSError, match="not now"):
        here.part(Moody)
    fails = False
    assert isinstance(here.part(Moody), Moody)


def test_a_thread_sees_its_hub_and_nothing_else_of_the_context() -> None:
    events.set(["of the caller"])
    here, seen = Hub(), list[object]()
    thread = here.thread(lambda: seen.extend((hub.current(), events.get(), threading.current_thread().name)), "t")
    assert thread.daemon
    thread.start()
    thread.join()
    assert seen == [here, None, "t"]
