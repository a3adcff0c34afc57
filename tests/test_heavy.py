"""Work on large requests: off the event loop, and callers take turns."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

from tools_app.sdk import heavy


def test_the_event_loop_goes_on_meanwhile() -> None:
    async def story() -> str:
        going_on = threading.Event()
        asyncio.get_running_loop().call_soon(going_on.set)
        return "went on" if await heavy.in_turn("a", partial(going_on.wait, 10)) else "stood still"

    assert asyncio.run(story()) == "went on"


def test_what_the_work_raises_reaches_whoever_asked() -> None:
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
