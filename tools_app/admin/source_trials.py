"""Tests of a source outside from a page: a test may take longer than the page waits."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from django.db import connections

from tools_app.base import hub
from tools_app.sdk.errors import ToolError

log = logging.getLogger("tools_app.admin")

# Proxies in front of a hub often end requests after 30 s.
SECONDS: Final = 25.0
# A first start may download a program. A test that takes longer is not waited for any more.
MOST_SECONDS: Final = 600.0


Result = TypeVar("Result")


@dataclass
class Trial(Generic[Result]):
    """A test that was started, and its result once there is one."""

    name: str
    work: Callable[[], Result]
    started: float = field(default_factory=time.monotonic)
    result: Result | None = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)
    is_shown: bool = False

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.started)

    def run(self) -> None:
        try:
            self.result = self.work()
        except Exception as error:
            if not isinstance(error, ToolError):
                log.exception("the test of source %s failed", self.name)
            self.error = error
        finally:
            connections.close_all()
            self.done.set()


class Trials:
    """The tests whose results were not shown yet, by kind and source: asking again waits for the same test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str, int], Trial[Any]] = {}

    def join(self, kind: str, name: str, epoch: int, work: Callable[[], Result]) -> Trial[Result]:
        """The test of this kind and source, started now if there is none."""
        with self._lock:
            self._running = {
                key: trial
                for key, trial in self._running.items()
                if not trial.is_shown and trial.seconds < MOST_SECONDS
            }
            trial = self._running.get((kind, name, epoch))
            if trial is None:
                trial = self._running[kind, name, epoch] = Trial(name, work)
                # With the origin of the request, for the audit trail.
                context = contextvars.copy_context()
                hub.current().thread(lambda: context.run(trial.run), f"{kind}-{name}").start()
        return trial


def run(kind: str, name: str, epoch: int, work: Callable[[], Result]) -> Trial[Result]:
    """Test a source, or wait for the test that runs. After `SECONDS` it returns without a result.

    Raises:
        ToolError: the test could not be made.
    """
    trial = hub.part(Trials).join(kind, name, epoch, work)
    trial.is_shown = trial.done.wait(SECONDS)
    if trial.is_shown and trial.error is not None:
        raise trial.error
    return trial
