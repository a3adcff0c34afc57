"""Processes many rows in small batches, so that calls waiting for the journal are not delayed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

FEWEST: Final = 10
MOST: Final = 500
BATCH_SECONDS: Final = 0.025
PAUSE_SECONDS: Final = 0.025


class Pace:
    """Adapts the batch size to the time taken, pauses as long as it worked, and stops when it is told to."""

    def __init__(self, seconds: float = math.inf, stop: threading.Event | None = None) -> None:
        self._until = time.monotonic() + seconds
        self._stop = stop or threading.Event()
        self._size = MOST // 2

    @property
    def over(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._until

    def repeat(self, batch: Callable[[int], int]) -> int:
        """Run batches of at most `size` rows until one finds none. Returns the total number of rows."""
        total = 0
        while not self.over:
            started = time.monotonic()
            number = batch(self._size)
            seconds = time.monotonic() - started
            if not number:
                break
            total += number
            self._size = min(MOST, max(FEWEST, int(self._size * BATCH_SECONDS / max(seconds, 0.001))))
            self._stop.wait(max(PAUSE_SECONDS, seconds))
        return total
