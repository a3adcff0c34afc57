"""The texts of the hub's own resources, in Markdown for agents and people: tools and calls of a caller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import Call
from tools_app.sdk.budgets import Limit
from tools_app.sdk.schemas import Schema
from tools_app.text import hygiene

# Maximum length of a description in the overview.
_GLANCE: Final = 160


def overview(view: Snapshot) -> str:
    """An overview of the callable tools by category, and of those that cannot be called, with the reason."""
    lines = ["# Tools", "", f"Callable tools: {len(view.callable)}. Details are at `toolhub://tools/<name>`.", ""]
    by_category = sorted(view.callable, key=lambda entry: (entry.category == "", entry.category, entry.name))
    for category, entries in groupby(by_category, key=lambda entry: entry.category):
        lines += [f"## {_line(category) or 'Other'}", ""]
        lines += [f"- `{entry.shown_name}` – {_line(_first(entry.description), _GLANCE)}" for entry in entries]
        lines.append("")
    if idle := [entry for entry in view.all if not entry.callable]:
        lines += ["## Not callable now", ""]
        lines += [
            f"- `{entry.shown_name}` – {_line(entry.refusal.reason)}" for entry in idle if entry.refusal is not None
        ]
        lines.append("")
    return _page(lines)


def page(entry: Entry) -> str:
    """The page of a tool."""
    spec = entry.spec
    lines = [
        f"# {_line(entry.title or entry.shown_name)}",
        "",
        f"`{entry.shown_name}`, version {_line(entry.version)}",
        "",
    ]
    if entry.refusal is not None:
        lines += [f"**It cannot be called now: {_line(entry.refusal.reason)}.** {_line(entry.refusal.next_step)}", ""]
    lines += [entry.description, ""]
    lines += ["## Parameters", "", *_parameters(entry.input_schema), ""]
    if spec.examples:
        lines += ["## Examples", ""]
        for example in spec.examples:
            lines += [f"{_line(example.description)}:", "", *_code_block(_pretty(dict(example.parameters))), ""]
            if example.expected_result is not None:
                lines += ["Result:", "", *_code_block(_pretty(example.expected_result)), ""]
    lines += ["## Effects", "", *_effects(entry), ""]
    if spec.output_schema is not None:
        lines += ["## Result", "", *_code_block(_pretty(spec.output_schema)), ""]
    lines += ["## Limits", "", *_limits(entry), ""]
    facts = {"Category": entry.category, "Tags": ", ".join(entry.tags), "Pack": entry.pack, "Author": spec.author}
    lines += [f"- {name}: {_line(fact)}" for name, fact in facts.items() if fact]
    return _page(lines)


def calls(entry: Entry, latest: Iterable[Call]) -> str:
    """The latest calls of a tool by a caller, and how they ended."""
    lines = [f"# Your latest calls of `{entry.shown_name}`", ""]
    rows = [
        f"| {_moment(one.started_at)} | {one.status} | {one.code} | {_cell(one.error)} | `toolhub://calls/{one.id}` |"
        for one in latest
    ]
    if rows:
        lines += ["| started | status | code | message | details |", "|---|---|---|---|---|", *rows]
    else:
        lines.append("No calls yet.")
    return _page(lines)


def call(one: Call) -> str:
    """The page of a call, for its caller."""
    facts = {
        "Status": one.status,
        "Code": one.code,
        "Message": one.error,
        "errorId": f"{one.error_id} (operators find the cause by this id)" if one.error_id else "",
        "Started": _moment(one.started_at),
        "Duration": f"{one.duration_ms:,} ms" if one.duration_ms is not None else "",
        "Called via": one.via,
        "Attempts": str(one.attempts),
        "Answered by": one.get_answered_by_display() if one.answered_by else "",
        "Refused": f"{one.count} times within a minute" if one.count > 1 else "",
        "Arguments": f"{one.argument_bytes:,} bytes" if one.argument_bytes else "",
        "Result": f"{one.result_bytes:,} bytes" if one.result_bytes else "",
        "Version": one.tool_version,
    }
    lines = [f"# Call of `{_line(one.tool_name)}`", ""]
    lines += [f"- {name}: {_line(fact)}" for name, fact in facts.items() if fact]
    for name, payload in (("Arguments", one.arguments), ("Result", one.result)):
        if payload:
            lines += ["", f"## {name} (as stored)", "", *_code_block(payload)]
    return _page(lines)


def budgets(limits: Mapping[str, Iterable[Limit]]) -> str:
    """The budgets that the calls of a caller count for."""
    lines = ["# Your budgets", ""]
    rows = [
        f"| {_cell(whose)} | {limit.unit} a {limit.period} | {limit.most:,} | {limit.used:,} | {limit.percent} % "
        f"| {_moment(limit.resets_at.astimezone(UTC))} |"
        for whose, each in limits.items()
        for limit in each
    ]
    if not rows:
        return _page([*lines, "Your calls have no budget."])
    table = ["| budget of | limit | of | used | share | resets |", "|---|---|---|---|---|---|", *rows]
    words = "When a limit is reached, calls are refused with BUDGET_SPENT until it resets. Tokens are estimates."
    return _page([*lines, *table, "", words])


def _parameters(schema: Schema) -> list[str]:
    required_names = schema.get("required", ())
    rows = [
        f"| `{name}` | {_cell(_kind(part))} | {'yes' if name in required_names else _cell(_default(part))} "
        f"| {_cell(_description(part))} |"
        for name, part in schema.get("properties", {}).items()
    ]
    return ["| name | type | required | description |", "|---|---|---|---|", *rows] if rows else ["None."]


def _kind(part: Any) -> str:
    if not isinstance(part, dict):
        return "anything"
    kind = part.get("type")
    if kind == "array" and isinstance(items := part.get("items"), dict):
        return f"array of {_kind(items)}"
    if isinstance(kind, str):
        return kind
    branches = kind if isinstance(kind, list) else [_kind(one) for one in part.get("anyOf") or part.get("oneOf") or ()]
    return " or ".join(dict.fromkeys(map(str, branches))) or "anything"


def _default(part: Any) -> str:
    return f"no, default {json.dumps(part['default'])}" if isinstance(part, dict) and "default" in part else "no"


# Schema keyword → text in the table of parameters.
_BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches `{}`",
    "format": "a {}",
}


def _description(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    texts = [part.get("description", "")]
    if choices := part.get("enum"):
        texts.append("one of " + ", ".join(f"`{json.dumps(choice)}`" for choice in choices))
    texts += [text.format(part[key]) for key, text in _BOUNDS.items() if key in part]
    return "; ".join(filter(None, texts))


def _effects(entry: Entry) -> Iterator[str]:
    hints = entry.hints
    if hints.read_only:
        yield "- Read-only: it changes nothing."
    elif hints.destroys:
        yield "- Destructive: it may overwrite or delete data."
    else:
        yield "- Write: it adds data and deletes nothing."
    if not hints.read_only:
        yield (
            "- Idempotent: repeating a call has no further effect."
            if hints.repeatable
            else "- Not idempotent: repeating a call repeats its effect."
        )
    yield "- It accesses other systems." if hints.open_world else "- It accesses nothing outside this hub."
    if entry.spec.passes_on:
        yield "- Its results may contain external content and are then marked as untrusted."


def _limits(entry: Entry) -> Iterator[str]:
    policy = entry.policy
    yield f"- Timeout: {policy.timeout_ms / 1000:g} seconds."
    if policy.rate is not None:
        yield f"- Rate limit: {policy.rate.most:,} calls per {policy.rate.seconds:g} seconds."
    if policy.retries and entry.hints.repeatable:
        yield f"- Transient errors are retried up to {policy.retries} times."
    if policy.cache_seconds:
        yield f"- Results may come from a cache and be up to {policy.cache_seconds} seconds old."


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _line(text: str, most: int = 1_000) -> str:
    """A text of a tool or upstream as a single line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _code_block(text: str) -> list[str]:
    """A code block whose fence is longer than any in the text."""
    ticks = "`" * (max(map(len, re.findall(r"`{3,}", text)), default=2) + 1)
    return [f"{ticks}json", text, ticks]


def _page(lines: Iterable[str]) -> str:
    text: str = hygiene.cleaned("\n".join(lines).strip() + "\n")
    return text
