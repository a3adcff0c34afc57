"""Runs work on large values off the event loop: parsing requests and responses, and building answers.

A deadline, and every other call, can only proceed while the event loop is not blocked.
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

# More threads would not help: the work needs the interpreter lock.
THREADS: Final = 2
# Smaller values take about a millisecond.
LARGE_BYTES: Final = 64 * 1024
VALUES: Final = 2_000
_PLAIN: Final = (int, float, bool, type(None))

_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="toolhub-heavy")
_lock: Final = threading.Lock()
_turns: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()
_working = 0
_collects = True


async def aside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread of this module. If the caller is cancelled, the work still runs to its end."""
    context = contextvars.copy_context()

    def job() -> R:
        with _no_collections():
            try:
                return context.run(work, *args, **kwargs)
            except StopIteration as error:  # cannot be set on a future
                raise RuntimeError("StopIteration") from error

    return await asyncio.get_running_loop().run_in_executor(_threads, job)


async def in_turn(caller_id: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same, for one piece of work per caller at a time, so that many requests of one do not delay the others."""
    turn = _turns.get(caller_id)
    if turn is None:
        turn = _turns[caller_id] = asyncio.Lock()
    async with turn:
        return await aside(work, *args, **kwargs)


async def by_size(value: Any, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work`, which reads all of `value`: here, or in a thread if the value is large."""
    return await aside(work, *args, **kwargs) if is_large(value) else work(*args, **kwargs)


def is_large(value: Any) -> bool:
    """Whether work on the whole value takes long. Objects whose size is unknown count as large."""
    values_left, characters_left = VALUES, LARGE_BYTES
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str | bytes):
            characters_left -= len(part)
        elif isinstance(part, dict):
            values_left -= len(part)
            pending += (*part.keys(), *part.values()) if values_left >= 0 else ()
        elif isinstance(part, list | tuple | set | frozenset):
            values_left -= len(part)
            pending += part if values_left >= 0 else ()
        elif not isinstance(part, _PLAIN):
            attributes = getattr(part, "__dict__", None)
            if attributes is None:
                return True
            values_left -= 1
            pending.append(attributes)
        if values_left < 0 or characters_left < 0:
            return True
    return False


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without the garbage collector, which would scan all new values repeatedly and stop every thread meanwhile.

    The values have no cycles. The collector is off for the whole process while such work runs.
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
