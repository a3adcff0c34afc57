"""Deletes what is older, or more, than the settings allow."""

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

# No call takes longer, whatever happens around it.
UNDER_WAY: Final = timedelta(minutes=10)
# Also the name of the chore: every call before its time has been emptied. To look at them all again would take long.
PAYLOADS: Final = "payloads"
# No page looks further back by the minute.
MOMENTS: Final = timedelta(days=2)
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows of each kind. `finished` is false when there was no time for all of them."""

    counts: Mapping[str, int]
    finished: bool = True

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items() if count) or "nothing"


def prune(now: datetime, pace: Pace | None = None) -> Pruned:
    """Delete and empty what has had its time. What a cut-off run left, the next one finds."""
    pace = pace or Pace()
    rows = _expired(now)
    counts = {PAYLOADS: _empty(rows.pop(PAYLOADS), now - _days("PAYLOADS"), pace)}
    for kind, expired in rows.items():
        counts[kind] = pace.repeat(partial(_delete, expired))
    return Pruned(counts, finished=not pace.over)


def prunable(now: datetime) -> Pruned:
    """What `prune` would find now."""
    return Pruned({kind: rows.count() for kind, rows in _expired(now).items()})


def _expired(now: datetime) -> dict[str, QuerySet[Any]]:
    """Rows by kind, in the order in which they are dealt with: whatever follows from others after those."""
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


def _days(what: str) -> timedelta:
    return timedelta(days=conf.value(f"TOOLHUB_KEEP_{what}_DAYS"))


def _decided_kept() -> timedelta:
    """They hold arguments, and go with those of the journal; where none are kept, as soon as they have expired."""
    return timedelta() if conf.value("TOOLHUB_PAYLOADS") == "none" else _days("PAYLOADS")


def _oldest_kept(model: type[models.Model], moment: str, now: datetime) -> datetime:
    """What is older is deleted: for its age, or because there are enough newer rows.

    The rows are counted along the index of their times, once a run. Nobody waits for that.
    """
    last = conf.value("TOOLHUB_KEEP_CALLS") - 1
    newest_first = model._default_manager.order_by(f"-{moment}").values_list(moment, flat=True)
    kept: datetime = max([now - _days("CALLS"), *newest_first[last : last + 1]])
    return kept


def _delete(rows: QuerySet[Any], most: int) -> int:
    # Found first, and then deleted by one statement that is its own transaction: the lock is held for no more. The
    # conditions hold once more for rows that have changed in between.
    found = list(rows.values_list("pk", flat=True)[:most])
    return rows.filter(pk__in=found)._raw_delete(rows.db) if found else 0


def _empty(rows: QuerySet[Call], before: datetime, pace: Pace) -> int:
    """Take arguments and answers out of calls, and remember how far this came."""
    reached = _emptied_before()

    def batch(most: int) -> int:
        nonlocal reached
        found = list(rows.filter(started_at__gte=reached).values_list("pk", "started_at")[:most])
        reached = max(reached, found[-1][1] if found else before)
        with transaction.atomic():
            Chore.objects.update_or_create(name=PAYLOADS, defaults={"done_at": reached})
            return Call.objects.filter(pk__in=[pk for pk, _ in found]).update(arguments="", result="")

    return pace.repeat(batch)


def _emptied_before() -> datetime:
    return Chore.objects.filter(name=PAYLOADS).values_list("done_at", flat=True).first() or LONG_AGO
