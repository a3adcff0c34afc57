"""Work on large requests, in a thread, so that the event loop answers everybody else meanwhile.

The thread works on one piece at a time, and callers take turns. Of a hundred large requests of one caller, one is in
the queue of the thread: another caller waits for that one, and not for the hundred.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar
from weakref import WeakValueDictionary

R = TypeVar("R")

# From here on, taking turns costs less than what others would wait for.
LARGE_BYTES: Final = 64 * 1024

_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def in_turn(caller_id: str, work: Callable[[], R]) -> R:
    """What `work` returns or raises, when it is this caller's turn."""
    turn = _turns.get(caller_id)
    if turn is None:
        turn = _turns[caller_id] = asyncio.Lock()
    async with turn:
        return await asyncio.get_running_loop().run_in_executor(_thread(), work)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="toolhub-heavy")
