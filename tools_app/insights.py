"""What happened, in figures: read from the hours that the journal counts, never from the calls themselves.

They cost the same however long the journal is, and stay when the calls are gone. Nothing here writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Final

from django.db.models import OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from tools_app.models import Call, CallHour, ErrorGroup
from tools_app.models.figures import DURATIONS

# Refusals are the hub at work, not errors.
ERRORS: Final = (Call.Status.FAILED, Call.Status.TIMEOUT, Call.Status.INTERRUPTED)
# Only these tell how long a tool takes: a refusal takes no time, and what was cut off would have taken longer.
_TIMED: Final = (Call.Status.SUCCEEDED, Call.Status.FAILED, Call.Status.TIMEOUT)
_COUNTS: Final = (*(f"within_{bound}" for bound in DURATIONS), "slower")


@dataclass(frozen=True, slots=True)
class Hour:
    """The calls that ended within one hour."""

    start: datetime
    calls: int = 0
    errors: int = 0
    refused: int = 0
    durations: tuple[int, ...] = (0,) * len(_COUNTS)
    """How many took as long as each of `DURATIONS` allows and the one before does not; the last took longer."""


def last_day(now: datetime) -> tuple[datetime, datetime]:
    """Since and until of the last 24 hours as they are counted: the one that runs, and the 23 before it."""
    until = _floor(now) + timedelta(hours=1)
    return until - timedelta(hours=24), until


def by_hour(since: datetime, until: datetime, *, tool: str | None = None, caller: str | None = None) -> list[Hour]:
    """Every hour from `since` to before `until`, oldest first; those without calls too. One query."""
    begin = _floor(since)
    rows = CallHour.objects.filter(hour__gte=begin, hour__lt=until)
    if tool is not None:
        rows = rows.filter(tool_name=tool)
    if caller is not None:
        rows = rows.filter(caller_id=caller)
    sums = rows.order_by().values_list("hour", "status").annotate(Sum("calls"), *map(Sum, _COUNTS))
    found: dict[datetime, Hour] = {}
    for start, status, calls, *durations in sums:
        others = found.get(start, Hour(start))
        found[start] = Hour(
            start,
            others.calls + calls,
            others.errors + (calls if status in ERRORS else 0),
            others.refused + (calls if status == Call.Status.REFUSED else 0),
            tuple(map(add, others.durations, durations)) if status in _TIMED else others.durations,
        )
    length = math.ceil((until - begin) / timedelta(hours=1))
    starts = [begin + timedelta(hours=number) for number in range(length)]
    return [found.get(start, Hour(start)) for start in starts]


def percentile(hours: Sequence[Hour], share: float) -> float | None:
    """Milliseconds within which that share of the calls ended: the upper bound of an estimate.

    None where there were no calls to time; infinite where it is more than the longest duration that is told apart.
    """
    counts = [sum(column) for column in zip(*(hour.durations for hour in hours), strict=True)]
    wanted = math.ceil(share * sum(counts))
    if not wanted:
        return None
    seen = 0
    for bound, count in zip(DURATIONS, counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return math.inf


def calls_of(tool: OuterRef, since: datetime, statuses: Sequence[str] = Call.Status.values) -> Coalesce:
    """A column for a query of tools: how many calls of each ended so since then."""
    rows = CallHour.objects.filter(tool_name=tool, hour__gte=since, status__in=statuses)
    return Coalesce(Subquery(rows.order_by().values("tool_name").annotate(number=Sum("calls")).values("number")), 0)


def open_error_groups() -> int:
    return ErrorGroup.objects.filter(resolved_at=None).count()


def _floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
