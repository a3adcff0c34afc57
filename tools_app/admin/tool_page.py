"""The page of one tool beside its form: what agents see, figures, and history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.access import actions
from tools_app.admin import (
    audit,
    definitions,
    dependencies,
    hint_words,
    links,
    phrases,
    source_page,
    states,
    tool_figures,
    tool_reach,
)
from tools_app.catalog import building, catalog, listed, projection, schema_table, source_states
from tools_app.catalog.entry import Entry, Policy, effective_policy
from tools_app.catalog.source_states import SourceState
from tools_app.journal import insights
from tools_app.journal.insights import Figures
from tools_app.models import AuditEntry, Call, Connection, ErrorGroup, ErrorLog, ToolCheck, ToolRecord, ToolTag
from tools_app.sdk.spec import ToolSpec
from tools_app.text.budget import size_of, tokens_of

MOST_SHOWN: Final = 10
SPAN: Final = "span"

ORIGINS: Final = {
    "operator": _lazy("set here"),
    "source": _lazy("set for its source"),
    "tool": _lazy("set by the tool’s author"),
    "pack": _lazy("set by the author of the source"),
    "settings": _lazy("hub default"),
}


def of(record: ToolRecord, request: HttpRequest) -> dict[str, Any]:
    """The template context. Data that the user may not see is not queried."""
    snapshot = catalog.current()
    entry = snapshot.find(record.name) if record.retired_at is None else None
    spec = entry.spec if entry is not None else building.spec_of(record)
    body = spec.body
    policy = effective_policy(record, spec, record.source)
    check = ToolCheck.objects.filter(tool=record).first()
    name = record.name
    errors = ErrorLog.objects.filter(tool_name=name)
    return {
        "condition": states.condition(record, snapshot),
        # A remote image would reveal to its server who views this page.
        "tool_icon": icon if (icon := str((spec.icon or {}).get("src", ""))).startswith("data:") else "",
        "tool_deprecated": body.get("deprecated", ""),
        "tool_check": check,
        "tool_check_is_old": check is not None and check.definition_hash != spec.hash,
        "tool_findings": phrases.all_spoken(record.definition.findings) if record.definition is not None else [],
        "tool_facts": _facts(record, spec, may_view_source=actions.SOURCES_READ.permits(request.user)),
        "tool_tags": _tags(record),
        "tool_connections": _connections(entry, request),
        "timeout_ms": policy.timeout_ms,
        "policy_rows": policy_rows(policy),
        **_outside(record, spec),
        **_agent_view(record, entry, body),
        **_figures(name, request),
        "tool_calls": _newest_calls(name) if actions.CALLS_READ.permits(request.user) else None,
        "all_calls": links.address("call", "changelist", tool=name),
        "tool_groups": _open_groups(name) if actions.ERRORS_READ.permits(request.user) else None,
        "all_groups": links.address("errorgroup", "changelist", tool=name),
        "tool_errors": errors[:5] if actions.ERROR_EVENTS_READ.permits(request.user) else None,
        "all_errors": links.address("errorlog", "changelist", tool=name),
        "tool_ways": tool_reach.ways_to(entry, snapshot, request) if entry is not None else None,
        "tool_needs": dependencies.need_rows(entry, snapshot) if entry is not None else [],
        "tool_needed_by": dependencies.needed_by(entry, snapshot) if entry is not None else [],
        "may_delete": record.retired_at is not None and actions.TOOL_DELETE.permits(request.user),
        "tool_versions": definitions.versions(record),
        "tool_changes": audit.rows(AuditEntry.objects.filter(subject=name), request.user),
        "all_changes": links.address("auditentry", "changelist", subject=name),
    }


def _outside(record: ToolRecord, spec: ToolSpec) -> dict[str, Any]:
    """What is shown of tools of sources outside only: other people wrote what they say."""
    if record.source is None or not record.source.is_outside:
        return {}
    is_well = source_states.state_of(record.source) in (SourceState.AVAILABLE, SourceState.INCOMPLETE)
    raw = record.definition.raw if record.definition is not None else ""
    return {
        "hint_rows": hint_words.rows(record, spec),
        "hints_address": links.address("toolrecord", "hints", record.pk),
        "tool_unchecked": record.runtime.get("unchecked", ""),
        "tool_raw": _json(json.loads(raw)) if raw else "",
        "source_mark": source_page.mark(record.source) if not is_well else "",
        "source_failure": source_page.failure(record.source) if not is_well else (),
    }


def _agent_view(record: ToolRecord, entry: Entry | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """What agents are shown. Of a tool that this process does not have, what they were shown last."""
    wire = listed.as_listed(entry) if entry is not None else None
    inputs = entry.input_schema if entry is not None else body.get("inputSchema")
    return {
        "tool_description": body.get("description") or record.description,
        "tool_hints": hints(wire["annotations"] if wire is not None else body.get("annotations")),
        "tool_tokens": tokens_of(size_of(wire)) if wire is not None else None,
        "tool_token_parts": listed.costs_of_parts(entry) if entry is not None else None,
        "tool_clients": phrases.all_spoken(map(str, projection.findings(record.name, inputs))),
        "wire_json": _json(wire),
        "input_rows": schema_table.rows(inputs),
        "input_json": _json(inputs),
        "output_rows": schema_table.rows(body.get("outputSchema")),
        "output_json": _json(body.get("outputSchema")),
        "tool_examples": _examples(body.get("examples")),
    }


def _figures(name: str, request: HttpRequest) -> dict[str, Any]:
    calls, errors = actions.CALLS_READ.permits(request.user), actions.ERROR_EVENTS_READ.permits(request.user)
    if not (calls or errors):
        return {}
    since, until = insights.last_day(timezone.now())
    day = insights.by_tool(since, until, [name]).get(name, Figures())
    span_key = request.GET.get(SPAN, "")
    selected_span = span_key if span_key in tool_figures.SPANS else tool_figures.DAY
    return {
        "day": day,
        "day_calls": links.address("call", "changelist", tool=name, since="24h"),
        "day_errors": links.errors_since("24h", calls=calls, tool=name),
        "day_durations": tool_figures.tiles(day) if calls else [],
        "tool_charts": tool_figures.charts_of(name, selected_span, errors=errors) if calls else None,
        "spans": [
            {"name": span.words, "address": f"?{SPAN}={key}#figures", "selected": key == selected_span}
            for key, span in tool_figures.SPANS.items()
        ],
    }


def _tags(record: ToolRecord) -> list[dict[str, Any]]:
    """Tags of the author and of operators."""
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
    """The accounts of the tool's upstream, for users who may see them."""
    if entry is None or not actions.CONNECTIONS_READ.permits(request.user):
        return []
    numbers = dict(Connection.objects.filter(pack=entry.pack).values_list("name", "pk")) if entry.accounts else {}
    writes = entry.hints.writes
    return [
        {
            "name": account.name,
            "address": links.address("connection", "change", numbers[account.name]) if account.name in numbers else "",
            "obstacle": account.obstacle_now(writes=writes),
        }
        for account in entry.accounts
    ]


