"""The first page: how the hub does, in a few figures that all lead to the list behind them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest
from django.utils import timezone

from tools_app import catalog, conf, insights
from tools_app.admin import audit, links, states
from tools_app.admin.states import State
from tools_app.errors import StorageBusyError
from tools_app.insights import Hour
from tools_app.models import AuditEntry, Call, ErrorLog

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
    hours = insights.by_hour(*insights.last_day(timezone.now())) if sees_calls or sees_errors else []
    calls, errors = sum(hour.calls for hour in hours), sum(hour.errors for hour in hours)
    figures = _tool_figures() if sees_tools else []
    if sees_calls:
        figures.append(Figure("Calls 24 h", f"{calls:,}", links.address("call", "changelist", since="24h")))
    if sees_errors:
        address = links.errors_since("24h", calls=sees_calls)
        figures.append(Figure("Errors 24 h", f"{errors:,}", address, "bad" if errors else ""))
    if may("tools_app.view_errorgroup"):
        number = insights.open_error_groups()
        address = links.address("errorgroup", "changelist")
        figures.append(Figure("Open error groups", f"{number:,}", address, "bad" if number else ""))
    newest = list(Call.objects.defer("arguments", "result")[:MOST_SHOWN]) if sees_calls else None
    given.update(
        figures=figures,
        bars=_bars(hours, with_errors=sees_errors) if sees_calls and calls else [],
        chart_words=_chart_words(hours, with_errors=sees_errors) if sees_calls else "",
        newest_calls=newest,
        newest_errors=ErrorLog.objects.defer("detail")[:MOST_SHOWN] if sees_errors else None,
        newest_changes=audit.rows(AuditEntry.objects.all()[:MOST_SHOWN]) if sees_changes else None,
        is_new=newest == [],
        may_add_key=may("tools_app.add_apikey"),
    )
    if given["is_new"]:
        given.update(_first_steps())
    return given


def _first_steps() -> dict[str, str]:
    """What a newcomer copies: how an agent is connected to this very hub, and a call to make by hand."""
    beside = Path(sys.executable).with_name("toolhub")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "toolhub"]
    if conf.given("TOOLHUB_HOME"):
        command = ["env", f"TOOLHUB_HOME={conf.home()}", *command]
    arguments = json.dumps({"operation": "add", "a": 2, "b": 3})
    return {
        "connect_agent": shlex.join([*command, "connect", "claude-code"]),
        "first_call": shlex.join([*command, "calltool", "calculate", arguments]),
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


def _bars(hours: Sequence[Hour], *, with_errors: bool) -> list[Bar]:
    tallest = max(1, *(hour.calls for hour in hours))
    bars = []
    for number, hour in enumerate(hours):
        calls_height = _height(hour.calls, tallest)
        errors_height = _height(hour.errors, tallest) if with_errors else 0
        words = f"from {timezone.localtime(hour.start):%H:%M}: {hour.calls:,} calls"
        bars.append(
            Bar(
                x=number * 10,
                calls_y=CHART_HEIGHT - calls_height,
                calls_height=calls_height,
                errors_y=CHART_HEIGHT - errors_height,
                errors_height=errors_height,
                words=f"{words}, {hour.errors:,} errors" if with_errors else words,
            )
        )
    return bars


def _height(number: int, tallest: int) -> int:
    # Whatever there is, is seen.
    return max(2, round(CHART_HEIGHT * number / tallest)) if number else 0


def _chart_words(hours: Sequence[Hour], *, with_errors: bool) -> str:
    busiest = max(hour.calls for hour in hours)
    said = f"{sum(hour.calls for hour in hours):,} calls in the last 24 hours, at most {busiest:,} an hour"
    return f"{said}; {sum(hour.errors for hour in hours):,} errors" if with_errors else said
