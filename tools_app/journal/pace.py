"""Processes many rows in small batches, so that calls waiting for the journal are not delayed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

# Rows in a batch: some milliseconds.
BATCH: Final = 200
PAUSE_SECONDS: Final = 0.025
# Characters of arguments in a batch: the index of SQLite reads each text again to delete it.
MOST_TEXT: Final = 256 * 1024


def fitting(sizes: Iterable[int]) -> int:
    """How many of these texts are a batch: at least one."""
    return max(1, sum(total <= MOST_TEXT for total in accumulate(sizes)))


class Pace:
    """Pauses as long as it worked, and stops when its time is over or it is told to."""

    def __init__(self, seconds: float = math.inf, stop: threading.Event | None = None) -> None:
        self._until = time.monotonic() + seconds
        self._stop = stop or threading.Event()

    @property
    def over(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._until

    def repeat(self, batch: Callable[[], int]) -> int:
        """Run batches until one has nothing to do. Returns the total number of rows."""
        total = number = 0
        while not self.over:
            started = time.monotonic()
            if not (number := batch()):
                break
            total += number
            self._stop.wait(max(PAUSE_SECONDS, time.monotonic() - started))
        return total
