"""Work on large values, kept off the event loop: reading what callers and upstreams send, and forming answers.

Everything here is about time: a deadline can only end what lets the event loop have its turn, and so can other calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
R = TypeVar("R")

# More would only take turns with each other: all of it is work for one processor.
THREADS: Final = 2
# What is smaller takes about a millisecond.
LARGE_BYTES: Final = 64 * 1024
VALUES: Final = 2_000
_PLAIN: Final = (int, float, bool, type(None))

_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="toolhub-heavy")
_lock: Final = threading.Lock()
_turns: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()
_working = 0
_collects = True


async def aside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` returns, done in a thread of this module. A caller that stops waiting leaves it to its end."""
    context = contextvars.copy_context()

    def job() -> R:
        with _no_collections():
            try:
                return context.run(work, *args, **kwargs)
            except StopIteration as error:  # a future refuses it
                raise RuntimeError("StopIteration") from error

    return await asyncio.get_running_loop().run_in_executor(_threads, job)


async def in_turn(caller_id: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same, one piece of a caller at a time: others wait for one of its hundred requests, and not for all."""
    turn = _turns.get(caller_id)
    if turn is None:
        turn = _turns[caller_id] = asyncio.Lock()
    async with turn:
        return await aside(work, *args, **kwargs)


async def by_size(value: Any, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work`, which goes through all of `value`, returns: done here, or aside where that takes long."""
    return await aside(work, *args, **kwargs) if is_large(value) else work(*args, **kwargs)


def is_large(value: Any) -> bool:
    """Whether work on all of it takes long. What cannot be looked into is taken for large."""
    left, letters = VALUES, LARGE_BYTES
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str | bytes):
            letters -= len(part)
        elif isinstance(part, dict):
            left -= len(part)
            waiting += (*part.keys(), *part.values()) if left >= 0 else ()
        elif isinstance(part, list | tuple | set | frozenset):
            left -= len(part)
            waiting += part if left >= 0 else ()
        elif not isinstance(part, _PLAIN):
            inside = getattr(part, "__dict__", None)
            if inside is None:
                return True
            left -= 1
            waiting.append(inside)
        if left < 0 or letters < 0:
            return True
    return False


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without the garbage collector, which would look at all new values again and again, and stop every thread for it.

    What is made here has no cycles. It is off for the whole process, and for as long as such work takes.
    """
    global _working, _collects
    with _lock:
        if not _working:
            _collects = gc.isenabled()
        _working += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _working -= 1
            if not _working and _collects:
                gc.enable()
