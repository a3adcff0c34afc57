"""Two weeks of calls, the same every time: busy by day, quiet at night, with an outage and a tool that breaks."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Max

from toolhub.demo.asking import TEMPERS
from toolhub.demo.people import ASKED_ABOUT, LONGER_REPORTS, VOUCHERS_OFF, Person
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.journal import rows
from tools_app.journal.rows import Failure
from tools_app.models import ApiKey, Call, ErrorGroup, ErrorLog
from tools_app.text import redaction

DAYS: Final = 14
BUSIEST_HOUR: Final = 90
# When n8n was down, in hours before now.
OUTAGE: Final = range(76, 80)
# Calls of one hour of the day, as a share of the busiest. At the time of the visit it is three in the afternoon.
RHYTHM: Final = (2, 1, 1, 1, 1, 3, 10, 30, 65, 90, 100, 95, 60, 80, 95, 90, 75, 50, 30, 20, 14, 10, 6, 4)
NOW_IS: Final = 15
WEEKEND: Final = 0.35


@dataclass(frozen=True)
class Fault:
    """A way in which a tool fails: how often, with what words, and what only operators read."""

    tool: str
    share: float
    code: str
    message: str
    place: str
    detail: str
    status: str = Call.Status.FAILED
    hours: int = DAYS * 24
    """Since how many hours ago."""


FAULTS: Final = (
    Fault(
        "stock_level", 0.22, "TOOL_EXECUTION_ERROR", "Tool execution failed: stock_level", "KeyError in shop.py",
        'Traceback (most recent call last):\n  File "shop.py", line 88, in stock_level\n'
        '    return {"sku": sku, "available": shelves[warehouse]}\n'
        "                                     ~~~~~~~^^^^^^^^^^^\nKeyError: 'south'",
        hours=9,
    ),
    Fault(
        "web_search", 0.04, "API_ERROR", "The search engine asked for a captcha", "ApiError in duckduckgo.py",
        "GET https://html.duckduckgo.com/html/\nHTTP 202\n<title>Unfortunately, bots use DuckDuckGo too.</title>",
    ),
    Fault("sales_report", 0.09, "TIMEOUT", "", "", "", status=Call.Status.TIMEOUT),
    Fault(
        "get_issue", 0.02, "NOT_FOUND", "Issue '4711' not found", "NotFoundError in issues.py",
        "GET /issues/4711.json\nHTTP 404\n(no body)", status=Call.Status.REFUSED,
    ),
    Fault(
        "update_issue", 0.06, "UPSTREAM_VALIDATION", "Status is not allowed", "UpstreamValidationError in writing.py",
        'PUT /issues/142.json\nHTTP 422\n{"errors": ["Status is not included in the list"]}',
        status=Call.Status.REFUSED,
    ),
    Fault(
        "read_page", 0.03, "UPSTREAM_UNAVAILABLE", "Network error: no route to host", "ConnectError in web.py",
        "GET https://docs.example.org/carriers/limits\nhttpx.ConnectError: [Errno 113] No route to host", hours=60,
    ),
)  # fmt: skip
DOWN: Final = Fault(
    "", 1, "UPSTREAM_UNAVAILABLE", "Network error: connection refused", "ConnectError in client.py send",
    "httpx.ConnectError: [Errno 111] Connection refused",
)  # fmt: skip
MISSPELT, TOO_OFTEN = 0.012, 0.006


def happen(now: datetime, people: list[Person]) -> int:
    """Write it all down, as the engine does, an hour at a time. Returns how many calls there were."""
    chance = random.Random(7)  # noqa: S311 – the same calls every time; no secret depends on it
    known = {entry.name: entry for entry in catalog.current().all if entry.name in TEMPERS}
    reached = {one.name: [name for name, entry in known.items() if one.reaches(entry)] for one in people}
    shares, number = [one.share for one in people], 0
    with transaction.atomic():
        for hours in range(DAYS * 24, -1, -1):
            calls, failures = [], []
            for moment in _moments(chance, now, hours):
                person = chance.choices(people, shares)[0]
                names = reached[person.name]
                tool = known[chance.choices(names, [TEMPERS[name][1] for name in names])[0]]
                call = _call(chance, tool, person, moment)
                days = (now - moment) / timedelta(days=1)
                if not _refused(call, chance, tool, days) and (fault := _fault(chance, tool, hours)) is not None:
                    failures.append(_failed(call, fault, days, f"{chance.getrandbits(128):032x}"))
                calls.append(call)
                number += 1
            rows.insert_calls(calls)
            rows.insert_failures(failures)
            rows.insert_counts((call, 1) for call in calls)
            rows.fold()
    for used in Call.objects.filter(caller_kind="key").values("caller_id").annotate(last=Max("started_at")):
        ApiKey.objects.filter(pk=used["caller_id"].removeprefix("key:")).update(last_used_at=used["last"])
    return number


def _moments(chance: random.Random, now: datetime, hours: int) -> Iterator[datetime]:
    hour = (now - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
    busy = RHYTHM[(NOW_IS - hours) % 24] / 100 * (WEEKEND if hour.weekday() > 4 else 1) * chance.uniform(0.8, 1.2)
    drawn = sorted(hour + timedelta(seconds=chance.uniform(0, 3_599)) for _ in range(round(BUSIEST_HOUR * busy) + 1))
    yield from (moment for moment in drawn if moment < now)


def _call(chance: random.Random, tool: Entry, person: Person, moment: datetime) -> Call:
    typical, _often, ask = TEMPERS[tool.name]
    took = max(1, round(typical * chance.lognormvariate(0, 0.6)))
    queued = min(took, chance.randint(0, 2))
    upstream = tool.pack in ("n8n", "redmine", "websearch")
    call = Call(
        id=f"{chance.getrandbits(128):032x}",
        tool_name=tool.name,
        definition_hash=tool.definition_hash,
        tool_version=tool.version,
        door=person.door,
        caller_kind=person.kind,
        caller_id=person.id,
        caller_name=person.name,
        connection=tool.pack if tool.pack in ("n8n", "redmine") else "",
        status=Call.Status.SUCCEEDED,
        result_bytes=chance.randint(100, 30_000),
        started_at=moment,
        queued_ms=queued,
        upstream_ms=round((took - queued) * chance.uniform(0.85, 0.98)) if upstream else None,
    )
    _set_arguments(call, ask(chance))
    _set_duration(call, took)
    return call


def _set_arguments(call: Call, arguments: Mapping[str, Any]) -> None:
    call.arguments, call.argument_bytes = redaction.summary(arguments), len(json.dumps(arguments))


def _set_duration(call: Call, milliseconds: int) -> None:
    call.duration_ms, call.finished_at = milliseconds, call.started_at + timedelta(milliseconds=milliseconds)


def _refused(call: Call, chance: random.Random, tool: Entry, days: float) -> bool:
    """Whether the hub did not let it in; the call says why."""
    required_names = tool.input_schema.get("required", ())
    if tool.name == "send_voucher" and days < VOUCHERS_OFF:
        call.code, call.error = "TOOL_DISABLED", "Tool is disabled: send_voucher"
    elif tool.name == "cancel_order" and days < ASKED_ABOUT:
        call.code = "APPROVAL_REQUIRED"
        call.error = "Approval required: an operator must approve this call of cancel_order"
    elif required_names and chance.random() < MISSPELT:
        missing_name = chance.choice(required_names)
        arguments = json.loads(call.arguments)
        _set_arguments(call, {name: value for name, value in arguments.items() if name != missing_name})
        call.code, call.error = "VALIDATION_ERROR", f"Required parameter missing: {missing_name}"
    elif call.caller_name == "ci" and chance.random() < TOO_OFTEN * 8:
        call.code, call.error = "RATE_LIMIT_EXCEEDED", "Rate limit exceeded: at most 60 requests in 60 seconds"
    else:
        return False
    call.status, call.result_bytes, call.queued_ms, call.upstream_ms = Call.Status.REFUSED, 0, None, None
    call.connection = ""
    _set_duration(call, 0)
    return True


def _fault(chance: random.Random, tool: Entry, hours: int) -> Fault | None:
    if tool.pack == "n8n" and hours in OUTAGE:
        return DOWN
    return next(
        (one for one in FAULTS if one.tool == tool.name and hours < one.hours and chance.random() < one.share), None
    )


def _failed(call: Call, fault: Fault, days: float, error_id: str) -> Failure:
    call.status, call.code, call.error, call.error_id = fault.status, fault.code, fault.message, error_id
    call.result_bytes = 0
    detail = fault.detail
    if fault.status == Call.Status.TIMEOUT:
        limit = 60_000 if days < LONGER_REPORTS else 30_000
        call.error, detail = f"Execution timeout after {limit}ms", f"It was given {limit} ms and had not answered."
        _set_duration(call, limit)
    elif fault is DOWN:
        call.attempts, call.upstream_ms = 2, 0
        _set_duration(call, 1_004)
    fingerprint = hashlib.sha256(f"{call.tool_name} {fault.code} {fault.place}".encode()).hexdigest()[:32]
    moment: Any = call.finished_at
    # Of a stack trace, its last line.
    cause = detail.splitlines()[-1] if detail.startswith("Traceback") else ""
    is_mistake = fault.status == Call.Status.REFUSED
    group = ErrorGroup(
        fingerprint=fingerprint, tool_name=call.tool_name, code=fault.code, place=fault.place, message=call.error,
        cause=cause, count=1, first_seen_at=moment, last_seen_at=moment, last_call_id=call.id,
    )  # fmt: skip
    error = ErrorLog(
        id=error_id, group_id=None if is_mistake else fingerprint, call_id=call.id, tool_name=call.tool_name,
        door=call.door, caller_name=call.caller_name, code=fault.code, message=call.error, created_at=moment,
        detail=detail, cause=cause,
    )  # fmt: skip
    return Failure(error, None if is_mistake else group)
