"""Two weeks of calls, the same every time: busy by day, quiet at night, with an outage and a tool that breaks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from tests.demo.people import Person
from tools_app import catalog, retention
from tools_app.engine import rows
from tools_app.engine.rows import Failure
from tools_app.models import Call, ErrorGroup, ErrorLog

DAYS: Final = 14
BUSIEST_HOUR: Final = 90
# When n8n was down, in hours before now.
OUTAGE: Final = range(76, 80)
# Calls of one hour of the day, as a share of the busiest.
RHYTHM: Final = (2, 1, 1, 1, 1, 3, 10, 30, 65, 90, 100, 95, 60, 80, 95, 90, 75, 50, 30, 20, 14, 10, 6, 4)
WEEKEND: Final = 0.35

# How long a tool takes in milliseconds, and how often it is called.
TEMPERS: Final = {
    "calculate": (2, 4), "get_current_time": (1, 3), "echo": (1, 1), "web_search": (900, 9), "read_page": (1_300, 5),
    "list_issues": (140, 20), "get_issue": (90, 14), "create_issue": (260, 5), "update_issue": (240, 4),
    "list_workflows": (110, 8), "get_workflow": (160, 6), "list_executions": (420, 10), "get_execution": (2_100, 8),
    "stock_level": (18, 16), "find_articles": (45, 12), "get_order": (30, 18), "list_late_orders": (380, 3),
    "customer_summary": (75, 9), "reserve_article": (60, 5), "sales_report": (6_200, 2), "cancel_order": (80, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A way in which a tool fails: how often, with what words, and what only operators read."""

    tool: str
    share: float
    code: str
    message: str
    place: str
    status: str = Call.Status.FAILED
    hours: int = DAYS * 24
    """Since how many hours ago."""


FAULTS: Final = (
    Fault(
        "stock_level",
        0.22,
        "TOOL_EXECUTION_ERROR",
        "Tool execution failed: stock_level",
        "KeyError in shop.py",
        hours=9,
    ),
    Fault("web_search", 0.04, "API_ERROR", "The search engine asked for a captcha", "ApiError in duckduckgo.py"),
    Fault("sales_report", 0.09, "TIMEOUT", "Execution timeout after 60000ms", "", status=Call.Status.TIMEOUT),
    Fault("get_issue", 0.02, "NOT_FOUND", "Issue '4711' not found", "NotFoundError in issues.py"),
    Fault(
        "update_issue", 0.06, "UPSTREAM_VALIDATION", "Status is not allowed", "UpstreamValidationError in writing.py"
    ),
    Fault(
        "read_page", 0.03, "UPSTREAM_UNAVAILABLE", "Network error: no route to host", "ConnectError in web.py", hours=60
    ),
)
REFUSALS: Final = (("VALIDATION_ERROR", 0.012), ("RATE_LIMIT_EXCEEDED", 0.006), ("TOOL_DISABLED", 0.004))
N8N: Final = frozenset({"list_workflows", "get_workflow", "list_executions", "get_execution"})


def happen(now: datetime, people: list[Person]) -> int:
    """Write it all down, as the engine does, an hour at a time. Returns how many calls there were."""
    chance = random.Random(7)
    known = {entry.name: entry for entry in catalog.current().all}
    tools = [name for name in TEMPERS if name in known]
    weights = [TEMPERS[name][1] for name in tools]
    number = 0
    with transaction.atomic():
        for hours in range(DAYS * 24, -1, -1):
            calls, failures = [], []
            for moment in _moments(chance, now, hours):
                tool = chance.choices(tools, weights)[0]
                person = chance.choices(people, [one.share for one in people])[0]
                call = _call(chance, f"{number:032x}", tool, person, moment)
                call.definition_hash, call.tool_version = known[tool].definition_hash, known[tool].version
                fault = _fault(chance, tool, hours)
                if fault is not None:
                    failures.append(_failed(call, fault, f"{number:032x}"))
                calls.append(call)
                number += 1
            rows.insert_calls(calls)
            rows.insert_failures(failures)
            rows.add_to_figures((call, 1) for call in calls)
    retention.fold(now)
    return number


def _moments(chance: random.Random, now: datetime, hours: int) -> Iterator[datetime]:
    hour = (now - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
    busy = RHYTHM[hour.hour] / 100 * (WEEKEND if hour.weekday() > 4 else 1) * chance.uniform(0.8, 1.2)
    drawn = sorted(hour + timedelta(seconds=chance.uniform(0, 3_599)) for _ in range(round(BUSIEST_HOUR * busy) + 1))
    yield from (moment for moment in drawn if moment < now)


def _call(chance: random.Random, call_id: str, tool: str, person: Person, moment: datetime) -> Call:
    took = max(1, round(TEMPERS[tool][0] * chance.lognormvariate(0, 0.6)))
    refused = next((code for code, share in REFUSALS if chance.random() < share), "")
    return Call(
        id=call_id,
        tool_name=tool,
        door=person.door,
        caller_kind=person.kind,
        caller_id=person.id,
        caller_name=person.name,
        status=Call.Status.REFUSED if refused else Call.Status.SUCCEEDED,
        code=refused,
        error="Not this time" if refused else "",
        argument_bytes=chance.randint(20, 400),
        result_bytes=0 if refused else chance.randint(100, 30_000),
        started_at=moment,
        finished_at=moment + timedelta(milliseconds=0 if refused else took),
        duration_ms=0 if refused else took,
    )


def _fault(chance: random.Random, tool: str, hours: int) -> Fault | None:
    if tool in N8N and hours in OUTAGE:
        return Fault(
            tool, 1, "UPSTREAM_UNAVAILABLE", "Network error: connection refused", "ConnectError in client.py send"
        )
    return next((one for one in FAULTS if one.tool == tool and hours < one.hours and chance.random() < one.share), None)


def _failed(call: Call, fault: Fault, error_id: str) -> Failure:
    call.status, call.code, call.error, call.error_id = fault.status, fault.code, fault.message, error_id
    fingerprint = hashlib.sha256(f"{fault.tool} {fault.code} {fault.place}".encode()).hexdigest()[:32]
    moment: Any = call.finished_at
    group = ErrorGroup(
        fingerprint=fingerprint, tool_name=call.tool_name, code=fault.code, place=fault.place, message=fault.message,
        count=1, first_seen_at=moment, last_seen_at=moment, last_call_id=call.id,
    )  # fmt: skip
    error = ErrorLog(
        id=error_id, group_id=fingerprint, call_id=call.id, tool_name=call.tool_name, door=call.door,
        caller_name=call.caller_name, code=fault.code, message=fault.message, created_at=moment,
        detail=f"{fault.place}\n{fault.message}",
    )  # fmt: skip
    return Failure(error, group)
