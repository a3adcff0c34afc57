"""The first page: whether everything is all right, and figures that all lead to the list behind them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import approvals, attention, audit, charts, console, links, states
from tools_app.admin.attention import Reason
from tools_app.admin.states import State
from tools_app.base import conf
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import insights
from tools_app.journal.insights import Bucket, Figures, Period
from tools_app.models import Agent, Call, Connection, ErrorGroup, ErrorLog, ToolRecord
from tools_app.sdk.hub_errors import StorageBusyError

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

May = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    number: str
    address: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool with what became of its calls."""

    name: str
    address: str
    calls: str
    calls_address: str
    errors: str
    errors_address: str
    rate: str
    half: str
    most: str


def context(request: HttpRequest, given: dict[str, Any]) -> dict[str, Any]:
    """What the first page shows to this user: nothing that the user could not see elsewhere."""

    def may(what: str) -> bool:
        return request.user.has_perm(f"tools_app.view_{what}")

    now = timezone.now()
    chosen = insights.period(_asked(request), now)
    unwell = _connections() if may("connection") else None
    reasons = [*attention.journal(), *attention.clock(now)]
    if unwell is not None:
        reasons += attention.connections([one for one in unwell if one.healthy is False])
    figures = []
    if may("toolrecord") and (snapshot := _snapshot()) is not None:
        figures += _of_tools(snapshot)
        reasons += attention.tools(snapshot)
    if may("stop"):
        reasons += attention.stops()
    if request.user.has_perm("tools_app.change_approval"):
        waiting = approvals.waiting(request)
        figures.append(_of_approvals(waiting))
        reasons += attention.approvals(waiting)
    if may("approval"):
        reasons += attention.unanswered(now, approvals.unanswered_address())
    given["title"] = _("Overview")
    given.update(_of_calls(chosen, may, figures, reasons))
    if may("errorgroup"):
        figures.append(_of_errors())
        reasons += attention.errors(chosen)
    if may("apikey"):
        reasons += attention.keys(now)
    given.update(_lists(may, figures))
    reasons.sort(key=lambda reason: reason.tone != "bad")
    given.update(
        spans=[(f"?since={key}", words, key == chosen.key) for key, words in SPANS.items()],
        hub_overview=True,
        figures=figures,
        reasons=reasons,
        all_right=attention.in_a_sentence(reasons) if figures else "",
        tone=reasons[0].tone if reasons else "good",
        connections=unwell,
        may_add_key=request.user.has_perm("tools_app.add_apikey"),
    )
    if given["is_new"]:
        given.update(_first_steps(request))
    return given


def _asked(request: HttpRequest) -> str:
    asked = request.GET.get("since", "")
    return asked if asked in SPANS else FIRST


def _snapshot() -> Snapshot | None:
    try:
        return catalog.current()
    except StorageBusyError:
        return None


# ---- figures


def _of_tools(snapshot: Snapshot) -> list[Figure]:
    unused = sum(1 for entry in snapshot.all if entry.enabled and entry.refusal and entry.refusal.unused)
    found = []
    for state, count in states.counts(snapshot).items():
        if state is State.GONE and not count:
            continue
        loud = state is State.UNAVAILABLE and count > unused
        address = links.address("toolrecord", "changelist", state=state)
        found.append(Figure(str(TOOLS[state]), f"{count:,}", address, "warn" if loud else ""))
    return found


def _of_calls(chosen: Period, may: May, figures: list[Figure], reasons: list[Reason]) -> dict[str, Any]:
    """Outcomes of the calls: figures, charts over time, and the slowest and most failing tools."""
    sees_calls, sees_errors = may("call"), may("errorlog")
    if not sees_calls and not sees_errors:
        return {}
    buckets = insights.over(chosen)
    together = insights.together(buckets)
    everything = links.address("call", "changelist", since=chosen.key)
    failed = links.errors_since(chosen.key, calls=sees_calls)
    bad = "bad" if together.errors else ""
    if sees_calls:
        figures.append(Figure(_("Calls"), f"{together.calls:,}", everything))
    if sees_errors:
        figures.append(Figure(_("Errors"), f"{together.errors:,}", failed, bad))
    if not sees_calls:
        return {}
    reasons += attention.calls(together, chosen) if sees_errors else ()
    if together.calls:
        if sees_errors:
            figures.append(Figure(_("Error rate"), charts.share(together), failed, bad))
        for title, share in ((_("Median (p50)"), 0.5), (_("p95"), 0.95)):
            figures.append(Figure(title, charts.in_time(insights.percentile([together], share)), everything))
    by_name = insights.tools(chosen) if together.calls else {}
    return {
        "calls_chart": charts.calls(buckets, address=_list_of, errors=sees_errors),
        "durations_chart": charts.durations(buckets, address=_list_of),
        "failing_tools": _rows(_most_failing(by_name), chosen, may) if sees_errors else [],
        "slowest_tools": _rows(_slowest(by_name), chosen, may),
        "had_calls": bool(together.calls),
    }


