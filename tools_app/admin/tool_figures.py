"""Figures on a tool's page: calls, errors and durations over a day, a week or a month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.admin import charts
from tools_app.admin.charts import Chart
from tools_app.journal import insights
from tools_app.journal.insights import Bucket, Figures

DAY: Final = "24h"


class ChartSpan(NamedTuple):
    words: Any
    hours: int
    hours_each: int


SPANS: Final = {
    DAY: ChartSpan(_lazy("24 hours"), 24, 1),
    "7d": ChartSpan(_lazy("7 days"), 7 * 24, 6),
    "30d": ChartSpan(_lazy("30 days"), 30 * 24, 24),
}


def charts_of(tool: str, span: str, *, errors: bool) -> list[Chart]:
    """The charts of a span of `SPANS`; `errors`: whether to show errors."""
    _words, hours, buckets_each = SPANS[span]
    _since, until = insights.last_day(timezone.now())
    buckets = together(insights.by_hour(until - timedelta(hours=hours), until, tool=tool), buckets_each)
    return [charts.calls(buckets, errors=errors), charts.durations(buckets)]


def tiles(day: Figures) -> list[tuple[str, str]]:
    """Percentiles of durations in the last day: estimates, as only histogram buckets are stored."""
    times = [(_("Median (24 h)"), insights.percentile([day], 0.5)), (_("p95 (24 h)"), insights.percentile([day], 0.95))]
    return [(title, charts.in_time(bound)) for title, bound in times if bound is not None]


def together(buckets: Sequence[Bucket], buckets_each: int) -> list[Bucket]:
    """Merge adjacent buckets into one."""
    return [_sum(buckets[start : start + buckets_each]) for start in range(0, len(buckets), buckets_each)]


def _sum(buckets: Sequence[Bucket]) -> Bucket:
    first = buckets[0]
    return replace(
        first,
        calls=sum(one.calls for one in buckets),
        errors=sum(one.errors for one in buckets),
        refused=sum(one.refused for one in buckets),
        succeeded=sum(one.succeeded for one in buckets),
        result_bytes=sum(one.result_bytes for one in buckets),
        durations=tuple(map(sum, zip(*(one.durations for one in buckets), strict=True))),
        length=buckets[-1].end - first.start,
    )
