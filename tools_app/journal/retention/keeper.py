"""Adds up days that are over, and prunes, now and then, in one of the processes that run for long."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from tools_app.journal.retention import clock
from tools_app.journal.retention.folding import fold
from tools_app.journal.retention.pace import Pace
from tools_app.journal.retention.pruning import LONG_AGO, prune
from tools_app.models import Chore

log = logging.getLogger("tools_app.journal.retention")

CHORE: Final = "prune"
EVERY: Final = timedelta(hours=1)
RUN_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 600.0
# After trouble, and where a run did not get through everything.
AGAIN_SECONDS: Final = 60.0


def claim(now: datetime) -> bool:
    """Whether it is this process that prunes now: at most one an hour, of however many there are."""
    if not Chore.objects.filter(name=CHORE).exists():
        Chore.objects.bulk_create([Chore(name=CHORE, done_at=LONG_AGO)], ignore_conflicts=True)
    # A time that lies far ahead was written by a clock that was wrong.
    due = Chore.objects.filter(name=CHORE).exclude(done_at__range=(now - EVERY, now + EVERY))
    # Looked at before it is written: a write that changes nothing would still wait for its turn.
    return due.exists() and due.update(done_at=now) == 1


def release() -> None:
    """There is more to do: whoever looks next may."""
    Chore.objects.filter(name=CHORE).update(done_at=LONG_AGO)


class Keeper:
    """Looks whether it is time to prune, in a thread with a connection that is open only while it works."""

    def __init__(self, first_seconds: float = FIRST_SECONDS, again_seconds: float = AGAIN_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._again_seconds = again_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="toolhub-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A batch that is under way is done to its end."""
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
                    log.warning("cannot delete what is old: %s", error)
                trouble = True
            except Exception:
                log.exception("deleting what is old failed")
            finally:
                connections.close_all()

    def _look(self) -> bool:
        """Prune if it is time. False: there is more to do."""
        now = timezone.now()
        if not claim(now):
            return True
        if (leap := clock.leap(now)) is not None:
            log.error("%s; %s", leap, clock.CURE)
            return True
        clock.believe(now)
        pace = Pace(RUN_SECONDS, self._stop)
        fold(now, pace)
        pruned = prune(now, pace)
        if any(pruned.counts.values()):
            log.info("deleted what is old: %s", pruned)
        if not pruned.finished:
            release()
        return pruned.finished
