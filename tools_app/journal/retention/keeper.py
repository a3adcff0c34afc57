"""Seals the audit trail, aggregates and prunes periodically, in one of the long-running processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from tools_app.base import conf, hub
from tools_app.journal import disk, trail
from tools_app.journal.pace import Pace
from tools_app.journal.retention import clock
from tools_app.journal.retention.days import add_up
from tools_app.journal.retention.pruning import LONG_AGO, prune
from tools_app.models import Chore
from tools_app.models.figures import DAY

log = logging.getLogger("tools_app.journal.retention")

CHORE: Final = "prune"
EVERY: Final = timedelta(hours=1)
# A little less than the time between two looks.
SEALS: Final = "seal"
SEAL_EVERY: Final = timedelta(seconds=50)
RUN_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 60.0
# After an error, and if a run did not finish.
AGAIN_SECONDS: Final = 60.0


def claim(now: datetime, name: str = CHORE, every: timedelta = EVERY) -> bool:
    """True if this process does a task now: of all processes, one in that time."""
    if not Chore.objects.filter(name=name).exists():
        Chore.objects.bulk_create([Chore(name=name, done_at=LONG_AGO)], ignore_conflicts=True)
    # A time far in the future was written with a wrong clock.
    due = Chore.objects.filter(name=name).exclude(done_at__range=(now - every, now + every))
    # Checked before the update: even a write without effect would wait for the lock.
    return due.exists() and due.update(done_at=now) == 1


def release() -> None:
    """Reset the last-run time so that any process may prune again at once."""
    Chore.objects.filter(name=CHORE).update(done_at=LONG_AGO)


class Keeper:
    """Checks periodically whether to prune, in a thread whose connection is open only while it works."""

    def __init__(self, first_seconds: float = FIRST_SECONDS, again_seconds: float = AGAIN_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._again_seconds = again_seconds
        self._stop = threading.Event()
        self._thread = hub.current().thread(self._keep, "toolhub-keeper")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stop.set()
        self._thread.join(timeout=2)

    def _keep(self) -> None:
        seconds = self._first_seconds
        tasks: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("delete expired records", self._look),
            ("seal the audit trail", self._seal),
        )
        trouble: set[str] = set()
        while not self._stop.wait(seconds):
            seconds = LOOK_SECONDS
            for words, task in tasks:
                if not self._does(words, task, trouble):
                    seconds = self._again_seconds

    def _does(self, words: str, task: Callable[[], bool], trouble: set[str]) -> bool:
        """False: it failed, or there is more to do."""
        try:
            is_done = task()
            trouble.discard(words)
            return is_done
        except (DatabaseError, InterfaceError, trail.UnsettledError, trail.ExportError) as error:
            if words not in trouble:
                log.warning("cannot %s: %s", words, error)
            trouble.add(words)
        except Exception:
            log.exception("cannot %s", words)
        finally:
            connections.close_all()
        return False

    def _seal(self) -> bool:
        """Seal new audit entries, and export them where that is set."""
        pace = Pace(RUN_SECONDS, self._stop)
        if claim(timezone.now(), SEALS, SEAL_EVERY):
            trail.seal(pace)
        directory: Path | None = conf.value("TOOLHUB_AUDIT_DIR")
        if directory is not None and trail.is_due(directory):
            trail.export(directory, actor=trail.HUB)
        return not pace.over

    def _look(self) -> bool:
        """Prune if it is due, and measure the disk. False: there is more to do."""
        try:
            return self._prune_if_due()
        finally:
            # Last: pruning must not wait for a file system that does not answer.
            disk.sample(timezone.now())

    def _prune_if_due(self) -> bool:
        now = timezone.now()
        if not claim(now):
            return True
        if (leap := clock.leap(now)) is not None:
            log.error("%s; %s", leap, clock.CURE)
            return True
        clock.believe(now)
        pace = Pace(RUN_SECONDS, self._stop)
        for day in (now, now - DAY):
            # Processes of the previous release add to hours only.
            add_up(day)
        pruned = prune(now, pace)
        if any(pruned.counts.values()):
            log.info("deleted expired records: %s", pruned)
        if not pruned.finished:
            release()
        return pruned.finished