def _open_groups(name: str) -> list[ErrorGroup]:
    return list(ErrorGroup.objects.open(timezone.now()).filter(tool_name=name)[:MOST_SHOWN])


def inherited_policy(record: ToolRecord) -> dict[str, str]:
    """The values that apply where a policy field is empty."""
    snapshot = catalog.current()
    entry = snapshot.find(record.name) if record.retired_at is None else None
    policy = effective_policy(
        ToolRecord(name=record.name), entry.spec if entry is not None else building.spec_of(record), record.source
    )
    rate = {"rate_calls": f"{policy.rate.most}", "rate_seconds": f"{policy.rate.seconds:g}"} if policy.rate else {}
    parts = ("timeout_ms", "retries", "retry_delay_ms", "cache_seconds", "answer_tokens")
    return {part: str(getattr(policy, part)) for part in parts} | rate


def policy_rows(policy: Policy) -> list[tuple[str, str, str]]:
    """The current policy in words, with the origin of each value."""
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


def _facts(record: ToolRecord, spec: ToolSpec, *, may_view_source: bool) -> list[tuple[str, str]]:
    source = record.source
    facts = [
        (_("Source"), links.to_source(source.name, record.pack) if source and may_view_source else record.pack),
        (_("Name at the source"), record.original_name if record.original_name != record.name else ""),
        (_("Category"), record.category),
        (_("Version"), record.version),
        (_("Author"), record.author),
        (_("Aliases"), ", ".join(spec.aliases)),
        (_("Search keywords"), ", ".join(spec.keywords)),
        (_("Source type"), record.source_kind),
        (_("Source file"), record.place),
        (_("Runs"), _("in a thread") if spec.blocking else _("on the event loop")),
        (_("Registered"), links.exact(record.registered_at)),
        (_("Last changed"), links.exact(record.updated_at)),
        (_("Removed since"), links.exact(record.retired_at) if record.retired_at else ""),
    ]
    return [(title, text) for title, text in facts if text]


def hints(annotations: object) -> list[tuple[str, str]]:
    """The hints of a tool as sentences, each with a tone."""
    if not isinstance(annotations, Mapping):
        return []
    sentences = []
    if annotations.get("readOnlyHint"):
        sentences.append(("good", _("Read-only: changes nothing")))
    elif annotations.get("destructiveHint"):
        sentences.append(("bad", _("Destructive: may delete or overwrite")))
    else:
        sentences.append(("warn", _("Non-destructive write")))
    if not annotations.get("readOnlyHint"):
        again = annotations.get("idempotentHint")
        sentences.append(
            ("good", _("Idempotent: repeating a call has no further effect"))
            if again
            else ("warn", _("Not idempotent"))
        )
    outside = annotations.get("openWorldHint", True)
    sentences.append(("quiet", _("External access") if outside else _("No external access")))
    return sentences


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
