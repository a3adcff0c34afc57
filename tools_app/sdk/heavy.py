"""Runs work on large values off the event loop: parsing requests and responses, and building answers.

A deadline, and every other call, can only proceed while the event loop is not blocked.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
R = TypeVar("R")

# More threads would not help: the work needs the interpreter lock.
THREADS: Final = 2
# Smaller values take about a millisecond.
LARGE_BYTES: Final = 64 * 1024
VALUES: Final = 2_000
# How long a caller's work pauses for each second of it while others send requests; seconds.
PAUSES: Final = 2.0
SHORTEST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.3
LATELY_SECONDS: Final = 2.0
_TEXTS: Final = (str, bytes)
_PLAIN: Final = (int, float, bool, type(None))
_LISTS: Final = (list, tuple, set, frozenset)

_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="toolhub-heavy")
_lock: Final = threading.Lock()
# By loop, as a lock works on one only.
_turns: Final[WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock]] = WeakValueDictionary()
_working = 0
_collects = True


@dataclass(slots=True)
class Arrivals:
    """When which callers sent requests lately: who is alone need not leave time to others."""

    last: tuple[str, float] = ("", float("-inf"))
    # Of another caller than the last.
    other: tuple[str, float] = ("", float("-inf"))

    def note(self, caller_id: str) -> None:
        if caller_id != self.last[0]:
            self.other = self.last
        self.last = caller_id, time.monotonic()

    def has_others(self, caller_id: str) -> bool:
        at = self.other[1] if self.last[0] == caller_id else self.last[1]
        return time.monotonic() - at < LATELY_SECONDS


# Of this process, as its threads.
arrivals: Final = Arrivals()
# What the work of a request costs is charged to its caller: called on the event loop with seconds of processor time.
charged: Final[ContextVar[Callable[[float], None] | None]] = ContextVar("charged", default=None)


async def aside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread of this module. If the caller is cancelled, the work still runs to its end."""
    context, loop, charge = contextvars.copy_context(), asyncio.get_running_loop(), charged.get()

    def job() -> R:
        begin = time.thread_time()
        with without_collections():
            try:
                return context.run(work, *args, **kwargs)
            except StopIteration as error:  # cannot be set on a future
                raise RuntimeError("StopIteration") from error
            finally:
                if charge is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        loop.call_soon_threadsafe(charge, time.thread_time() - begin)

    return await loop.run_in_executor(_threads, job)


async def in_turn(caller_id: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same, for one piece of work per caller at a time, so that many requests of one do not delay the others.

    While there are others, the caller's next piece waits: it has a third of the time. Between these pieces, the event
    loop gets the interpreter lock at once.
    """
    key = asyncio.get_running_loop(), caller_id
    turn = _turns.get(key)
    if turn is None:
        turn = _turns[key] = asyncio.Lock()
    await turn.acquire()
    begin = time.monotonic()

    def pass_on(_: object) -> None:
        pause = min(PAUSES * (time.monotonic() - begin), LONGEST_PAUSE)
        if pause > SHORTEST_PAUSE and arrivals.has_others(caller_id):
            key[0].call_later(pause, turn.release)
        else:
            turn.release()

    # Also if the caller is cancelled, the turn lasts until the work has ended.
    job = asyncio.ensure_future(aside(work, *args, **kwargs))
    job.add_done_callback(pass_on)
    return await asyncio.shield(job)


async def by_size_in_turn(caller_id: str, value: Any, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`by_size`, where a large value waits for the turn of the caller."""
    return await in_turn(caller_id, work, *args, **kwargs) if is_large(value) else work(*args, **kwargs)


async def by_size(value: Any, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work`, which reads all of `value`: here, or in a thread if the value is large."""
    return await aside(work, *args, **kwargs) if is_large(value) else work(*args, **kwargs)


def is_large(value: Any) -> bool:
    """Whether work on the whole value takes long. Objects whose size is unknown count as large."""
    return measured(value, VALUES).is_large(VALUES)


class Extent(NamedTuple):
    """How much there is to read in a value. If there are more parts than the limit, the other figures are too low."""

    parts: int
    characters: int
    # Levels of objects and lists.
    depth: int

    def is_large(self, most_parts: int) -> bool:
        return self.parts > most_parts or self.characters > LARGE_BYTES


def measured(value: Any, most_parts: int) -> Extent:
    """The extent of a value, in one walk that ends when it has more than `most_parts`."""
    parts = characters = depth = number = 0
    level = [value]
    while level:
        number += 1
        next_level: list[Any] = []
        for part in level:
            if isinstance(part, _TEXTS):
                characters += len(part)
            elif isinstance(part, _PLAIN):
                continue
            elif isinstance(part, dict):
                parts, depth = parts + len(part), number
                next_level += chain.from_iterable(part.items()) if parts <= most_parts else ()
            elif isinstance(part, _LISTS):
                parts, depth = parts + len(part), number
                next_level += part if parts <= most_parts else ()
            else:
                attributes = getattr(part, "__dict__", None)
                characters += LARGE_BYTES + 1 if attributes is None else 0
                next_level += () if attributes is None else (attributes,)
                parts += 1
            if parts > most_parts:
                return Extent(parts, characters, depth)
        level = next_level
    return Extent(parts, characters, depth)


@contextmanager
def without_collections() -> Iterator[None]:
    """Without the garbage collector, which would scan all objects, repeatedly where many are new.

    It stops every thread meanwhile, and others who wait for what this one has locked. It is off for the whole process
    while such work runs, which makes few cycles.
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
