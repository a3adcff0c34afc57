"""Threads for tools that block: few, reused, and never in the way of the process's end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tools_app.engine.workers import Workers


def names(workers: Workers, count: int) -> set[str]:
    async def story() -> list[Any]:
        return await asyncio.gather(*(workers.run(lambda: threading.current_thread().name) for _ in range(count)))

    return set(asyncio.run(story()))


def test_keeps_to_its_limit_and_reuses_threads() -> None:
    workers = Workers(3)
    together = threading.Barrier(3)

    async def fill() -> None:
        await asyncio.gather(*(workers.run(together.wait) for _ in range(3)))

    asyncio.run(fill())
    assert len(names(workers, 20)) <= 3
    assert len([thread for thread in threading.enumerate() if thread.name.startswith("toolhub-tool-")]) <= 3
    workers.close()


def test_no_work_waits_behind_other_work_while_there_may_be_more_threads() -> None:
    async def meet(workers: Workers, together: threading.Barrier) -> None:
        # All or nobody: one that waited for the thread of another would never get there.
        await asyncio.gather(*(workers.run(lambda: together.wait(10)) for _ in range(together.parties)))

    for parties in (2, 3, 5) * 30:
        workers = Workers(5)
        asyncio.run(meet(workers, threading.Barrier(2)))
        asyncio.run(meet(workers, threading.Barrier(parties)))
        workers.close()


def test_its_threads_do_not_keep_the_process_alive() -> None:
    workers = Workers(1)

    async def story() -> Any:
        return await workers.run(lambda: threading.current_thread().daemon)

    assert asyncio.run(story())
    workers.close()


def test_passes_on_what_the_work_raises() -> None:
    workers = Workers(1)

    async def story() -> None:
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await workers.run(lambda: next(iter(())))

    asyncio.run(story())
    workers.close()


def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    workers = Workers(1)
    release = threading.Event()
    begun: list[str] = []

    async def story() -> None:
        first = asyncio.create_task(workers.run(lambda: release.wait(5)))
        second = asyncio.create_task(workers.run(lambda: begun.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        release.set()
        await first
        await workers.run(lambda: begun.append("third"))

    asyncio.run(story())
    assert begun == ["third"]
    workers.close()
