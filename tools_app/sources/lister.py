"""Lists sources outside when they are due. Every process may; a lease in the database has one of them do it.

Due are sources that were never listed, HTTP sources after a few minutes, documents after an hour, and any source whose
`next_try_at` has come: it reported a change, an operator asked for it, or it failed some time ago. A child process that
has stopped is not started only to list it again: it is listed when a call starts it, which makes it due.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import DatabaseError, InterfaceError, connections
from django.db.models import Q
from django.utils import timezone

from tools_app.base import hub, ports
from tools_app.base.ports import UnavailableError
from tools_app.models import Source, SourceStatus
from tools_app.sources import outside, sync
from tools_app.sources.outside import OutsideProvider, Wake

log = logging.getLogger("tools_app.sources")

# Changes that other processes record are found after this time, and those of this process at once.
POLL_SECONDS: Final = 5.0
PERIOD_SECONDS: Final = 300.0
# Documents change rarely, and may be large.
DOCUMENT_SECONDS: Final = 3600.0
LEASE_SECONDS: Final = 30.0
MOST_AT_ONCE: Final = 8
# A listing that takes longer is given up: its thread may never end.
MOST_SECONDS: Final = 900.0
# A source that reports changes without end is listed at most this many times in this time.
MOST_LISTINGS: Final = 6
LISTINGS_SECONDS: Final = 60.0
ACTOR: Final = "sync"


class Lister:
    """A thread that finds sources that are due, and one for each of them, so that none waits for another."""

    def __init__(self, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self._holder = f"{socket.gethostname()[:20]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._wake = hub.part(Wake).event
        self._stopped = threading.Event()
        # The sources that are listed now, each with the time at which that began.
        self._running: dict[str, float] = {}
        # When sources were listed last.
        self._begun: dict[str, deque[float]] = {}
        self._thread = hub.current().thread(self._run, "toolhub-lister")

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stop. Listings that have begun may end later; those of children can take minutes."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        trouble = False
        renewed_at = 0.0
        while not self._stopped.is_set():
            # Not at once: a process that starts has more urgent work.
            self._wake.wait(self._poll_seconds)
            self._wake.clear()
            if self._stopped.is_set():
                break
            try:
                if self._running and time.monotonic() - renewed_at >= LEASE_SECONDS / 3:
                    renewed_at = time.monotonic()
                    self._renew()
                self._look()
                _end_outdated()
                trouble = False
            except (DatabaseError, InterfaceError) as error:
                if not trouble:
                    log.warning("sources outside cannot be looked up: %s", error)
                trouble = True
            except Exception:
                log.exception("looking for sources outside failed")
            finally:
                connections.close_all()
        self._release(list(self._running))
        connections.close_all()

    def _look(self) -> None:
        if len(self._running) >= MOST_AT_ONCE:
            return
        for name in due(timezone.now(), running=self._running):
            if len(self._running) >= MOST_AT_ONCE:
                break
            begun = self._begun.setdefault(name, deque(maxlen=MOST_LISTINGS))
            now = time.monotonic()
            if len(begun) == MOST_LISTINGS and now - begun[0] < LISTINGS_SECONDS:
                continue
            if claim(name, self._holder):
                begun.append(now)
                self._running[name] = now
                hub.current().thread(partial(self._list, name), f"toolhub-list-{name}").start()

    def _list(self, name: str) -> None:
        try:
            if (provider := outside.provider(name)) is not None:
                _listed(provider)
            self._release([name])
        except Exception:
            if not self._stopped.is_set():
                log.exception("listing %s failed", name)
        else:
            # Another one may wait for its turn, and this one may be due again. After an error that waits.
            self._wake.set()
        finally:
            self._running.pop(name, None)
            connections.close_all()

    def _renew(self) -> None:
        """Keep the leases of listings that take long, and give up those that take too long."""
        now = time.monotonic()
        for name, begun in list(self._running.items()):
            if now - begun > MOST_SECONDS:
                self._running.pop(name, None)
                provider = outside.provider(name)
                with suppress(UnavailableError):  # It was changed or removed just now.
                    if provider is not None:
                        sync.record_failure(provider, f"it was not listed within {MOST_SECONDS / 60:.0f} minutes")
                self._release([name])
        until = timezone.now() + timedelta(seconds=LEASE_SECONDS)
        held = SourceStatus.objects.filter(source__name__in=list(self._running), lease_holder=self._holder)
        held.update(lease_until=until)

    def _release(self, names: Iterable[str]) -> None:
        held = SourceStatus.objects.filter(source__name__in=list(names), lease_holder=self._holder)
        held.update(lease_holder="", lease_until=None)


def _end_outdated() -> None:
    """End the connections of this process to sources that were changed, removed or reconnected by another one."""
    if held := ports.upstreams().origins():
        rows = Source.objects.filter(name__in={origin.name for origin in held})
        latest = {
            name: (epoch, reconnects) for name, epoch, reconnects in rows.values_list("name", "epoch", "reconnects")
        }
        ports.upstreams().end([origin for origin in held if origin.generation < latest.get(origin.name, (0, 0))])


def _listed(provider: OutsideProvider) -> None:
    try:
        report = sync.describe(provider, actor=ACTOR)
    except UnavailableError as error:
        log.warning("%s cannot be listed: %s", provider.name, error)
    except (DatabaseError, InterfaceError) as error:
        log.exception("the listing of %s cannot be recorded", provider.name)
        # Later, since the reason may be what it lists.
        sync.record_failure(provider, f"its listing cannot be recorded: {type(error).__name__}")
    else:
        if report.added or report.changed or report.returned or report.retired:
            log.info("tools of %s have changed: %s", provider.name, report)


def due(now: datetime, holder: str = "", running: Iterable[str] = ()) -> list[str]:
    """The sources outside that should be listed now and whose lease is free, or of `holder`. First those that wait
    longest."""
    never = Q(status=None) | Q(status__described_at=None, status__next_try_at=None)
    # Children that always run are listed like servers that do.
    periodic = Q(kind=Source.Kind.MCP_HTTP) | Q(kind=Source.Kind.MCP_STDIO, start=Source.Start.ALWAYS)
    is_old = periodic & Q(status__described_at__lte=now - timedelta(seconds=PERIOD_SECONDS))
    # Also those that were uploaded: an operation that is not selected any more is retired by the second listing.
    is_old |= Q(kind=Source.Kind.OPENAPI, status__described_at__lte=now - timedelta(seconds=DOCUMENT_SECONDS))
    is_old &= Q(status__availability=SourceStatus.Availability.OK)
    is_free = Q(status=None) | Q(status__lease_until=None) | Q(status__lease_until__lte=now)
    if holder:
        is_free |= Q(status__lease_holder=holder)
    rows = Source.objects.filter(is_free, kind__in=Source.OUTSIDE, enabled=True, removed_at=None)
    rows = rows.filter(never | Q(status__next_try_at__lte=now) | is_old).exclude(name__in=list(running))
    return list(rows.order_by("status__next_try_at", "name").values_list("name", flat=True))


def claim(name: str, holder: str) -> bool:
    """Take the lease of a source. False: another process has it, or has just listed the source."""
    source = Source.objects.filter(name=name).first()
    if source is None:
        return False
    SourceStatus.objects.get_or_create(source=source)
    now = timezone.now()
    # Compared and set by one statement: two processes may have found the source due.
    free = SourceStatus.objects.filter(Q(lease_until=None) | Q(lease_until__lte=now), source=source)
    if not free.update(lease_holder=holder, lease_until=now + timedelta(seconds=LEASE_SECONDS)):
        return False
    if name in due(timezone.now(), holder):
        return True
    SourceStatus.objects.filter(source=source, lease_holder=holder).update(lease_holder="", lease_until=None)
    return False