def _of_errors() -> Figure:
    number = insights.open_error_groups()
    address = links.address("errorgroup", "changelist")
    return Figure(_("Open issues"), f"{number:,}", address, "bad" if number else "")


def _of_approvals(waiting: int) -> Figure:
    address = links.address("approval", "changelist")
    return Figure(_("Pending approvals"), f"{waiting:,}", address, "warn" if waiting else "")


def _list_of(bucket: Bucket) -> str:
    span = {"from": bucket.start.isoformat(), "until": bucket.end.isoformat()}
    return links.address("call", "changelist", **span)


def _most_failing(tools: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    failing = [(name, figures) for name, figures in tools.items() if figures.errors]
    return sorted(failing, key=lambda pair: (-pair[1].errors, pair[0]))[:MOST_SHOWN]


def _slowest(tools: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    timed = [(insights.percentile([figures], 0.95), name, figures) for name, figures in tools.items()]
    known = [(slow, name, figures) for slow, name, figures in timed if slow is not None]
    known.sort(key=lambda three: (-three[0], -three[2].calls, three[1]))
    return [(name, figures) for _slow, name, figures in known[:MOST_SHOWN]]


def _rows(tools: Sequence[tuple[str, Figures]], chosen: Period, may: May) -> list[ToolRow]:
    return [
        ToolRow(
            name=name,
            address=links.address("toolrecord", "named", name=name) if may("toolrecord") and ":" not in name else "",
            calls=f"{figures.calls:,}",
            calls_address=links.address("call", "changelist", tool=name, since=chosen.key),
            errors=f"{figures.errors:,}" if may("errorlog") else "",
            errors_address=links.errors_since(chosen.key, calls=True, tool=name),
            rate=charts.share(figures),
            half=charts.in_time(insights.percentile([figures], 0.5)),
            most=charts.in_time(insights.percentile([figures], 0.95)),
        )
        for name, figures in tools
    ]


# ---- lists


def _lists(may: May, figures: list[Figure]) -> dict[str, Any]:
    """The newest of everything; each None where it is not for this user."""
    calls = list(Call.objects.defer("arguments", "result")[:MOST_SHOWN]) if may("call") else None
    groups = list(ErrorGroup.objects.filter(resolved_at=None)[:MOST_SHOWN]) if may("errorgroup") else None
    only_errors = may("errorlog") and not may("errorgroup")
    agents = None
    if may("agent"):
        connected = Agent.objects.connected()
        agents = list(connected[:MOST_SHOWN])
        number = len(agents) if len(agents) < MOST_SHOWN else connected.count()
        figures.append(Figure(_("Connected agents"), f"{number:,}", links.address("agent", "changelist")))
    return {
        "newest_calls": calls,
        "open_groups": groups,
        "newest_errors": ErrorLog.objects.defer("detail")[:MOST_SHOWN] if only_errors else None,
        "agents": agents,
        "newest_changes": audit.rows(audit.newest_changes(MOST_SHOWN)) if may("auditentry") else None,
        "is_new": calls == [],
    }


def _connections() -> list[Connection]:
    """Those that are on, what is wrong first."""
    rows = Connection.objects.filter(enabled=True).defer("sealed")
    return list(rows.order_by(F("healthy").asc(nulls_last=True), "name")[:MOST_CONNECTIONS])


# ---- the first steps


def _first_steps(request: HttpRequest) -> dict[str, str]:
    """What a newcomer copies: how an agent is connected to this very hub, and a call to make by hand."""
    beside = Path(sys.executable).with_name("toolhub")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "toolhub"]
    if conf.given("TOOLHUB_HOME"):
        command = ["env", f"TOOLHUB_HOME={conf.home()}", *command]
    arguments = json.dumps({"operation": "add", "a": 2, "b": 3})
    record = ToolRecord.objects.present().filter(name="calculate").first()
    return {
        "connect_agent": shlex.join([*command, "connect", "claude-code"]),
        "first_call": shlex.join([*command, "calltool", "calculate", arguments]),
        "first_try": console.address(record, request, arguments=arguments) if record is not None else "",
    }
