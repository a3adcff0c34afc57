"""What the page of one tool shows beside its form: what agents see, how it does, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.admin import audit, definitions, dependencies, links, states, tool_figures, tool_reach
from tools_app.catalog import catalog, listed, schema_table
from tools_app.catalog.entry import Entry, Policy, effective_policy
from tools_app.journal import insights
from tools_app.journal.insights import Figures
from tools_app.models import AuditEntry, Call, Connection, ErrorGroup, ErrorLog, ToolCheck, ToolRecord, ToolTag
from tools_app.sdk.tool import Tool
from tools_app.text.budget import size_of, tokens_of

MOST_SHOWN: Final = 10
SPAN: Final = "span"

ORIGINS: Final = {
    "operator": _lazy("set here"),
    "tool": _lazy("set by the tool’s author"),
    "pack": _lazy("set by the tool’s source"),
    "settings": _lazy("hub default"),
}


def of(record: ToolRecord, request: HttpRequest) -> dict[str, Any]:
    """Everything for the template; what the user may not see is not even read."""
    snapshot = catalog.current()
    entry = snapshot.find(record.name) if record.retired_at is None else None
    tool = entry.tool if entry is not None else None
    body = _body(record, tool)
    policy = effective_policy(record, tool)
    may = request.user.has_perm
    check = ToolCheck.objects.filter(tool=record).first()
    name = record.name
    changes = AuditEntry.objects.filter(subject=name)[:MOST_SHOWN]
    return {
        "condition": states.condition(record, snapshot),
        # A remote image would reveal to its server who views this page.
        "tool_icon": tool.picture.src if tool is not None and tool.picture is not None and tool.picture.inline else "",
        "tool_deprecated": body.get("deprecated", ""),
        "tool_check": check,
        "tool_check_is_old": check is not None and tool is not None and check.definition_hash != tool.fingerprint,
        "tool_findings": record.definition.findings if record.definition is not None else [],
        "tool_facts": _facts(record, body, tool),
        "tool_tags": _tags(record),
        "tool_connections": _connections(entry, request),
        "timeout_ms": policy.timeout_ms,
        "policy_rows": policy_rows(policy),
        **_seen(record, entry, body),
        **_figures(name, request),
        "tool_calls": _newest_calls(name) if may("tools_app.view_call") else None,
        "all_calls": links.address("call", "changelist", tool=name),
        "tool_groups": _open_groups(name) if may("tools_app.view_errorgroup") else None,
        "all_groups": links.address("errorgroup", "changelist", tool=name),
        "tool_errors": ErrorLog.objects.filter(tool_name=name)[:5] if may("tools_app.view_errorlog") else None,
        "all_errors": links.address("errorlog", "changelist", tool=name),
        "tool_ways": tool_reach.ways_to(entry, snapshot, request) if entry is not None else None,
        "tool_needs": dependencies.written(entry, snapshot) if entry is not None else [],
        "tool_needed_by": dependencies.needed_by(entry, snapshot) if entry is not None else [],
        "tool_versions": definitions.versions(record),
        "tool_changes": audit.rows(changes) if may("tools_app.view_auditentry") else None,
        "all_changes": links.address("auditentry", "changelist", subject=name),
    }


def _seen(record: ToolRecord, entry: Entry | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """What agents are shown. Of a tool that this process does not have, what they were shown last."""
    wire = listed.as_listed(entry, entry.tool) if entry is not None and entry.tool is not None else None
    inputs = wire["inputSchema"] if wire is not None else body.get("inputSchema")
    return {
        "tool_description": body.get("description") or record.description,
        "tool_hints": hints(body.get("annotations")),
        "tool_tokens": tokens_of(size_of(wire)) if wire is not None else None,
        "wire_json": _json(wire),
        "input_rows": schema_table.rows(inputs),
        "input_json": _json(inputs),
        "output_rows": schema_table.rows(body.get("outputSchema")),
        "output_json": _json(body.get("outputSchema")),
        "tool_examples": _examples(body.get("examples")),
    }


def _figures(name: str, request: HttpRequest) -> dict[str, Any]:
    may = request.user.has_perm
    calls, errors = may("tools_app.view_call"), may("tools_app.view_errorlog")
    if not (calls or errors):
        return {}
    since, until = insights.last_day(timezone.now())
    day = insights.by_tool(since, until, [name]).get(name, Figures())
    asked = request.GET.get(SPAN, "")
    chosen = asked if asked in tool_figures.SPANS else tool_figures.DAY
    return {
        "day": day,
        "day_calls": links.address("call", "changelist", tool=name, since="24h"),
        "day_errors": links.errors_since("24h", calls=calls, tool=name),
        "day_durations": tool_figures.tiles(day) if calls else [],
        "tool_charts": tool_figures.drawn(name, chosen, errors=errors) if calls else None,
        "spans": [
            {"name": span.words, "address": f"?{SPAN}={key}#figures", "selected": key == chosen}
            for key, span in tool_figures.SPANS.items()
        ],
    }


def _tags(record: ToolRecord) -> list[dict[str, Any]]:
    """Those of its author, and those that operators gave it."""
    rows = ToolTag.objects.filter(tool=record).order_by("tag__name").values_list("tag_id", "tag__name", "declared")
    return [
        {
            "name": name,
            "address": links.address("toolrecord", "changelist", tags__id__exact=number),
            "from": "" if declared else _("added by an operator"),
        }
        for number, name, declared in rows
    ]


def _connections(entry: Entry | None, request: HttpRequest) -> list[dict[str, str]]:
    """The accounts at its upstream, for those who may see them."""
    if entry is None or not request.user.has_perm("tools_app.view_connection"):
        return []
    numbers = dict(Connection.objects.filter(pack=entry.pack).values_list("name", "pk")) if entry.accounts else {}
    writes = entry.hints.writes
    return [
        {
            "name": account.name,
            "address": links.address("connection", "change", numbers[account.name]) if account.name in numbers else "",
            "obstacle": account.obstacle(writes=writes),
        }
        for account in entry.accounts
    ]


def _open_groups(name: str) -> list[ErrorGroup]:
    return list(ErrorGroup.objects.filter(tool_name=name, resolved_at=None)[:MOST_SHOWN])


def inherited(record: ToolRecord) -> dict[str, str]:
    """What holds where a field of the policy is left empty."""
    snapshot = catalog.current()
    entry = snapshot.find(record.name) if record.retired_at is None else None
    policy = effective_policy(ToolRecord(name=record.name), entry.tool if entry is not None else None)
    rate = policy.rate
    return {
        "timeout_ms": str(policy.timeout_ms),
        "retries": str(policy.retries),
        "retry_delay_ms": str(policy.retry_delay_ms),
        "rate_calls": str(rate.most) if rate else "",
        "rate_seconds": f"{rate.seconds:g}" if rate else "",
        "cache_seconds": str(policy.cache_seconds),
        "answer_tokens": str(policy.answer_tokens),
    }


def policy_rows(policy: Policy) -> list[tuple[str, str, str]]:
    """What applies to a call now, in words, and who decided it."""
    rate = policy.rate
    words = {
        "timeout_ms": (_("Time limit"), f"{policy.timeout_ms:,} ms"),
        "retries": (_("Retries"), f"{policy.retries}" if policy.retries else _("none")),
        "retry_delay_ms": (_("Delay before the first retry"), f"{policy.retry_delay_ms:,} ms"),
        "rate": (
            _("Calls per caller"),
            _("%(calls)s per %(seconds)s s") % {"calls": f"{rate.most:,}", "seconds": f"{rate.seconds:g}"}
            if rate
            else _("unlimited"),
        ),
        "cache_seconds": (
            _("Cached responses"),
            _("for %(seconds)s s") % {"seconds": f"{policy.cache_seconds:,}"} if policy.cache_seconds else _("none"),
        ),
        "answer_tokens": (_("Max. response size"), _("%(tokens)s tokens") % {"tokens": f"{policy.answer_tokens:,}"}),
    }
    return [(title, text, str(ORIGINS[policy.origins[part]])) for part, (title, text) in words.items()]


def _body(record: ToolRecord, tool: Tool | None) -> Mapping[str, Any]:
    """The definition that is loaded, else the last one on record (which PostgreSQL gives back in another order)."""
    if tool is not None:
        return tool.definition()
    kept = record.definition.body if record.definition is not None else None
    return kept if isinstance(kept, dict) else {}


def _facts(record: ToolRecord, body: Mapping[str, Any], tool: Tool | None) -> list[tuple[str, str]]:
    facts = [
        (_("Source"), record.pack),
        (_("Category"), record.category),
        (_("Version"), record.version),
        (_("Author"), record.author),
        (_("Aliases"), ", ".join(map(str, body.get("aliases") or ()))),
        (_("Search keywords"), ", ".join(map(str, body.get("keywords") or ()))),
        (_("Source type"), record.source),
        (_("Source file"), record.place),
        (_("Runs"), "" if tool is None else _("in a thread") if tool.blocking else _("on the event loop")),
        (_("Registered"), links.exact(record.registered_at)),
        (_("Last changed"), links.exact(record.updated_at)),
        (_("Removed since"), links.exact(record.retired_at) if record.retired_at else ""),
    ]
    return [(title, text) for title, text in facts if text]


def hints(annotations: object) -> list[tuple[str, str]]:
    """The hints of a tool as sentences, each with a tone."""
    if not isinstance(annotations, Mapping):
        return []
    said = []
    if annotations.get("readOnlyHint"):
        said.append(("good", _("Read-only: changes nothing")))
    elif annotations.get("destructiveHint"):
        said.append(("bad", _("Destructive: may delete or overwrite")))
    else:
        said.append(("warn", _("Non-destructive write")))
    if not annotations.get("readOnlyHint"):
        again = annotations.get("idempotentHint")
        said.append(
            ("good", _("Idempotent: repeating a call has no further effect"))
            if again
            else ("warn", _("Not idempotent"))
        )
    outside = annotations.get("openWorldHint", True)
    said.append(("quiet", _("External access") if outside else _("No external access")))
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
