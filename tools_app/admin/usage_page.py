"""Usage by caller, tool or source: a page, and the same figures as CSV. The same sums as on the overview."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin import AdminSite
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import charts, exports, links
from tools_app.admin.governed import FailuresAsMessages, actor, require
from tools_app.admin.narrowing import between, moment
from tools_app.admin.overview import FIRST, SPANS
from tools_app.journal import insights
from tools_app.journal.insights import Figures, Period
from tools_app.models import ApiKey
from tools_app.models.figures import HOUR, beginning

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ROWS_A_PAGE: Final = 50
# Figures by caller are those of hours.
LONGEST: Final = timedelta(days=92)
FromFilter, UntilFilter = between("hour")
KINDS: Final = {
    "key": gettext_lazy("API key"),
    "user": gettext_lazy("user"),
    "token": gettext_lazy("token"),
    "local": gettext_lazy("this machine"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of one caller, tool or source."""

    key: str
    name: str
    figures: Figures
    kind: str = ""
    address: str = ""

    @property
    def half(self) -> float | None:
        return insights.percentile([self.figures], 0.5)

    @property
    def most(self) -> float | None:
        return insights.percentile([self.figures], 0.95)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The figures of a row as they are shown, with links to the calls behind them."""

    row: Row
    calls: str
    errors: str
    refused: str

    @property
    def rate(self) -> str:
        return charts.share_of(self.row.figures)

    @property
    def half(self) -> str:
        return charts.in_time(self.row.half)

    @property
    def most(self) -> str:
        return charts.in_time(self.row.most)


@dataclass(frozen=True, slots=True)
class Heading:
    title: StrOrPromise
    address: str
    direction: str
    is_number: bool


# Value of `o` in the URL -> title, and what is compared. The name has the title of what the rows are.
Order = Callable[[Row], Any]
COLUMNS: Final[Mapping[str, tuple[StrOrPromise, Order]]] = {
    "name": ("", lambda row: row.name.casefold()),
    "calls": (gettext_lazy("Calls"), lambda row: row.figures.calls),
    "errors": (gettext_lazy("Errors"), lambda row: row.figures.errors),
    "rate": (gettext_lazy("Error rate"), lambda row: row.figures.error_rate),
    "refused": (gettext_lazy("Refused"), lambda row: row.figures.refused),
    "p50": (gettext_lazy("Median (p50)"), lambda row: row.half or 0),
    "p95": (gettext_lazy("p95"), lambda row: row.most or 0),
    "size": (gettext_lazy("Response size"), lambda row: row.figures.result_bytes),
}
MOST_CALLS: Final = "-calls"


def _callers(window: Period, user: Any) -> Iterator[Row]:
    found = insights.callers(window)
    numbers = [caller[4:] for caller in found if caller.startswith("key:") and caller[4:].isdecimal()]
    keys = {f"key:{pk}": name for pk, name in ApiKey.objects.filter(pk__in=numbers).values_list("pk", "name")}
    may_see_keys = actions.KEYS_READ.permits(user)
    for caller, (name, figures) in found.items():
        kind, _colon, number = caller.partition(":")
        address = links.address("apikey", "change", number) if may_see_keys and caller in keys else ""
        words = str(KINDS.get(kind, "")) if caller else ""
        yield Row(caller, keys.get(caller) or name or caller or _("unknown caller"), figures, words, address)


def _tools(window: Period, user: Any) -> Iterator[Row]:
    may_see_tools = actions.TOOLS_LIST.permits(user)
    for name, figures in insights.all_tools(window).items():
        is_tool = bool(name) and ":" not in name
        address = links.address("toolrecord", "named", name=name) if may_see_tools and is_tool else ""
        yield Row(name, name or _("unknown tools"), figures, address=address)


def _sources(window: Period, user: Any) -> Iterator[Row]:
    may_see_sources = actions.SOURCES_READ.permits(user)
    for name, figures in insights.sources(window).items():
        address = links.address("source", "named", name=name) if may_see_sources and name else ""
        yield Row(name, name or _("unknown tools, prompts and resources"), figures, address=address)


# Value of `by` in the URL, which is also a filter of calls -> tab, title of the names, rows. The first is the default.
DIMENSIONS: Final[Mapping[str, tuple[StrOrPromise, StrOrPromise, Callable[[Period, Any], Iterator[Row]]]]] = {
    "caller": (gettext_lazy("Keys and callers"), gettext_lazy("Caller"), _callers),
    "tool": (gettext_lazy("Tools"), gettext_lazy("Tool"), _tools),
    "source": (gettext_lazy("Sources"), gettext_lazy("Source"), _sources),
}


def view(site: AdminSite) -> Callable[[HttpRequest], HttpResponseBase]:
    @require_safe
    def usage_view(request: HttpRequest) -> HttpResponseBase:
        require(request, actions.METRICS_READ)
        query = request.GET.copy()
        by = next((one for one in DIMENSIONS if one == query.get("by")), next(iter(DIMENSIONS)))
        window = selected_period(query, timezone.now())
        rows = list(DIMENSIONS[by][2](window, request.user))
        ordered = _sorted(rows, query.get("o", ""))
        if query.pop("format", [""])[-1] == "csv":
            with FailuresAsMessages(request):
                governance.note_export("usage", payloads=False, filters=query.urlencode(), actor=actor(request))
                return exports.attachment(_csv(ordered, window), f"usage-by-{by}.csv", exports.FORMATS["csv"])
        page = Paginator(ordered, ROWS_A_PAGE).get_page(query.pop("p", ["1"])[-1])
        sees_calls = actions.CALLS_READ.permits(request.user)
        context = {
            **site.each_context(request),
            "title": _("Usage"),
            "tabs": [(_with(query, by=key), words, key == by) for key, (words, *_rest) in DIMENSIONS.items()],
            "spans": [
                (_with(query, since=key, **{"from": "", "until": ""}), words, key == window.key)
                for key, words in SPANS.items()
            ],
            "fields": [one.field(query.get(one.parameter_name, "")) for one in (FromFilter, UntilFilter)],
            "by": by,
            "names": DIMENSIONS[by][0],
            "order": query.get("o", ""),
            "headings": list(_headings(query, DIMENSIONS[by][1])),
            "rows": [_numbers(row, by, window, linked=sees_calls and bool(row.key)) for row in page],
            "total": _numbers(Row("", _("All"), insights.together(row.figures for row in rows)), by, window),
            "page": page,
            "begins": window.since,
            "ends": window.until,
            "csv_address": _with(query, format="csv"),
        }
        return TemplateResponse(request, "admin/tools_app/usage.html", context)

    return site.admin_view(usage_view)


def selected_period(query: QueryDict, now: datetime) -> Period:
    """A period of the overview, or whole hours between two times, of at most `LONGEST`; the end has priority."""
    start, end = moment(query.get("from")), moment(query.get("until"))
    span = query.get("since", "")
    if start is None and end is None:
        return insights.period(span if span in SPANS else FIRST, now)
    until = beginning(min(end or now, now) + HOUR - timedelta.resolution, HOUR)
    since = max(beginning(start, HOUR) if start else until - LONGEST, until - LONGEST)
    return Period("", (min(since, until - HOUR), until))


def _sorted(rows: Sequence[Row], order: str) -> list[Row]:
    column = order.removeprefix("-")
    if column not in COLUMNS:
        order, column = MOST_CALLS, MOST_CALLS.removeprefix("-")
    by_name = sorted(rows, key=COLUMNS["name"][1])
    return sorted(by_name, key=COLUMNS[column][1], reverse=order.startswith("-"))


def _headings(query: QueryDict, names: StrOrPromise) -> Iterator[Heading]:
    order = query.get("o", "")
    chosen = order if order.removeprefix("-") in COLUMNS else MOST_CALLS
    for column, (title, _order) in COLUMNS.items():
        is_number = column != "name"
        is_sorted = chosen.removeprefix("-") == column
        # Numbers begin with the largest.
        is_next_descending = not chosen.startswith("-") if is_sorted else is_number
        direction = ("descending" if chosen.startswith("-") else "ascending") if is_sorted else ""
        address = _with(query, o=f"{'-' if is_next_descending else ''}{column}")
        yield Heading(title or names, address, direction, is_number)


def _numbers(row: Row, by: str, window: Period, *, linked: bool = False) -> Numbers:
    span: dict[str, str] = {"since": window.key}
    if not window.key:
        span = {"from": window.since.isoformat(), "until": window.until.isoformat()}

    def number(count: int, status: str = "", look: str = "") -> str:
        if not linked:
            return links.figure(count) if count else links.quiet(0)
        return links.number(count, links.address("call", "changelist", **{by: row.key}, status=status, **span), look)

    figures = row.figures
    return Numbers(
        row, number(figures.calls), number(figures.errors, "error", "hub-bad"), number(figures.refused, "refused")
    )


def _with(query: QueryDict, **values: str) -> str:
    """The URL of the page with other values; empty ones are left out."""
    changed = query.copy()
    for name, value in values.items():
        changed[name] = value
    for name in [name for name, value in changed.items() if not value]:
        del changed[name]
    return f"?{changed.urlencode()}"


async def _csv(rows: Sequence[Row], window: Period) -> AsyncIterator[bytes]:
    yield exports.line(
        "from", "until", "id", "name", "calls", "succeeded", "errors", "refused", "p50Ms", "p95Ms", "responseBytes"
    )  # fmt: skip
    for row in rows:
        of = row.figures
        times = [None if one is None or math.isinf(one) else one for one in (row.half, row.most)]
        counts = (of.calls, of.succeeded, of.errors, of.refused)
        yield exports.line(window.since, window.until, row.key, row.name, *counts, *times, of.result_bytes)
