"""How a tool does, as its page shows it: calls, errors and durations over a day, a week or a month."""

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


class Span(NamedTuple):
    words: Any
    hours: int
    hours_each: int


SPANS: Final = {
    DAY: Span(_lazy("24 hours"), 24, 1),
    "7d": Span(_lazy("7 days"), 7 * 24, 6),
    "30d": Span(_lazy("30 days"), 30 * 24, 24),
}


def drawn(tool: str, span: str, *, errors: bool) -> list[Chart]:
    """The charts of a span, which is one of `SPANS`. Without `errors` nothing is said of those."""
    _words, hours, each = SPANS[span]
    _since, until = insights.last_day(timezone.now())
    buckets = together(insights.by_hour(until - timedelta(hours=hours), until, tool=tool), each)
    return [charts.calls(buckets, errors=errors), charts.durations(buckets)]


def tiles(day: Figures) -> list[tuple[str, str]]:
    """How long calls took in the last day. Estimates, and said to be: only spans are counted."""
    found = [(_("Median (24 h)"), insights.percentile([day], 0.5)), (_("p95 (24 h)"), insights.percentile([day], 0.95))]
    return [(title, charts.in_time(bound)) for title, bound in found if bound is not None]


def together(buckets: Sequence[Bucket], each: int) -> list[Bucket]:
    """Merge adjacent buckets into one."""
    return [_sum(buckets[start : start + each]) for start in range(0, len(buckets), each)]


def _sum(buckets: Sequence[Bucket]) -> Bucket:
    first = buckets[0]
    return replace(
        first,
        calls=sum(one.calls for one in buckets),
        errors=sum(one.errors for one in buckets),
        refused=sum(one.refused for one in buckets),
        succeeded=sum(one.succeeded for one in buckets),
        durations=tuple(map(sum, zip(*(one.durations for one in buckets), strict=True))),
        length=buckets[-1].end - first.start,
    )
