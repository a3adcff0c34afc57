"""The thread that finds, routes and sends alerts. Every long-running process has one; a lease has one of them work.

Each rule has a thread while it has messages: a receiver that is slow delays no other, and nothing else of the hub.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.db.models import Q
from django.utils import timezone

from tools_app.base import hub
from tools_app.models import AlertDelivery, Chore

log = logging.getLogger("tools_app.alerts")

CHORE: Final = "alerts"
LEASE: Final = timedelta(seconds=16)
# A lease further in the future was written with a wrong clock.
LONGEST_LEASE: Final = timedelta(minutes=10)
LOOK_SECONDS: Final = 2.0
FIND_SECONDS: Final = 10.0
MOST_RULES_AT_ONCE: Final = 8


class Sender:
    """`first_seconds`: until it first looks. Processes for agents start late, and look seldom."""

    def __init__(self, look_seconds: float = LOOK_SECONDS, first_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._first_seconds = first_seconds
        self._holder = f"{socket.gethostname()[:20]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._stop = threading.Event()
        self._found_at: float | None = None
        # Rules whose messages are being sent.
        self._busy: set[int] = set()
        self._thread = hub.current().thread(self._run, "toolhub-alerts")

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stop, and leave the lease to others. A message that is being sent ends by itself, or is sent again."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        trouble = False
        seconds = self._first_seconds
        while not self._stop.wait(seconds):
            seconds = self._look_seconds
            try:
                if hold(self._holder, timezone.now()):
                    self.look()
                trouble = False
            except (DatabaseError, InterfaceError) as error:
                if not trouble:
                    log.warning("alerts cannot be sent: %s", error)
                trouble = True
            except Exception:
                log.exception("sending alerts failed")
            finally:
                connections.close_all()
        try:
            leave(self._holder)
        except (DatabaseError, InterfaceError):
            pass  # It ends by itself.
        finally:
            connections.close_all()

    def look(self) -> None:
        """Do what is due."""
        # Imported at the first look: an agent waits for the start of its process.
        from tools_app.alerts.finding import find
        from tools_app.alerts.routing import AT_ONCE, route

        now = time.monotonic()
        if self._found_at is None or now - self._found_at >= FIND_SECONDS:
            self._found_at = now
            find(timezone.now())
        while route(timezone.now()) == AT_ONCE and not self._stop.is_set():
            continue
        due = AlertDelivery.objects.filter(
            state=AlertDelivery.State.QUEUED, rule__enabled=True, next_attempt_at__lte=timezone.now()
        )
        waiting = due.exclude(rule_id__in=list(self._busy)).order_by().values_list("rule_id", flat=True).distinct()
        for rule_id in list(waiting[: max(0, MOST_RULES_AT_ONCE - len(self._busy))]):
            self._busy.add(rule_id)
            hub.current().thread(partial(self._send, rule_id), "toolhub-alerts-rule").start()

    def _send(self, rule_id: int) -> None:
        """Send what is due of a rule, until one message fails: the others would fail, too."""
        from tools_app.alerts import sending

        try:
            while not self._stop.is_set() and hold(self._holder, timezone.now()):
                now = timezone.now()
                due = AlertDelivery.objects.filter(
                    rule=rule_id, rule__enabled=True, state=AlertDelivery.State.QUEUED, next_attempt_at__lte=now
                )
                delivery = due.select_related("rule", "alert").order_by("next_attempt_at", "created_at").first()
                if delivery is None or (sending.claim(delivery, now) and sending.send(delivery).error):
                    break
        except (DatabaseError, InterfaceError) as error:
            log.warning("the messages of an alert rule cannot be read: %s", error)
        except Exception:
            log.exception("sending the messages of an alert rule failed")
        finally:
            self._busy.discard(rule_id)
            connections.close_all()


def hold(holder: str, now: datetime) -> bool:
    """Take or keep the lease. False: another process has it."""
    lease = Chore.objects.filter(name=CHORE).first()
    if lease is None:
        Chore.objects.bulk_create([Chore(name=CHORE, done_at=now)], ignore_conflicts=True)
    elif lease.holder == holder and now + LEASE / 2 < lease.done_at <= now + LEASE:
        return True
    elif lease.holder != holder and now < lease.done_at < now + LONGEST_LEASE:
        return False
    free = Q(holder=holder) | Q(done_at__lte=now) | Q(done_at__gt=now + LONGEST_LEASE)
    return Chore.objects.filter(free, name=CHORE).update(holder=holder, done_at=now + LEASE) == 1


def leave(holder: str) -> None:
    """Let another process take the lease at once."""
    Chore.objects.filter(name=CHORE, holder=holder).update(holder="", done_at=timezone.now())
