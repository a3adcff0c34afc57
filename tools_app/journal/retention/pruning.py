"""Deletes records that exceed the age or number that the settings allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from django.db import models, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from tools_app.base import conf
from tools_app.journal.retention.pace import Pace
from tools_app.models import (
    Approval,
    AuditEntry,
    Call,
    CallHour,
    CallSum,
    Chore,
    ErrorGroup,
    ErrorHour,
    ErrorLog,
    ErrorNote,
    IdempotencyKey,
    StoredAnswer,
)
from tools_app.models.figures import FOLDED
from tools_app.models.idempotency import REPLAYED_FOR

# No call takes longer than this.
UNDER_WAY: Final = timedelta(minutes=10)
# Also the name of the progress marker: all calls before its time have been emptied; checking them again is slow.
PAYLOADS: Final = "payloads"
# No page shows moments older than this.
MOMENTS: Final = timedelta(days=2)
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pruned:
    """The number of rows of each kind; `finished` is False if time ran out."""

    counts: Mapping[str, int]
    finished: bool = True

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items() if count) or "nothing"


def prune(now: datetime, pace: Pace | None = None) -> Pruned:
    """Delete and empty expired rows. An interrupted run is completed by the next one."""
    pace = pace or Pace()
    rows = _expired(now)
    counts = {PAYLOADS: _empty(rows.pop(PAYLOADS), now - _days("PAYLOADS"), pace)}
    for kind, expired in rows.items():
        counts[kind] = pace.repeat(partial(_delete, expired))
    return Pruned(counts, finished=not pace.over)


def prunable(now: datetime) -> Pruned:
    """What `prune` would delete now."""
    return Pruned({kind: rows.count() for kind, rows in _expired(now).items()})


def _expired(now: datetime) -> dict[str, QuerySet[Any]]:
    """Expired rows by kind, in the order of deletion: dependent rows after those that they depend on."""
    oldest_call = _oldest_kept(Call, "started_at", now)
    oldest_error = _oldest_kept(ErrorLog, "created_at", now)
    under_way = Q(status=Call.Status.STARTED, started_at__gte=now - UNDER_WAY)
    remaining = ErrorLog.objects.filter(group=OuterRef("pk"), created_at__gte=oldest_error)
    closed = Q(resolved_at__isnull=False) | Q(last_seen_at__lt=now - _days("CALLS"))
    return {
        PAYLOADS: Call.objects.filter(
            ~Q(arguments="") | ~Q(result=""),
            started_at__lt=now - _days("PAYLOADS"),
            started_at__gte=max(oldest_call, _emptied_before()),
        ).order_by("started_at"),
        "idempotency keys": IdempotencyKey.objects.filter(created_at__lt=now - REPLAYED_FOR).order_by("created_at"),
        "stored answers": StoredAnswer.objects.filter(expires_at__lt=now).order_by("expires_at"),
        "approvals": Approval.objects.filter(expires_at__lt=now - _decided_kept()).order_by("expires_at"),
        "calls": Call.objects.filter(started_at__lt=oldest_call).exclude(under_way).order_by("started_at"),
        "errors": ErrorLog.objects.filter(created_at__lt=oldest_error).order_by("created_at"),
        "error groups": ErrorGroup.objects.filter(closed, ~Exists(remaining)).order_by("last_seen_at"),
        "hours of errors": ErrorHour.objects.filter(hour__lt=now - _days("CALLS")).order_by("hour"),
        "notes on errors": ErrorNote.objects.filter(~Exists(ErrorGroup.objects.filter(pk=OuterRef("group")))).order_by(
            "pk"
        ),
        "hours of calls": CallHour.objects.filter(hour__lt=now - _days("FIGURES")).order_by("hour"),
        "sums of calls": CallSum.objects.filter(span__in=FOLDED, start__lt=now - _days("FIGURES")).order_by(
            "span", "start"
        ),
        "moments of calls": CallSum.objects.filter(span=CallSum.Span.MOMENT, start__lt=now - MOMENTS).order_by("start"),
        "audit entries": AuditEntry.objects.filter(at__lt=now - _days("AUDIT")).order_by("at"),
    }


def _days(setting: str) -> timedelta:
    return timedelta(days=conf.value(f"TOOLHUB_KEEP_{setting}_DAYS"))


def _decided_kept() -> timedelta:
    """Approvals hold arguments and are deleted with the journal's; if it stores none, as soon as they have expired."""
    return timedelta() if conf.value("TOOLHUB_PAYLOADS") == "none" else _days("PAYLOADS")


def _oldest_kept(model: type[models.Model], moment: str, now: datetime) -> datetime:
    """Rows before this time are deleted: for their age, or because there are enough newer rows.

    The rows are counted along the index of their times, once per run, in the background.
    """
    last = conf.value("TOOLHUB_KEEP_CALLS") - 1
    newest_first = model._default_manager.order_by(f"-{moment}").values_list(moment, flat=True)
    oldest: datetime = max([now - _days("CALLS"), *newest_first[last : last + 1]])
    return oldest


def _delete(rows: QuerySet[Any], most: int) -> int:
    # Select first, then delete with one statement that is its own transaction, so the lock is short. The conditions
    # apply again, for rows that have changed in between.
    keys = list(rows.values_list("pk", flat=True)[:most])
    return rows.filter(pk__in=keys)._raw_delete(rows.db) if keys else 0


def _empty(rows: QuerySet[Call], before: datetime, pace: Pace) -> int:
    """Remove arguments and answers from calls, and store the progress."""
    reached = _emptied_before()

    def batch(most: int) -> int:
        nonlocal reached
        batch_rows = list(rows.filter(started_at__gte=reached).values_list("pk", "started_at")[:most])
        reached = max(reached, batch_rows[-1][1] if batch_rows else before)
        with transaction.atomic():
            Chore.objects.update_or_create(name=PAYLOADS, defaults={"done_at": reached})
            return Call.objects.filter(pk__in=[pk for pk, _ in batch_rows]).update(arguments="", result="")

    return pace.repeat(batch)


def _emptied_before() -> datetime:
    return Chore.objects.filter(name=PAYLOADS).values_list("done_at", flat=True).first() or LONG_AGO
