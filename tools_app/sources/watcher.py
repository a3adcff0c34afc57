"""Reloads the tools directory and records its changes while the process runs."""

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

# A changed file is loaded at the second check that finds it unchanged (debounce).
LOOK_SECONDS: Final = 0.5
TROUBLE_TIMES: Final = 10
ACTOR: Final = "tools directory"


class Watcher:
    """Checks the tools directory, if there is one, in a thread; uses the database only after a change."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toolhub-watcher", daemon=True)
        # The recorded state of the directory's tools, by name: fingerprint and place.
        self._written: dict[str, tuple[str, str]] = {}

    def start(self) -> None:
        if conf.value("TOOLHUB_TOOLS_DIR") is not None:
            self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stop; waits up to `seconds` for a file that is being executed."""
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
                    log.warning("changes of the tools directory cannot be recorded: %s", error)
                trouble = True
                seconds *= TROUBLE_TIMES
            except Exception:
                log.exception("checking the tools directory failed")
                seconds *= TROUBLE_TIMES

    def _write(self) -> None:
        """Record the changes since the last time. Other processes do the same; the second one changes nothing."""
        registry = sources.loaded()
        tools = {loaded.tool.name: loaded for loaded in registry if loaded.origin is Origin.FILE}
        now = {name: (loaded.tool.fingerprint, loaded.tool.place) for name, loaded in tools.items()}
        changed_tools = [tools[name] for name, identity in now.items() if self._written.get(name) != identity]
        unloaded = {name: identity for name, identity in self._written.items() if name not in registry}
        # A tool whose file fails to load is not gone: the file may be fixed, or deleted later.
        problems = registry.problems
        broken = {
            name: (fingerprint, place)
            for name, (fingerprint, place) in unloaded.items()
            if any(problem.keeps_out(name, place) for problem in problems)
        }
        removed = [name for name in unloaded if name not in broken]
        if changed_tools or removed:
            try:
                resting = sync.names_of(registry.resting)
                changed_tools = [loaded for loaded in changed_tools if loaded.tool.folded_name not in resting]
                removed = [name for name in removed if folded(name) not in resting]
                report = sync.follow(changed_tools, removed, actor=ACTOR)
            finally:
                connections.close_all()
            if report.added or report.changed or report.returned or report.retired:
                log.info("the tools directory has changed: %s", report)
        self._written = now | broken
