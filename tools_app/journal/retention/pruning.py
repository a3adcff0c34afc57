"""Deletes records that exceed the age or number that the settings allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Length

from tools_app.base import conf
from tools_app.journal import budgets, disk, trail
from tools_app.journal.pace import BATCH, Pace, fitting
from tools_app.models import (
    Alert,
    AlertDelivery,
    Approval,
    AuditEntry,
    BrowserSession,
    BudgetUse,
    Call,
    CallHour,
    Chore,
    Definition,
    DiskSample,
    ErrorGroup,
    ErrorHour,
    ErrorLog,
    ErrorNote,
    IdempotencyKey,
    PasswordLink,
    StandingApproval,
    Stop,
    StoredAnswer,
    ToolRecord,
)
from tools_app.models.calls import LONGEST
from tools_app.models.idempotency import REPLAYED_FOR

AUDIT: Final = "audit entries"
# Also the name of the progress marker: all calls before its time have been emptied.
PAYLOADS: Final = "payloads"
CALL_DAYS, PAYLOAD_DAYS = "TOOLHUB_KEEP_CALLS_DAYS", "TOOLHUB_KEEP_PAYLOADS_DAYS"
FIGURE_DAYS, AUDIT_DAYS = "TOOLHUB_KEEP_FIGURES_DAYS", "TOOLHUB_KEEP_AUDIT_DAYS"
MOST_CALLS: Final = "TOOLHUB_KEEP_CALLS"
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Rows before these times are deleted, by kind. Under `now`, the time of the run.
Ages = Mapping[str, datetime]


class Rule(NamedTuple):
    """Which rows of a table are deleted: those with a time before a limit that fulfil a condition."""

    kind: str
    model: type[models.Model]
    column: str
    oldest_kept: Callable[[datetime], datetime]
    condition: Callable[[Ages], Q] = lambda _: Q()
    # Those that decide about the time.
    settings: tuple[str, ...] = ()


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
    with suppress(trail.UnsettledError):
        # Only what is sealed is deleted.
        trail.seal(pace)
    counts = {rule.kind: _prune(rule, rows, now, pace) for rule, rows in expired(now).items()}
    return Pruned(counts, finished=not pace.over)


def prunable(now: datetime) -> Pruned:
    """What `prune` would delete now."""
    return Pruned({rule.kind: rows.count() for rule, rows in expired(now).items()})


def expired(now: datetime) -> dict[Rule, QuerySet[Any]]:
    """The rows to which each rule applies, in the order of deletion."""
    ages = {"now": now} | {rule.kind: rule.oldest_kept(now) for rule in RULES}
    before = {rule: (f"{rule.column}__lt", ages[rule.kind]) for rule in RULES}
    return {
        rule: rule.model._base_manager.filter(rule.condition(ages), before[rule]).order_by(rule.column)
        for rule in RULES
    }


def _prune(rule: Rule, rows: QuerySet[Any], now: datetime, pace: Pace) -> int:
    reached = LONG_AGO
    number = 0
    is_complete = False
    size = Length("arguments") if rule.model is Call else Value(0)

    def batch() -> int:
        nonlocal reached, number, is_complete
        # Select first, then delete with one statement that is its own transaction, so the lock is short.
        page = list(rows.filter((f"{rule.column}__gte", reached)).values_list("pk", rule.column, size)[:BATCH])
        if not page:
            is_complete = True
            return 0
        page = page[: fitting(size for *_, size in page)]
        reached = page[-1][1]
        # The conditions apply again, for rows that have changed in between.
        selected = rows.filter(pk__in=[pk for pk, *_ in page])
        number += _delete(rule, selected)
        # Also if another process was faster and nothing was left to do: there may be more after this page.
        return len(page)

    pace.repeat(batch)
    if rule.kind == PAYLOADS:
        # These rows stay, and checking all of them in every run would be slow.
        reached = max(_emptied_before(), rule.oldest_kept(now) if is_complete else reached)
        Chore.objects.update_or_create(name=PAYLOADS, defaults={"done_at": reached})
    return number


def _delete(rule: Rule, selected: QuerySet[Any]) -> int:
    if rule.kind == PAYLOADS:
        return selected.update(arguments="", result="")
    if rule.kind == AUDIT:
        return trail.delete_entries(list(selected.order_by().values_list("pk", flat=True)))
    return selected._raw_delete(selected.db)


def _emptied_before() -> datetime:
    return Chore.objects.filter(name=PAYLOADS).values_list("done_at", flat=True).first() or LONG_AGO


def _with_payload(ages: Ages) -> Q:
    return (~Q(arguments="") | ~Q(result="")) & Q(started_at__gte=max(ages["calls"], _emptied_before()))


def _ended(ages: Ages) -> Q:
    return ~Q(status=Call.Status.STARTED, started_at__gte=ages["now"] - LONGEST)


def _unused(ages: Ages) -> Q:
    """Versions that no tool has or offers, and that no call or approval names any more.

    Versions that an operator refused stay: they are refused as well if their source offers them again.
    """
    records = ToolRecord.everything.filter(Q(definition=OuterRef("pk")) | Q(offered=OuterRef("pk")))
    # Compared by hash alone: calls of prompts and resources have other names than their records.
    hashes = [rows.order_by().values("definition_hash") for rows in (Approval.objects, Call.objects)]
    approved_long_ago = Q(approved_at=None) | Q(approved_at__lt=ages["definitions"])
    return approved_long_ago & Q(~Exists(records), refused_at=None) & ~Q(hash__in=hashes[0]) & ~Q(hash__in=hashes[1])


def _closed(ages: Ages) -> Q:
    """Issues that are resolved or old, and whose errors are all deleted."""
    errors = ErrorLog.objects.filter(group=OuterRef("pk"), created_at__gte=ages["errors"])
    return Q(~Exists(errors)) & (Q(resolved_at__isnull=False) | Q(last_seen_at__lt=ages["hours of errors"]))


def _without_group(ages: Ages) -> Q:
    return Q(~Exists(ErrorGroup.objects.filter(pk=OuterRef("group"))))


def _days(setting: str) -> Callable[[datetime], datetime]:
    return lambda now: now - timedelta(days=conf.value(setting))


def _newest(model: type[models.Model], column: str) -> Callable[[datetime], datetime]:
    """Old rows are deleted, and those for which there are enough newer ones."""
    # Counted along the index of their times, once per run, in the background.
    times = model._default_manager.order_by(f"-{column}").values_list(column, flat=True)
    last = partial(conf.value, MOST_CALLS)
    return lambda now: max([_days(CALL_DAYS)(now), *times[last() - 1 : last()]])


def _decided(now: datetime) -> datetime:
    """Approvals hold arguments and are deleted with the journal's; if it stores none, as soon as they have expired."""
    return now if conf.value("TOOLHUB_PAYLOADS") == "none" else _days(PAYLOAD_DAYS)(now)


