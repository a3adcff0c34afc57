"""Work on large requests: off the event loop, and callers take turns."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tools_app.sdk import heavy


def test_the_event_loop_runs_meanwhile() -> None:
    async def story() -> str:
        going_on = threading.Event()
        asyncio.get_running_loop().call_soon(going_on.set)
        return "went on" if await heavy.in_turn("a", partial(going_on.wait, 10)) else "stood still"

    assert asyncio.run(story()) == "went on"


def test_exceptions_of_the_work_reach_the_caller() -> None:
    async def story() -> None:
        await heavy.in_turn("a", partial(int, "x"))

    try:
        asyncio.run(story())
    except ValueError:
        return
    raise AssertionError("nothing was raised")


def test_a_caller_with_much_work_keeps_others_waiting_for_one_piece_of_it() -> None:
    done: list[str] = []

    def work(name: str) -> None:
        time.sleep(0.01)
        done.append(name)

    async def story() -> None:
        greedy = [asyncio.ensure_future(heavy.in_turn("greedy", partial(work, "greedy"))) for _ in range(20)]
        await asyncio.sleep(0)
        await heavy.in_turn("modest", partial(work, "modest"))
        before = list(done)
        await asyncio.gather(*greedy)
        assert before.count("greedy") <= 2, before

    asyncio.run(story())
    assert done.count("greedy") == 20


def test_the_work_of_one_caller_on_two_event_loops_does_not_meet() -> None:
    """Two hubs of one process may have the same caller."""

    async def story() -> list[None]:
        return await asyncio.gather(*(heavy.in_turn("both", partial(time.sleep, 0.01)) for _ in range(10)))

    with ThreadPoolExecutor(2) as loops:
        outcomes = [loops.submit(asyncio.run, story()) for _ in range(2)]
    assert [len(outcome.result()) for outcome in outcomes] == [10, 10]


def test_a_caller_with_much_work_leaves_time_to_others_while_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "arrivals", heavy.Arrivals())
    ended: list[float] = []
    began: list[float] = []

    def work() -> None:
        began.append(time.monotonic())
        time.sleep(0.05)
        ended.append(time.monotonic())

    async def story() -> None:
        await asyncio.gather(*(heavy.in_turn("greedy", work) for _ in range(2)))
        heavy.arrivals.note("modest")
        heavy.arrivals.note("greedy")
        await asyncio.gather(*(heavy.in_turn("greedy", work) for _ in range(2)))

    asyncio.run(story())
    alone, beside = began[1] - ended[0], began[3] - ended[2]
    assert beside >= 0.1 > alone


def test_who_gives_up_keeps_the_turn_until_the_work_has_ended() -> None:
    began, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def work(name: str) -> None:
        began.set()
        may_end.wait(10)
        order.append(name)

    async def story() -> None:
        leaving = asyncio.ensure_future(heavy.in_turn("a", partial(work, "first")))
        await asyncio.to_thread(began.wait, 10)
        leaving.cancel()
        await asyncio.wait([leaving])
        following = asyncio.ensure_future(heavy.in_turn("a", partial(order.append, "second")))
        # There is a second thread, in which others are served meanwhile.
        await heavy.in_turn("b", partial(order.append, "other"))
        may_end.set()
        await following

    asyncio.run(story())
    assert order == ["other", "first", "second"]


def test_what_the_work_takes_is_charged_to_its_caller_also_if_that_has_gone() -> None:
    charged: list[float] = []
    began = threading.Event()

    def work() -> None:
        began.set()
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass

    async def story() -> None:
        heavy.charged.set(charged.append)
        leaving = asyncio.ensure_future(heavy.in_turn("a", work))
        await asyncio.to_thread(began.wait, 10)
        leaving.cancel()
        await heavy.in_turn("a", work)
        heavy.charged.set(None)
        await heavy.in_turn("b", work)

    asyncio.run(story())
    assert len(charged) == 2
    assert min(charged) >= 0.02
