"""The deadline of a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Deadline:
    """A time limit that can be paused, for example while a user answers a question."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._left: float | None = None
        self._holders = 0
        self._enforced: asyncio.Timeout | None = None

    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self._left if self._left is not None else max(0.0, self._at - time.monotonic())

    def enforced(self) -> asyncio.Timeout:
        """A context manager that raises TimeoutError in its block when the deadline passes."""
        self._enforced = asyncio.timeout(self.remaining())
        return self._enforced

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        if self._holders == 0:
            self._left = self.remaining()
            self._reschedule(None)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0 and self._left is not None:
                self._at = time.monotonic() + self._left
                self._reschedule(asyncio.get_running_loop().time() + self._left)
                self._left = None

    def _reschedule(self, when: float | None) -> None:
        if self._enforced is not None:
            # A question that is still open after the end of the call changes nothing: the timeout has ended.
            with suppress(RuntimeError):
                self._enforced.reschedule(when)