def _longest_session(now: datetime) -> datetime:
    """A session that was last used before has expired, whatever ends the others."""
    return now - timedelta(seconds=settings.SESSION_COOKIE_AGE)


def _now(now: datetime) -> datetime:
    return now


# In the order of deletion: rows that depend on others come after them.
RULES: Final = (
    Rule(PAYLOADS, Call, "started_at", _days(PAYLOAD_DAYS), _with_payload, (PAYLOAD_DAYS,)),
    Rule("idempotency keys", IdempotencyKey, "created_at", lambda now: now - REPLAYED_FOR),
    Rule("stored answers", StoredAnswer, "expires_at", _now),
    Rule("approvals", Approval, "expires_at", _decided, settings=(PAYLOAD_DAYS,)),
    Rule("standing approvals", StandingApproval, "expires_at", _decided, settings=(PAYLOAD_DAYS,)),
    Rule("calls", Call, "started_at", _newest(Call, "started_at"), _ended, (CALL_DAYS, MOST_CALLS)),
    Rule("definitions", Definition, "first_seen_at", _days(CALL_DAYS), _unused, (CALL_DAYS,)),
    Rule("errors", ErrorLog, "created_at", _newest(ErrorLog, "created_at"), settings=(CALL_DAYS, MOST_CALLS)),
    Rule("error groups", ErrorGroup, "last_seen_at", _now, _closed),
    Rule("hours of errors", ErrorHour, "hour", _days(CALL_DAYS), settings=(CALL_DAYS,)),
    Rule("notes on errors", ErrorNote, "at", _now, _without_group),
    Rule("hours of calls", CallHour, "hour", _days(FIGURE_DAYS), settings=(FIGURE_DAYS,)),
    Rule(AUDIT, AuditEntry, "at", _days(AUDIT_DAYS), settings=(AUDIT_DAYS,)),
    Rule("alert deliveries", AlertDelivery, "created_at", _days(CALL_DAYS), settings=(CALL_DAYS,)),
    Rule("alerts", Alert, "at", _days(CALL_DAYS), settings=(CALL_DAYS,)),
    Rule("ended maintenance", Stop, "until", _now),
    Rule("password links", PasswordLink, "expires_at", _now),
    Rule("sessions", BrowserSession, "seen_at", _longest_session),
    Rule("use of budgets", BudgetUse, "day", lambda now: now - budgets.KEPT),
    Rule("disk samples", DiskSample, "at", lambda now: now - disk.KEPT),
)
