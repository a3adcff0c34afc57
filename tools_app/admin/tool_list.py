"""The list of tools: extra columns, queried once per page, and their sorting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, cast

from django.db.models import Case, ExpressionWrapper, FloatField, IntegerField, OuterRef, Subquery, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast, NullIf
from django.http import HttpRequest
from django.utils import timezone

from tools_app.access import actions
from tools_app.admin import links, states
from tools_app.admin.lists import RecordList
from tools_app.admin.states import Effect, ToolCondition
from tools_app.catalog import catalog, listed
from tools_app.journal import insights
from tools_app.journal.insights import Figures
from tools_app.models import Call

FILTERS: Final = "_changelist_filters"
PAGE: Final = "page"
SOURCE: Final = "source"
SLOWEST_PERCENT: Final = 95
_NOT_REFUSED: Final = [status for status in Call.Status.values if status != Call.Status.REFUSED]


class ToolRow(Protocol):
    """A record with the columns of the list; filled in for one page at a time."""

    pk: int
    name: str
    title: str
    category: str
    pack: str
    version: str
    enabled: bool
    read_only: bool
    tags: Any
    last_call: datetime | None
    condition: ToolCondition
    day: Figures
    tokens: int | None
    deprecated: str
    destructive: bool | None
    effect: Effect
    switch_address: str
    may_switch: bool
    errors_address: str
    source_name: str
    source_address: str


class ToolList(RecordList):
    """Adds state, switch and figures to each row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        snapshot = catalog.current()
        costs = listed.costs(snapshot)
        may_switch = self.model_admin.has_change_permission(request)
        sees_calls = actions.CALLS_READ.permits(request.user)
        sees_figures = sees_calls or actions.ERROR_EVENTS_READ.permits(request.user)
        since, until = insights.last_day(timezone.now())
        names = [record.name for record in self.result_list]
        figures = insights.by_tool(since, until, names) if sees_figures else {}
        sees_sources = actions.SOURCES_READ.permits(request.user)
        return_query = list_query(request)
        for record in self.result_list:
            row = cast(ToolRow, record)
            row.condition = states.condition(record, snapshot)
            row.day = figures.get(record.name, Figures())
            row.tokens = costs.get(record.name)
            entry = snapshot.find(record.name) if record.retired_at is None else None
            row.deprecated = entry.spec.deprecated if entry is not None else ""
            row.effect = states.effect(read_only=row.read_only, destructive=row.destructive)
            row.switch_address = links.address("toolrecord", "switch", record.pk, **return_query)
            row.may_switch = may_switch
            # Tools that code registers have no pack.
            row.source_name = record.pack or (record.source.name if record.source is not None else "")
            has_source = sees_sources and record.source is not None
            row.source_address = links.address("source", "change", record.source_id) if has_source else ""
            row.errors_address = links.errors_since("24h", calls=sees_calls, tool=record.name)

    def get_ordering_field(self, field_name: Any) -> Any:
        """Figures are part of the query only when the list is sorted by them."""
        order = ORDERS.get(field_name)
        return order() if order is not None else super().get_ordering_field(field_name)


def list_query(request: HttpRequest) -> dict[str, str]:
    """Query parameters that lead back to the list with its current filters."""
    query = request.GET.urlencode()
    return {FILTERS: query} if query else {}


def carried_query(request: HttpRequest) -> dict[str, str]:
    """The same parameters, on a page that was reached from the list, or from the page of a tool or source."""
    return {name: request.GET[name] for name in (FILTERS, PAGE, SOURCE) if request.GET.get(name)}


def back(return_query: Mapping[str, str], tools: Iterable[int]) -> str:
    """Where to return: the page of the one tool or of its source, or the list with its filters."""
    if PAGE in return_query:
        for only in tools:
            return links.address("toolrecord", "change", only)
    query, source = return_query.get(FILTERS, ""), return_query.get(SOURCE, "")
    is_source = source.isascii() and source.isdecimal()
    address = links.address("source", "change", source) if is_source else links.address("toolrecord", "changelist")
    return f"{address}?{query}" if query else address


def newest_call() -> Subquery:
    """The time of each tool's last call: one index look-up per tool."""
    return Subquery(Call.objects.filter(tool_name=OuterRef("name")).order_by("-started_at").values("started_at")[:1])


def _since() -> datetime:
    return insights.last_day(timezone.now())[0]


def _most_calls() -> OrderBy:
    return insights.calls_of(OuterRef("name"), _since()).desc()


def _most_errors() -> OrderBy:
    """By the share of errors among the calls that were not refused."""
    errors = Cast(insights.calls_of(OuterRef("name"), _since(), insights.ERRORS), FloatField())
    calls = insights.calls_of(OuterRef("name"), _since(), _NOT_REFUSED)
    return ExpressionWrapper(errors / NullIf(calls, Value(0)), FloatField()).desc(nulls_last=True)


def _slowest() -> OrderBy:
    return insights.percentile_of(OuterRef("name"), _since(), SLOWEST_PERCENT).desc(nulls_last=True)


def _most_tokens() -> OrderBy:
    names: dict[int, list[str]] = defaultdict(list)
    for name, tokens in listed.costs(catalog.current()).items():
        names[tokens].append(name)
    cases = [When(name__in=those, then=Value(tokens)) for tokens, those in names.items()]
    return Case(*cases, default=Value(None), output_field=IntegerField()).desc(nulls_last=True)


# Orders of computed columns.
ORDERS: Final[Mapping[str, Callable[[], OrderBy]]] = {
    "shown_calls": _most_calls,
    "shown_errors": _most_errors,
    "shown_p95": _slowest,
    "shown_tokens": _most_tokens,
}
