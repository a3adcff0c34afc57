"""When a call must have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Deadline:
    """So many seconds from now. It stands still while a person is asked, who must not be hurried by a machine."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._left: float | None = None
        self._holders = 0
        self._enforced: asyncio.Timeout | None = None

    def remaining(self) -> float:
        """Seconds until then."""
        return self._left if self._left is not None else max(0.0, self._at - time.monotonic())

    def enforced(self) -> asyncio.Timeout:
        """A context manager that ends what is in it when the time has come."""
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
            # Somebody who still asks after the end of the call moves nothing any more.
            with suppress(RuntimeError):
                self._enforced.reschedule(when)
