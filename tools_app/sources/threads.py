"""Threads for code of authors that may never return, such as an import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from tools_app.base import hub, loops

R = TypeVar("R")


async def in_thread(work: Callable[[], R]) -> R:
    """Run `work` in a thread of its own. Unlike those of an executor, it does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[R] = loop.create_future()

    def settle(result: R | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]

    def job() -> None:
        result = error = None
        try:
            result = work()
        except BaseException as caught:
            # A future refuses StopIteration.
            error = RuntimeError(f"StopIteration: {caught}") if isinstance(caught, StopIteration) else caught
        finally:
            connections.close_all()
        loops.post(loop, settle, result, error)

    hub.current().thread(job, "toolhub-import").start()
    return await outcome
