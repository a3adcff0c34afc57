"""Threads hand their results to event loops that may be closed at any moment."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tools_app.base import loops
from tools_app.engine.workers import Workers


class ClosedMeanwhile(asyncio.SelectorEventLoop):
    """Is open when it is asked, and closed when it is used."""

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        self.close()
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_loop_that_is_closed_meanwhile_gets_nothing() -> None:
    called: list[str] = []
    loops.post(ClosedMeanwhile(), called.append, "late")
    assert called == []


def test_a_mistake_of_the_caller_is_not_hidden() -> None:
    class Broken(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
            raise RuntimeError("not about closing")

    loop = Broken()
    with pytest.raises(RuntimeError, match="not about closing"):
        loops.post(loop, print)
    loop.close()


def test_a_thread_survives_the_loop_that_waited_for_it() -> None:
    workers = Workers(1)
    release = threading.Event()
    begun = threading.Event()

    def work() -> str:
        begun.set()
        release.wait(5)
        return threading.current_thread().name

    async def leave() -> None:
        waiting = asyncio.create_task(workers.run(work))
        await asyncio.to_thread(begun.wait, 5)
        waiting.cancel()

    asyncio.run(leave())
    release.set()

    async def stay() -> str:
        name: str = await workers.run(work)
        return name

    assert asyncio.run(stay()) == "toolhub-tool-1"
    workers.close()
