"""Detects calls of processes that died, by leases.

A process that runs a tool which writes holds a lease, renewed every second (heartbeat). When it expires, any other
process marks its open calls as interrupted: their outcome is unknown, and they are not repeated. If the process was
only suspended, it continues, and the true outcome of its calls replaces that mark.

All times are the database's: the clocks of machines differ.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from django.db import connection, transaction
from django.db.models import Value
from django.db.models.functions import Now

from tools_app.journal import rows
from tools_app.models import Call, Process

BUSY_LEASE: Final = 4.0
BUSY_BEAT: Final = 1.0
IDLE_LEASE: Final = 90.0
IDLE_BEAT: Final = 30.0
# A lease further in the future was written with a wrong clock.
LONGEST_LEASE: Final = timedelta(minutes=10)
# A process that ends after a call or two need not register at all.
ANNOUNCE_AFTER: Final = 5.0

INTERRUPTED: Final = "INTERRUPTED"
WORDS: Final = "The process ended during the call; whether the change was made is unknown"

_LEASE: Final = """
    INSERT INTO tools_app_process (id, kind, host, pid, started_at, lease_until) VALUES (%s, %s, %s, %s, %s, {})
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
"""
_RENEW: Final = {
    "sqlite": _LEASE.format("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s || ' seconds')"),
    "postgresql": _LEASE.format("clock_timestamp() + make_interval(secs => %s)"),
}


class Lease:
    """The lease of this process. Used by the journal's thread, inside its transactions."""

    def __init__(self, now: float) -> None:
        self.process_id = secrets.token_hex(16)
        self.open: set[str] = set()
        self._began = now
        self._renewed: float | None = None
        self._busy = False

    def due(self, now: float) -> float:
        """Seconds until the lease has to be renewed; 0 or less means now."""
        if self._renewed is None:
            return 0.0 if self.open else self._began + ANNOUNCE_AFTER - now
        if self.open and not self._busy:
            return 0.0
        return self._renewed + (BUSY_BEAT if self._busy else IDLE_BEAT) - now

    def renew(self) -> None:
        """Write the lease. `renewed` must be called after the commit."""
        seconds = BUSY_LEASE if self.open else IDLE_LEASE
        started_at = Process._meta.get_field("started_at").get_db_prep_save(datetime.now(UTC), connection)
        with connection.cursor() as cursor:
            cursor.execute(
                _RENEW[connection.vendor],
                [self.process_id, _kind(), socket.gethostname()[:100], os.getpid(), started_at, seconds],
            )

    def renewed(self, now: float) -> None:
        self._renewed, self._busy = now, bool(self.open)

    def give_back(self) -> None:
        """Delete the lease at a regular end: there is nothing to detect."""
        if self._renewed is not None and not self.open:
            Process.objects.filter(pk=self.process_id).delete()


def interrupt_orphans(own_id: str) -> tuple[int, bool]:
    """Mark calls of processes with an expired lease. Returns their number, and whether other calls are still open."""
    open_calls = Call.objects.filter(status=Call.Status.STARTED).exclude(process_id=own_id)
    if not open_calls.exists():
        return 0, False
    with transaction.atomic():
        alive = Process.objects.filter(lease_until__gte=Now(), lease_until__lte=Now() + Value(LONGEST_LEASE)).values(
            "pk"
        )
        orphans = list(
            open_calls.exclude(process_id__in=alive).select_for_update(skip_locked=True).order_by("pk")[:1000]
        )
        now = datetime.now(UTC)
        for call in orphans:
            call.status, call.code, call.error, call.finished_at = Call.Status.INTERRUPTED, INTERRUPTED, WORDS, now
        orphan_rows = Call.objects.filter(pk__in=[call.pk for call in orphans])
        orphan_rows.update(status=Call.Status.INTERRUPTED, code=INTERRUPTED, error=WORDS, finished_at=now)
        rows.insert_counts((call, 1) for call in orphans)
        return len(orphans), open_calls.exists()


def forget_the_dead() -> None:
    """Delete processes whose lease expired long ago, with the agents connected to them."""
    Process.objects.filter(lease_until__lt=Now() - Value(LONGEST_LEASE)).delete()


def _kind() -> str:
    """How this process was started: `serve`, `runmcp`, or the program that embeds the hub."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    command = sys.argv[1] if name in {"toolhub", "manage.py", "__main__.py"} and len(sys.argv) > 1 else name
    return command[:16] or "python"
