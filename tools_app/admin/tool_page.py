"""What the page of one tool shows beside its form: what agents see, how it does, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.utils import timezone

from tools_app import catalog, insights
from tools_app.admin import audit, definitions, links, parameters, states
from tools_app.catalog import Policy
from tools_app.models import AuditEntry, Call, ErrorLog, ToolRecord
from tools_app.models.figures import DURATIONS
from tools_app.tool import Tool

MOST_SHOWN: Final = 10

ORIGINS: Final = {
    "operator": "set here",
    "tool": "set by the tool’s author",
    "pack": "set by the tool’s pack",
    "settings": "the hub’s setting",
}


def of(record: ToolRecord, request: HttpRequest) -> dict[str, Any]:
    """Everything for the template; what the user may not see is not even read."""
    snapshot = catalog.current()
    entry = snapshot.find(record.name) if record.retired_at is None else None
    tool = entry.tool if entry is not None else None
    body = _body(record, tool)
    policy = catalog.effective_policy(record, tool)
    may = request.user.has_perm
    name = record.name
    changes = AuditEntry.objects.filter(subject=name)[:MOST_SHOWN]
    return {
        "condition": states.condition(record, snapshot),
        # One at an address of somebody else would tell them who looks at this page.
        "tool_icon": tool.picture.src if tool is not None and tool.picture is not None and tool.picture.inline else "",
        "tool_facts": _facts(record, body, tool),
        "tool_tags": record.tags.all(),
        "timeout_ms": policy.timeout_ms,
        "policy_rows": policy_rows(policy),
        "tool_description": body.get("description") or record.description,
        "tool_hints": hints(body.get("annotations")),
        "input_rows": parameters.rows(body.get("inputSchema")),
        "input_json": _json(body.get("inputSchema")),
        "output_rows": parameters.rows(body.get("outputSchema")),
        "output_json": _json(body.get("outputSchema")),
        "tool_examples": _examples(body.get("examples")),
        "tool_calls": _newest_calls(name) if may("tools_app.view_call") else None,
        "all_calls": links.address("call", "changelist", tool=name),
        "tool_errors": ErrorLog.objects.filter(tool_name=name)[:5] if may("tools_app.view_errorlog") else None,
        "all_errors": links.address("errorlog", "changelist", tool=name),
        "day_calls": links.address("call", "changelist", tool=name, since="24h"),
        "day_errors": links.errors_since("24h", calls=may("tools_app.view_call"), tool=name),
        "day_durations": _durations(name) if may("tools_app.view_call") else [],
        "tool_versions": definitions.versions(record),
        "tool_changes": audit.rows(changes) if may("tools_app.view_auditentry") else None,
        "all_changes": links.address("auditentry", "changelist", subject=name),
    }


def policy_rows(policy: Policy) -> list[tuple[str, str, str]]:
    """What applies to a call now, in words, and who decided it."""
    rate = policy.rate
    words = {
        "timeout_ms": ("Time limit", f"{policy.timeout_ms:,} ms"),
        "retries": ("Retries", f"{policy.retries}" if policy.retries else "none"),
        "retry_delay_ms": ("First wait before a retry", f"{policy.retry_delay_ms:,} ms"),
        "rate": ("Calls of one caller", f"{rate.most:,} in {rate.seconds:g} s" if rate else "not limited"),
        "cache_seconds": ("Cached answers", f"for {policy.cache_seconds:,} s" if policy.cache_seconds else "none"),
        "answer_tokens": ("Answers", f"up to {policy.answer_tokens:,} tokens"),
    }
    return [(title, text, ORIGINS[policy.origins[part]]) for part, (title, text) in words.items()]


def _durations(name: str) -> list[tuple[str, str]]:
    """How long its calls took in the last day. Estimates, and said to be: only spans are counted."""
    hours = insights.by_hour(*insights.last_day(timezone.now()), tool=name)
    found = [("Median 24 h", insights.percentile(hours, 0.5)), ("p95 24 h", insights.percentile(hours, 0.95))]
    return [(title, _within(bound)) for title, bound in found if bound is not None]


def _within(bound: float) -> str:
    return f"over {DURATIONS[-1]:,} ms" if math.isinf(bound) else f"within {bound:,} ms"


def _body(record: ToolRecord, tool: Tool | None) -> Mapping[str, Any]:
    """The definition that is loaded, else the last one on record (which PostgreSQL gives back in another order)."""
    if tool is not None:
        return tool.definition()
    kept = record.definition.body if record.definition is not None else None
    return kept if isinstance(kept, dict) else {}


def _facts(record: ToolRecord, body: Mapping[str, Any], tool: Tool | None) -> list[tuple[str, str]]:
    facts = [
        ("Pack", record.pack),
        ("Category", record.category),
        ("Version", record.version),
        ("Author", record.author),
        ("Also called", ", ".join(map(str, body.get("aliases") or ()))),
        ("Needs", ", ".join(map(str, body.get("dependencies") or ()))),
        ("Source", record.source),
        ("Written in", record.place),
        ("Runs", "" if tool is None else "in a thread" if tool.blocking else "on the event loop"),
        ("Registered", links.exact(record.registered_at)),
        ("Last changed", links.exact(record.updated_at)),
        ("Gone since", links.exact(record.retired_at) if record.retired_at else ""),
    ]
    return [(title, text) for title, text in facts if text]


def hints(annotations: object) -> list[tuple[str, str]]:
    """The hints of a tool as sentences, each with a tone."""
    if not isinstance(annotations, Mapping):
        return []
    said = []
    if annotations.get("readOnlyHint"):
        said.append(("good", "Only reads: it changes nothing."))
    elif annotations.get("destructiveHint"):
        said.append(("bad", "Writes, and may delete or overwrite."))
    else:
        said.append(("warn", "Writes, but only adds."))
    if not annotations.get("readOnlyHint"):
        again = annotations.get("idempotentHint")
        said.append(
            ("good", "The same call twice does no more than once.")
            if again
            else ("warn", "The same call twice may do it twice.")
        )
    outside = annotations.get("openWorldHint", True)
    said.append(("quiet", "Reaches systems outside this hub." if outside else "Stays inside this hub."))
    return said


def _examples(examples: object) -> list[dict[str, str]]:
    if not isinstance(examples, list):
        return []
    return [
        {
            "description": str(example.get("description", "")),
            "parameters": _json(example.get("parameters")),
            "result": _json(example.get("expectedResult")),
        }
        for example in examples
        if isinstance(example, Mapping)
    ]


def _json(value: object) -> str:
    return "" if value is None else definitions.readable(value, sort=False)


def _newest_calls(name: str) -> list[Call]:
    return list(Call.objects.filter(tool_name=name).defer("arguments", "result")[:MOST_SHOWN])
