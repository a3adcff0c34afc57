"""The first page: how the hub does, in a few figures that all lead to the list behind them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.db.models import Count, IntegerField, QuerySet, Value
from django.http import HttpRequest
from django.utils import timezone

from tools_app import catalog, conf
from tools_app.admin import links, states
from tools_app.admin.audit import in_words
from tools_app.admin.states import State
from tools_app.errors import StorageBusyError
from tools_app.models import AuditEntry, Call, ErrorLog

HOURS: Final = 24
MOST_SHOWN: Final = 6
CHART_HEIGHT: Final = 72


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    number: str
    address: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour of the chart: where its two parts stand, and what it says in words."""

    x: int
    calls_y: int
    calls_height: int
    errors_y: int
    errors_height: int
    words: str


def context(request: HttpRequest, given: dict[str, Any]) -> dict[str, Any]:
    """What the first page shows to this user: nothing that the user could not see elsewhere."""
    may = request.user.has_perm
    given["title"] = "Overview"
    sees_tools, sees_calls = may("tools_app.view_toolrecord"), may("tools_app.view_call")
    sees_errors, sees_changes = may("tools_app.view_errorlog"), may("tools_app.view_auditentry")
    now = timezone.now()
    calls = _by_hour(Call.objects.all(), _calls_between, now) if sees_calls else None
    errors = _by_hour(ErrorLog.objects.all(), _errors_between, now) if sees_errors else None
    figures = _tool_figures() if sees_tools else []
    if calls is not None:
        figures.append(Figure("Calls 24 h", f"{sum(calls):,}", links.address("call", "changelist", since="24h")))
    if errors is not None:
        address = links.address("errorlog", "changelist", since="24h")
        figures.append(Figure("Errors 24 h", f"{sum(errors):,}", address, "bad" if any(errors) else ""))
    newest = list(Call.objects.defer("arguments")[:MOST_SHOWN]) if sees_calls else None
    given.update(
        figures=figures,
        bars=_bars(calls, errors or [0] * HOURS, now) if calls is not None and any(calls) else [],
        chart_words=_chart_words(calls, errors) if calls is not None else "",
        newest_calls=newest,
        newest_errors=ErrorLog.objects.defer("detail")[:MOST_SHOWN] if sees_errors else None,
        newest_changes=_changes() if sees_changes else None,
        is_new=newest == [],
        may_add_key=may("tools_app.add_apikey"),
    )
    if given["is_new"]:
        given.update(_first_steps())
    return given


def _first_steps() -> dict[str, str]:
    """What a newcomer copies: how an agent starts this very hub, and a call to make by hand."""
    beside = Path(sys.executable).with_name("toolhub")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "toolhub"]
    server: dict[str, Any] = {"command": command[0], "args": [*command[1:], "runmcp"]}
    if (home := conf.home()) is not None:
        server["env"] = {"TOOLHUB_HOME": str(home)}
    arguments = json.dumps({"operation": "add", "a": 2, "b": 3})
    return {
        "agent_settings": json.dumps({"mcpServers": {"toolhub": server}}, indent=2),
        "first_call": f"{shlex.join([*command, 'calltool', 'calculate', arguments])}",
    }


def _tool_figures() -> list[Figure]:
    try:
        counts = states.counts(catalog.current())
    except StorageBusyError:
        return []
    loud = {State.UNAVAILABLE: "warn"}
    return [
        Figure(
            f"Tools {state}",
            f"{count:,}",
            links.address("toolrecord", "changelist", state=state),
            loud.get(state, "") if count else "",
        )
        for state, count in counts.items()
        if count or state is not State.GONE
    ]


def _calls_between(rows: QuerySet[Any], start: datetime, end: datetime) -> QuerySet[Any]:
    return rows.filter(started_at__gte=start, started_at__lt=end)


def _errors_between(rows: QuerySet[Any], start: datetime, end: datetime) -> QuerySet[Any]:
    return rows.filter(created_at__gte=start, created_at__lt=end)


def _by_hour(
    rows: QuerySet[Any], between: Callable[[QuerySet[Any], datetime, datetime], QuerySet[Any]], now: datetime
) -> list[int]:
    """How many rows each of the last hours has, oldest first.

    One query of one range on an index for each hour. Grouping by a truncated time would ask every row of the day for
    its hour, on SQLite in Python.
    """
    begin = now - timedelta(hours=HOURS)
    parts = [
        between(rows, begin + timedelta(hours=hour), begin + timedelta(hours=hour + 1))
        .order_by()
        .annotate(hour=Value(hour, IntegerField()))
        .values("hour")
        .annotate(number=Count("*"))
        for hour in range(HOURS)
    ]
    found = {row["hour"]: row["number"] for row in parts[0].union(*parts[1:], all=True)}
    return [found.get(hour, 0) for hour in range(HOURS)]


def _bars(calls: list[int], errors: list[int], now: datetime) -> list[Bar]:
    tallest = max(1, *calls, *errors)
    bars = []
    for hour, (called, failed) in enumerate(zip(calls, errors, strict=True)):
        start = timezone.localtime(now - timedelta(hours=HOURS - hour))
        calls_height = _height(called, tallest)
        errors_height = min(_height(failed, tallest), calls_height) if called else 0
        bars.append(
            Bar(
                x=hour * 10,
                calls_y=CHART_HEIGHT - calls_height,
                calls_height=calls_height,
                errors_y=CHART_HEIGHT - errors_height,
                errors_height=errors_height,
                words=f"from {start:%H:%M}: {called:,} calls, {failed:,} errors",
            )
        )
    return bars


def _height(number: int, tallest: int) -> int:
    # Whatever there is, is seen.
    return max(2, round(CHART_HEIGHT * number / tallest)) if number else 0


def _chart_words(calls: list[int], errors: list[int] | None) -> str:
    busiest = max(calls)
    said = f"{sum(calls):,} calls in the last 24 hours, at most {busiest:,} an hour"
    return said if errors is None else f"{said}; {sum(errors):,} errors"


def _changes() -> list[dict[str, Any]]:
    return [{"entry": entry, "words": in_words(entry.changes)} for entry in AuditEntry.objects.all()[:MOST_SHOWN]]
