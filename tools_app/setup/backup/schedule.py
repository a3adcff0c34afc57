"""Makes backups regularly: a thread of `serve` looks whether one is due, and a process of its own makes it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from tools_app.base import hub
from tools_app.models import Chore
from tools_app.setup import installation
from tools_app.setup.backup import status

log = logging.getLogger("tools_app.setup.backup")

BEGUN: Final = "backup-begun"
FIRST_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 60.0
AGAIN: Final = timedelta(hours=1)
# Of the process, after it was told to end.
END_SECONDS: Final = 1.5


def claim(now: datetime) -> bool:
    """True if this process makes the backup that is due: of all processes, one."""
    every = status.interval()
    if every is None:
        return False
    made_at = status.last_good()
    # A time in the future was written with a wrong clock.
    if made_at is not None and timedelta() <= now - made_at < every:
        return False
    begun, is_new = Chore.objects.get_or_create(name=BEGUN, defaults={"done_at": now})
    # One that failed is tried again.
    if is_new:
        return True
    if timedelta() <= now - begun.done_at < min(every, AGAIN):
        return False
    return Chore.objects.filter(name=BEGUN, done_at=begun.done_at).update(done_at=now) == 1


class Scheduler:
    """The thread. Its connection is open only while it looks."""

    def __init__(self, first_seconds: float = FIRST_SECONDS, look_seconds: float = LOOK_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = hub.current().thread(self._run, "toolhub-backups")

    def start(self) -> None:
        if status.interval() is not None:
            self._thread.start()

    def stop(self) -> None:
        """A backup that is being made ends without a file."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2 * END_SECONDS)

    def _run(self) -> None:
        seconds = self._first_seconds
        while not self._stop.wait(seconds):
            seconds = self._look_seconds
            try:
                if claim(timezone.now()):
                    connections.close_all()
                    self._make()
            except (DatabaseError, InterfaceError) as error:
                log.warning("cannot see whether a backup is due: %s", error)
            except Exception:
                log.exception("the scheduled backup failed")
            finally:
                connections.close_all()

    def _make(self) -> None:
        # Not in a thread: it would compete with calls for the interpreter.
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "backup", "--scheduled"],
            env=installation.environment_of_children(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    if self._stop.is_set():
                        process.terminate()
                        self._end(process)
                        return
        line = (output.strip().splitlines() or ["no message"])[-1]
        if process.returncode:
            log.error("the scheduled backup failed: %s", line)
        else:
            log.info("scheduled backup: %s", line)

    def _end(self, process: subprocess.Popen[str]) -> None:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
