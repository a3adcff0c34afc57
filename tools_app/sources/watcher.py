"""Reloads the tools directory, tries failed sources again and lists those outside, while the process runs."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from django.db import DatabaseError, InterfaceError, connections

from tools_app import sources
from tools_app.base import hub
from tools_app.sources import sync
from tools_app.sources.lister import Lister
from tools_app.sources.recording import SyncReport

log = logging.getLogger("tools_app.sources")

# A changed file is loaded at the second check that finds it unchanged (debounce).
LOOK_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 15.0
TROUBLE_TIMES: Final = 10
ACTOR: Final = "tools directory"


class Watcher:
    """A thread that uses the database only after a change, and every few seconds for failed sources."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = hub.current().thread(self._watch, "toolhub-watcher")
        self._lister = Lister()
        # Whether there may be a change that is not recorded yet.
        self._is_unrecorded = True
        self._retried_at = time.monotonic()

    def start(self) -> None:
        self._thread.start()
        self._lister.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stop; waits up to `seconds` for a file that is being executed."""
        self._stop.set()
        self._lister.stop(seconds)
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _watch(self) -> None:
        trouble = False
        seconds = 0.0
        while not self._stop.wait(seconds):
            seconds = self._look_seconds if sources.current().folder is not None else RETRY_SECONDS
            try:
                self._look()
                trouble = False
            except (DatabaseError, InterfaceError) as error:
                if not trouble:
                    log.warning("changes of sources cannot be recorded: %s", error)
                trouble = True
                seconds *= TROUBLE_TIMES
            except Exception:
                log.exception("checking the sources failed")
                seconds *= TROUBLE_TIMES

    def _look(self) -> None:
        here = sources.current()
        if here.look():
            self._is_unrecorded = True
        try:
            if self._is_unrecorded and here.folder is not None:
                # Other processes do the same; the second one finds it recorded.
                _tell(sync.sync_changed(here.folder, actor=ACTOR))
                self._is_unrecorded = False
            if time.monotonic() - self._retried_at >= RETRY_SECONDS:
                self._retried_at = time.monotonic()
                _tell(sync.retry())
        finally:
            connections.close_all()


def _tell(report: SyncReport) -> None:
    if report.added or report.changed or report.returned or report.retired:
        log.info("tools have changed: %s", report)
