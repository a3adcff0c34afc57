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

from tools_app.admin import links, states
from tools_app.admin.lists import RecordList
from tools_app.admin.states import Condition, Effect
from tools_app.catalog import catalog, listed
from tools_app.journal import insights
from tools_app.journal.insights import Figures
from tools_app.models import Call

PRESERVED: Final = "_changelist_filters"
PAGE: Final = "page"
SLOWEST_PERCENT: Final = 95
_LET_IN: Final = [status for status in Call.Status.values if status != Call.Status.REFUSED]


class ToolRow(Protocol):
    """A record with what the list shows beside it; filled in for one page at a time."""

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
    condition: Condition
    day: Figures
    tokens: int | None
    deprecated: str
    destructive: bool | None
    effect: Effect
    switch_address: str
    may_switch: bool
    errors_address: str


class ToolList(RecordList):
    """Gives every row its state, its switch and its figures."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        snapshot = catalog.current()
        costs = listed.costs(snapshot)
        may_switch = self.model_admin.has_change_permission(request)
        sees_calls = request.user.has_perm("tools_app.view_call")
        sees_figures = sees_calls or request.user.has_perm("tools_app.view_errorlog")
        since, until = insights.last_day(timezone.now())
        names = [record.name for record in self.result_list]
        figures = insights.by_tool(since, until, names) if sees_figures else {}
        kept = preserved(request)
        for record in self.result_list:
            row = cast(ToolRow, record)
            row.condition = states.condition(record, snapshot)
            row.day = figures.get(record.name, Figures())
            row.tokens = costs.get(record.name)
            entry = snapshot.find(record.name) if record.retired_at is None else None
            row.deprecated = entry.tool.deprecated if entry is not None and entry.tool is not None else ""
            row.effect = states.effect(read_only=row.read_only, destructive=row.destructive)
            row.switch_address = links.address("toolrecord", "switch", record.pk, **kept)
            row.may_switch = may_switch
            row.errors_address = links.errors_since("24h", calls=sees_calls, tool=record.name)

    def get_ordering_field(self, field_name: Any) -> Any:
        """Figures are put into the query of the list only when it is sorted by them."""
        made = ORDERS.get(field_name)
        return made() if made is not None else super().get_ordering_field(field_name)


def preserved(request: HttpRequest) -> dict[str, str]:
    """What leads back to the list as it is looked at now."""
    query = request.GET.urlencode()
    return {PRESERVED: query} if query else {}


def carried(request: HttpRequest) -> dict[str, str]:
    """The same on a page that was reached from the list, or from the page of a tool."""
    return {name: request.GET[name] for name in (PRESERVED, PAGE) if request.GET.get(name)}


def back(kept: Mapping[str, str], tools: Iterable[int]) -> str:
    """Where to return: the page of the one tool, or the list with its filters."""
    if PAGE in kept:
        for only in tools:
            return links.address("toolrecord", "change", only)
    query = kept.get(PRESERVED, "")
    address = links.address("toolrecord", "changelist")
    return f"{address}?{query}" if query else address


def newest_call() -> Subquery:
    """When each tool was called last: for every tool one look at the end of an index, however many calls there are."""
    return Subquery(Call.objects.filter(tool_name=OuterRef("name")).order_by("-started_at").values("started_at")[:1])


def _since() -> datetime:
    return insights.last_day(timezone.now())[0]


def _most_calls() -> OrderBy:
    return insights.calls_of(OuterRef("name"), _since()).desc()


def _most_errors() -> OrderBy:
    """By the share of errors among the calls that were not refused."""
    errors = Cast(insights.calls_of(OuterRef("name"), _since(), insights.ERRORS), FloatField())
    calls = insights.calls_of(OuterRef("name"), _since(), _LET_IN)
    return ExpressionWrapper(errors / NullIf(calls, Value(0)), FloatField()).desc(nulls_last=True)


def _slowest() -> OrderBy:
    return insights.percentile_of(OuterRef("name"), _since(), SLOWEST_PERCENT).desc(nulls_last=True)


def _most_tokens() -> OrderBy:
    names: dict[int, list[str]] = defaultdict(list)
    for name, tokens in listed.costs(catalog.current()).items():
        names[tokens].append(name)
    cases = [When(name__in=those, then=Value(tokens)) for tokens, those in names.items()]
    return Case(*cases, default=Value(None), output_field=IntegerField()).desc(nulls_last=True)


# Of those columns that are no columns of the table.
ORDERS: Final[Mapping[str, Callable[[], OrderBy]]] = {
    "shown_calls": _most_calls,
    "shown_errors": _most_errors,
    "shown_p95": _slowest,
    "shown_tokens": _most_tokens,
}
