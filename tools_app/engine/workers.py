"""A bounded thread pool for tools that block.

The threads are daemons: a tool that never returns can neither delay the end of the process nor occupy a thread of
Django. It keeps its place in the pool until it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections

from tools_app.base import loops

Job = Callable[[], None]


class Workers:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        # Jobs waiting or running. While there are no more jobs than threads, every job has a thread.
        self._unfinished = 0

    async def run(self, work: Callable[[], Any], on_end: Callable[[], None] | None = None) -> Any:
        """Run `work` in a thread. If the caller stops waiting first, the result is dropped.

        `on_end` is called on the loop when the thread has finished, even if the caller no longer waits.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            value = error = None
            if not outcome.cancelled():
                try:
                    try:
                        value = context.run(work)
                    finally:
                        close_old_connections()
                except BaseException as caught:
                    error = caught
            # Before the result is delivered: the caller may submit the next job at once, and this thread is free.
            with self._lock:
                self._unfinished -= 1
            loops.post(loop, _settle, outcome, value, error)
            if on_end is not None:
                loops.post(loop, on_end)

        self._submit(job)
        return await outcome

    def close(self) -> None:
        """Let idle threads end; a busy one ends after its job."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _submit(self, job: Job) -> None:
        self._jobs.put(job)
        with self._lock:
            self._unfinished += 1
            if self._unfinished > self._threads and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=f"toolhub-tool-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                connections.close_all()
                return
            job()


def _settle(outcome: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(value)
    elif isinstance(error, StopIteration):  # A future refuses it.
        outcome.set_exception(RuntimeError(f"StopIteration: {error}"))
    else:
        outcome.set_exception(error)
