"""The state of a hub in this process: parts, each created at its first use, and all closed together.

    state = hub.part(CatalogState)      # of the hub of this context

Every room that keeps state defines a class for it, without parameters. A part that runs work has `async aclose()`, one
that holds threads, connections or hooks has `close()`; a part that is only memory has neither.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

P = TypeVar("P")


class Hub:
    """One hub. A process needs only the one that it has; several can run beside each other."""

    def __init__(self) -> None:
        self._parts: dict[type[Any], Any] = {}
        # Reentrant: a part may use others while it is created.
        self._lock = threading.RLock()
        # From the beginning of `aclose` on; parts are available until its end.
        self.is_closing = False
        self._is_closed = False

    def part(self, kind: type[P]) -> P:
        """The part of this class, created now if there is none. Thread-safe.

        Raises:
            RuntimeError: the hub is closed.
        """
        part: P | None = self._parts.get(kind)
        return part if part is not None else self._create(kind)

    def _create(self, kind: type[P]) -> P:
        with self._lock, self.active():
            if self._is_closed:
                raise RuntimeError("this hub is closed")
            part: P | None = self._parts.get(kind)
            if part is None:
                part = self._parts[kind] = kind()
            return part

    def drop(self, kind: type[Any]) -> None:
        """Close one part that does not run work; its next use creates another."""
        with self._lock:
            part = self._parts.pop(kind, None)
        if part is not None:
            _close(part)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the hub of the code inside, and of the tasks and work that it starts."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    def thread(self, work: Callable[[], object], name: str) -> threading.Thread:
        """A daemon thread that belongs to this hub. Nothing else of the caller's context reaches it, such as the id of
        a call, since the thread outlives the call."""
        arguments = (self._run, work)
        return threading.Thread(target=contextvars.Context().run, args=arguments, name=name, daemon=True)

    def _run(self, work: Callable[[], object]) -> None:
        _active.set(self)
        work()

    async def aclose(self) -> None:
        """Close all parts: first those that run work, since that work uses the others. Each in reverse order of
        creation. If this is the hub of the process, the next use begins a new one."""
        self.is_closing = True
        with self.active():
            for part in reversed(list(self._parts.values())):
                if hasattr(part, "aclose"):
                    await part.aclose()
            await asyncio.to_thread(self._close_parts)

    def close(self) -> None:
        """`aclose` for code without an event loop."""
        asyncio.run(self.aclose())

    def _close_parts(self) -> None:
        global _of_process
        with self._lock:
            self._is_closed = True
            parts = list(self._parts.values())
            self._parts.clear()
        if _of_process is self:
            _of_process = Hub()
        for part in reversed(parts):
            _close(part)


def current() -> Hub:
    """The hub of this context: the active one, otherwise that of the process."""
    return _active.get() or _of_process


def part(kind: type[P]) -> P:
    """A part of the current hub."""
    return (_active.get() or _of_process).part(kind)


def _close(part: Any) -> None:
    if hasattr(part, "close"):
        part.close()


_active: ContextVar[Hub | None] = ContextVar("toolhub_hub", default=None)
_of_process = Hub()
