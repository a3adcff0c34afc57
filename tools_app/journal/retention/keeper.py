"""Runs aggregation and pruning periodically, in one of the long-running processes."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from tools_app.base import hub
from tools_app.journal.retention import clock
from tools_app.journal.retention.days import add_up
from tools_app.journal.retention.pace import Pace
from tools_app.journal.retention.pruning import LONG_AGO, prune
from tools_app.models import Chore
from tools_app.models.figures import DAY

log = logging.getLogger("tools_app.journal.retention")

CHORE: Final = "prune"
EVERY: Final = timedelta(hours=1)
RUN_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 600.0
# After an error, and if a run did not finish.
AGAIN_SECONDS: Final = 60.0


def claim(now: datetime) -> bool:
    """True if this process prunes now: of all processes, one an hour."""
    if not Chore.objects.filter(name=CHORE).exists():
        Chore.objects.bulk_create([Chore(name=CHORE, done_at=LONG_AGO)], ignore_conflicts=True)
    # A time far in the future was written with a wrong clock.
    due = Chore.objects.filter(name=CHORE).exclude(done_at__range=(now - EVERY, now + EVERY))
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
        trouble = False
        while not self._stop.wait(seconds):
            seconds = self._again_seconds
            try:
                if self._look():
                    seconds = LOOK_SECONDS
                trouble = False
            except (DatabaseError, InterfaceError) as error:
                if not trouble:
                    log.warning("cannot delete expired records: %s", error)
                trouble = True
            except Exception:
                log.exception("deleting expired records failed")
            finally:
                connections.close_all()

    def _look(self) -> bool:
        """Prune if it is due. False: there is more to do."""
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
