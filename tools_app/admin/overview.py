"""The overview: status, and figures that link to their lists."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.access import actions
from tools_app.admin import approvals, attention, audit, charts, connecting, console, links, states
from tools_app.admin.attention import Reason
from tools_app.admin.states import State
from tools_app.base import conf
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import insights
from tools_app.journal.insights import Bucket, Figures, Period
from tools_app.models import Agent, Call, Connection, ErrorGroup, ErrorLog, ToolRecord
from tools_app.sdk.hub_errors import StorageBusyError
from tools_app.setup.backup import status

MOST_SHOWN: Final = 6
MOST_CONNECTIONS: Final = 20
FIRST: Final = "24h"
SPANS: Final = {
    "1h": gettext_lazy("1 hour"),
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}
TOOLS: Final = {
    State.ON: gettext_lazy("Tools on"),
    State.OFF: gettext_lazy("Tools off"),
    State.UNAVAILABLE: gettext_lazy("Tools not callable"),
    State.GONE: gettext_lazy("Tools removed"),
}

May = Callable[[actions.Action], bool]


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    number: str
    address: str
    tone: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolFiguresRow:
    """A tool with figures of its calls."""

    name: str
    address: str
    calls: str
    calls_address: str
    errors: str
    errors_address: str
    rate: str
    half: str
    most: str


def _of_states(may: Callable[[actions.Action], bool], now: datetime) -> list[Reason]:
    """What is out of order, whatever the period."""
    reasons = [*attention.sources(), *attention.files()] if may(actions.SOURCES_READ) else []
    reasons += attention.alert_rules() if may(actions.ALERT_RULES_READ) else ()
    reasons += attention.disks(now) if may(actions.DATA_READ) else ()
    reasons += attention.emergencies() if may(actions.AUDIT_READ) else ()
    return [*reasons, *attention.stops()] if may(actions.STOPS_READ) else reasons


def context(request: HttpRequest, page_context: dict[str, Any]) -> dict[str, Any]:
    """The context of the overview, limited to what this user may see on other pages."""

    def may(reading: actions.Action) -> bool:
        return reading.permits(request.user)

    now = timezone.now()
    period = insights.period(_selected_span(request), now)
    unwell = _connections() if may(actions.CONNECTIONS_READ) else None
    reasons = [*attention.journal(), *attention.limits(), *attention.clock(now)]
    if unwell is not None:
        reasons += attention.connections([one for one in unwell if one.healthy is False])
    figures = []
    if may(actions.TOOLS_LIST) and (snapshot := _snapshot()) is not None:
        figures += _of_tools(snapshot)
        reasons += attention.tools(snapshot)
    reasons += _of_states(may, now)
    if actions.CALL_APPROVE.permits(request.user):
        pending_approvals = approvals.pending_count(request)
        figures.append(_of_approvals(pending_approvals))
        reasons += attention.approvals(pending_approvals)
    if may(actions.APPROVALS_READ):
        reasons += attention.expired_approvals(now, approvals.expired_address())
    page_context["title"] = _("Overview")
    page_context.update(_of_calls(period, may, figures, reasons))
    if may(actions.ERRORS_READ):
        figures.append(_of_errors())
        reasons += attention.errors()
    if may(actions.KEYS_READ):
        reasons += attention.keys(now)
    if may(actions.AUDIT_READ):
        _add_backups(now, figures, reasons)
    page_context.update(_lists(request, may, figures))
    reasons.sort(key=lambda reason: reason.tone != "bad")
    page_context.update(
        spans=[(f"?since={key}", words, key == period.key) for key, words in SPANS.items()],
        hub_overview=True,
        figures=figures,
        reasons=reasons,
        all_right=attention.in_a_sentence(reasons) if figures else "",
        tone=reasons[0].tone if reasons else "good",
        connections=unwell,
        may_add_key=actions.KEY_CREATE.permits(request.user),
    )
    if page_context["is_new"]:
        page_context.update(_first_steps(request))
    return page_context


def _selected_span(request: HttpRequest) -> str:
    span = request.GET.get("since", "")
    return span if span in SPANS else FIRST


def _snapshot() -> Snapshot | None:
    try:
        return catalog.current()
    except StorageBusyError:
        return None


# ---- figures


def _of_tools(snapshot: Snapshot) -> list[Figure]:
    unused = sum(1 for entry in snapshot.all if entry.enabled and entry.refusal and entry.refusal.unused)
    figures = []
    for state, count in states.counts(snapshot).items():
        if state is State.GONE and not count:
            continue
        loud = state is State.UNAVAILABLE and count > unused
        address = links.address("toolrecord", "changelist", state=state)
        figures.append(Figure(str(TOOLS[state]), f"{count:,}", address, "warn" if loud else ""))
    return figures


def _of_calls(period: Period, may: May, figures: list[Figure], reasons: list[Reason]) -> dict[str, Any]:
    """Outcomes of the calls: figures, charts over time, and the slowest and most failing tools."""
    sees_calls, sees_errors = may(actions.CALLS_READ), may(actions.ERROR_EVENTS_READ)
    if not sees_calls and not sees_errors:
        return {}
    buckets = insights.over(period)
    together = insights.together(buckets)
    all_calls = links.address("call", "changelist", since=period.key)
    failed_calls = links.errors_since(period.key, calls=sees_calls)
    bad = "bad" if together.errors else ""
    if sees_calls:
        figures.append(Figure(_("Calls"), f"{together.calls:,}", all_calls))
    if sees_errors:
        figures.append(Figure(_("Errors"), f"{together.errors:,}", failed_calls, bad))
    if not sees_calls:
        return {}
    reasons += attention.calls(together, period) if sees_errors else ()
    if together.calls:
        if sees_errors:
            figures.append(Figure(_("Error rate"), charts.share(together), failed_calls, bad, _parts(together)))
        for title, share in ((_("Median (p50)"), 0.5), (_("p95"), 0.95)):
            figures.append(Figure(title, charts.in_time(insights.percentile([together], share)), all_calls))
    by_name = insights.tools(period) if together.calls else {}
    return {
        "calls_chart": charts.calls(buckets, address=_list_of, errors=sees_errors),
        "durations_chart": charts.durations(buckets, address=_list_of),
        "failing_tools": _rows(_most_failing(by_name), period, may) if sees_errors else [],
        "slowest_tools": _rows(_slowest(by_name), period, may),
        "had_calls": bool(together.calls),
    }


def _parts(figures: Figures) -> str:
    """What an error rate is made of."""
    values = {"errors": f"{figures.errors:,}", "calls": f"{figures.not_refused:,}", "refused": f"{figures.refused:,}"}
    if figures.refused:
        return _("%(errors)s of %(calls)s, without %(refused)s refused") % values
    return _("%(errors)s of %(calls)s") % values


def _of_errors() -> Figure:
    number = insights.open_error_groups()
    address = links.address("errorgroup", "changelist")
    return Figure(_("Open issues"), f"{number:,}", address, "bad" if number else "")


def _of_approvals(pending_approvals: int) -> Figure:
    address = links.address("approval", "changelist")
    return Figure(_("Pending approvals"), f"{pending_approvals:,}", address, "warn" if pending_approvals else "")


def _add_backups(now: datetime, figures: list[Figure], reasons: list[Reason]) -> None:
    made_at = status.last_good()
    if made_at is not None or status.interval() is not None:
        age = _("none") if made_at is None else timesince(made_at, now, depth=1)
        address = links.address("auditentry", "changelist", action="backup.create")
        is_overdue = status.is_overdue(made_at, now)
        figures.append(Figure(_("Age of the last backup"), age, address, "bad" if is_overdue else ""))
    reasons += attention.backups(made_at, now)


def _list_of(bucket: Bucket) -> str:
    span = {"from": bucket.start.isoformat(), "until": bucket.end.isoformat()}
    return links.address("call", "changelist", **span)


def _most_failing(tools: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    failing_tools = [(name, figures) for name, figures in tools.items() if figures.errors]
    return sorted(failing_tools, key=lambda pair: (-pair[1].errors, pair[0]))[:MOST_SHOWN]


def _slowest(tools: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    slow_tools_or_none = [(insights.percentile([figures], 0.95), name, figures) for name, figures in tools.items()]
    slow_tools = [(slow, name, figures) for slow, name, figures in slow_tools_or_none if slow is not None]
    slow_tools.sort(key=lambda three: (-three[0], -three[2].calls, three[1]))
    return [(name, figures) for _slow, name, figures in slow_tools[:MOST_SHOWN]]


def _rows(tools: Sequence[tuple[str, Figures]], period: Period, may: May) -> list[ToolFiguresRow]:
    sees_tools = may(actions.TOOLS_LIST)
    return [
        ToolFiguresRow(
            name=name,
            address=links.address("toolrecord", "named", name=name) if sees_tools and ":" not in name else "",
            calls=f"{figures.calls:,}",
            calls_address=links.address("call", "changelist", tool=name, since=period.key),
            errors=f"{figures.errors:,}" if may(actions.ERROR_EVENTS_READ) else "",
            errors_address=links.errors_since(period.key, calls=True, tool=name),
            rate=charts.share_of(figures),
            half=charts.in_time(insights.percentile([figures], 0.5)),
            most=charts.in_time(insights.percentile([figures], 0.95)),
        )
        for name, figures in tools
    ]


# ---- lists


def _lists(request: HttpRequest, may: May, figures: list[Figure]) -> dict[str, Any]:
    """The newest records of each kind; None if the user may not see them."""
    calls = list(Call.objects.defer("arguments", "result")[:MOST_SHOWN]) if may(actions.CALLS_READ) else None
    groups = list(ErrorGroup.objects.open(timezone.now())[:MOST_SHOWN]) if may(actions.ERRORS_READ) else None
    only_errors = may(actions.ERROR_EVENTS_READ) and not may(actions.ERRORS_READ)
    agents = None
    if may(actions.AGENTS_READ):
        connected_agents = Agent.objects.connected()
        agents = list(connected_agents[:MOST_SHOWN])
        figures.append(
            Figure(_("Connected agents"), f"{connected_agents.count():,}", links.address("agent", "changelist"))
        )
    return {
        "newest_calls": calls,
        "open_groups": groups,
        "shows_causes": may(actions.ERROR_EVENTS_READ),
        "newest_errors": ErrorLog.objects.defer("detail")[:MOST_SHOWN] if only_errors else None,
        "agents": agents,
        "newest_changes": audit.rows(audit.newest_changes(MOST_SHOWN), request.user),
        "is_new": calls == [],
    }


def _connections() -> list[Connection]:
    """Enabled connections, unhealthy ones first."""
    rows = Connection.objects.filter(enabled=True).defer("sealed")
    return list(rows.order_by(F("healthy").asc(nulls_last=True), "name")[:MOST_CONNECTIONS])


# ---- the first steps


def _first_steps(request: HttpRequest) -> dict[str, str]:
    """Commands for a new hub: connect an agent to it, and make a first call."""
    beside = Path(sys.executable).with_name("toolhub")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "toolhub"]
    if conf.given("TOOLHUB_HOME"):
        command = ["env", f"TOOLHUB_HOME={conf.home()}", *command]
    arguments = json.dumps({"operation": "add", "a": 2, "b": 3})
    record = ToolRecord.objects.present().filter(name="calculate").first()
    return {
        "mcp_address": connecting.endpoints(request).mcp,
        "connect_agent": shlex.join([*command, "connect", "claude-code"]),
        "first_call": shlex.join([*command, "calltool", "calculate", arguments]),
        "first_try": console.address(record, request, arguments=arguments) if record is not None else "",
    }
