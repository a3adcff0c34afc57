"""What the page of a call shows first: its error with the cause, arguments and answer, and the calls around it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from tools_app.access import actions
from tools_app.admin import issue_decisions, links
from tools_app.models import Call, ErrorGroup, ErrorLog

# Longer ones are folded when the page opens.
MOST_LINES: Final = 60
# Shorter ones stay in one line.
ONE_LINE: Final = 60


@dataclass(frozen=True, slots=True)
class Payload:
    """Arguments or an answer, as they are stored, in a form for people."""

    id: str
    title: str
    text: str
    size: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The calls before and after one, of the same tool or caller."""

    title: str
    earlier: Call | None
    later: Call | None
    address: str


def context(request: HttpRequest, call: Call, *, with_payload: bool) -> dict[str, Any]:
    return {
        **_error(request, call),
        "tool_link": links.to_tool(call.tool_name, call.code),
        "status_mark": links.status(call),
        "payloads": _payloads(call) if with_payload else [],
        "neighbours": _neighbours(call),
    }


def _error(request: HttpRequest, call: Call) -> dict[str, Any]:
    """The error event and the issue, as far as this user may see them."""
    if not call.error_id or not actions.ERROR_EVENTS_READ.permits(request.user):
        return {"error_event": None, "issue": None}
    event = ErrorLog.objects.filter(pk=call.error_id).first()
    if event is None or not event.group_id or not actions.ERRORS_READ.permits(request.user):
        return {"error_event": event, "issue": None}
    issue = ErrorGroup.objects.filter(pk=event.group_id).first()
    return {
        "error_event": event,
        "issue": issue,
        "issue_mark": issue_decisions.state_mark(issue) if issue is not None else "",
    }


def _payloads(call: Call) -> list[Payload]:
    texts = (
        ("arguments", _("Arguments"), call.arguments, call.argument_bytes),
        ("result", _("Result"), call.result, call.result_bytes),
    )
    return [_payload(name, title, text, size) for name, title, text, size in texts]


def _payload(name: str, title: str, text: str, size: int) -> Payload:
    shown = formatted(text)
    return Payload(f"call-{name}", title, shown, size, shown.count("\n") < MOST_LINES)


def formatted(text: str) -> str:
    """JSON with a line for each value, unless it fits into one. What is cut, or is no JSON, stays as it is."""
    if len(text) <= ONE_LINE:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _neighbours(call: Call) -> list[Neighbours]:
    rows = Call.objects.only("pk", "started_at", "status", "count", "answered_by", "code", "tool_name")
    same_tool = (_("Calls of this tool"), rows.filter(tool_name=call.tool_name), {"tool": call.tool_name})
    same_caller = (_("Calls of this caller"), rows.filter(caller_id=call.caller_id), {"caller": call.caller_id})
    sides = (same_tool, *([same_caller] if call.caller_id else []))
    return [
        Neighbours(title, *_around(calls, call), links.address("call", "changelist", **query))
        for title, calls, query in sides
    ]


def _around(calls: QuerySet[Call], call: Call) -> tuple[Call | None, Call | None]:
    """The one before and the one after. Along the index of their times; several can have begun at the same moment."""
    at, pk = call.started_at, call.pk
    earlier = calls.filter(Q(started_at__lt=at) | Q(pk__lt=pk), started_at__lte=at).order_by("-started_at", "-pk")
    later = calls.filter(Q(started_at__gt=at) | Q(pk__gt=pk), started_at__gte=at).order_by("started_at", "pk")
    return earlier.first(), later.first()
