"""Many rows, a few at a time, so that calls which wait for the journal do not notice."""

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
    """Learns from each batch how large the next may be, rests as long as it worked, and ends when it is told to."""

    def __init__(self, seconds: float = math.inf, stop: threading.Event | None = None) -> None:
        self._until = time.monotonic() + seconds
        self._stop = stop or threading.Event()
        self._size = MOST // 2

    @property
    def over(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._until

    def repeat(self, batch: Callable[[int], int]) -> int:
        """Do a batch of at most so many rows until one finds none. Returns how many rows there were."""
        total = 0
        while not self.over:
            begun = time.monotonic()
            done = batch(self._size)
            took = time.monotonic() - begun
            if not done:
                break
            total += done
            self._size = min(MOST, max(FEWEST, int(self._size * BATCH_SECONDS / max(took, 0.001))))
            self._stop.wait(max(PAUSE_SECONDS, took))
        return total
