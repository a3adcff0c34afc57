"""Sees to it that what changes in the tools directory is taken up, and written down, while the process runs."""

from __future__ import annotations

import logging
import threading
from typing import Final

from django.db import DatabaseError, InterfaceError, connections

from tools_app import sources
from tools_app.base import conf
from tools_app.sdk.names import folded
from tools_app.sources import sync
from tools_app.sources.registry import Origin

log = logging.getLogger("tools_app.sources")

# A file is taken up at the second look that finds it the same.
LOOK_SECONDS: Final = 0.5
TROUBLE_TIMES: Final = 10
ACTOR: Final = "tools directory"


class Watcher:
    """Looks at the tools directory, where there is one, in a thread; at the database only after a change."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toolhub-watcher", daemon=True)
        # What is written down of each tool of the directory, by its name: its fingerprint and its place.
        self._written: dict[str, tuple[str, str]] = {}

    def start(self) -> None:
        if conf.value("TOOLHUB_TOOLS_DIR") is not None:
            self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Look no more; a file that is being executed is waited for so long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _watch(self) -> None:
        trouble = False
        seconds = 0.0
        while not self._stop.wait(seconds):
            seconds = self._look_seconds
            try:
                sources.look()
                self._write()
                trouble = False
            except (DatabaseError, InterfaceError) as error:
                if not trouble:
                    log.warning("what has changed in the tools directory cannot be written down: %s", error)
                trouble = True
                seconds *= TROUBLE_TIMES
            except Exception:
                log.exception("looking at the tools directory failed")
                seconds *= TROUBLE_TIMES

    def _write(self) -> None:
        """Write down what differs from what was written last. Other processes do the same, and find it done."""
        registry = sources.loaded()
        there = {loaded.tool.name: loaded for loaded in registry if loaded.origin is Origin.FILE}
        now = {name: (loaded.tool.fingerprint, loaded.tool.place) for name, loaded in there.items()}
        changed = [there[name] for name, identity in now.items() if self._written.get(name) != identity]
        missing = {name: identity for name, identity in self._written.items() if name not in registry}
        # What is there but broken has not gone: it waits to be mended, or to go after all.
        problems = registry.problems
        waiting = {
            name: (fingerprint, place)
            for name, (fingerprint, place) in missing.items()
            if any(problem.keeps_out(name, place) for problem in problems)
        }
        gone = [name for name in missing if name not in waiting]
        if changed or gone:
            try:
                resting = sync.names_of(registry.resting)
                changed = [loaded for loaded in changed if loaded.tool.folded_name not in resting]
                gone = [name for name in gone if folded(name) not in resting]
                report = sync.follow(changed, gone, actor=ACTOR)
            finally:
                connections.close_all()
            if report.added or report.changed or report.returned or report.retired:
                log.info("the tools directory has changed: %s", report)
        self._written = now | waiting
