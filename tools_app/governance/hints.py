"""Hints of tools outside: what their source claims, and what operators decide. Until then, the worst is assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import EllipsisType
from typing import Any, Final

from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, Change, changing
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.models import Definition, ToolRecord
from tools_app.sdk.errors import ConflictError, ToolNotFoundError
from tools_app.sdk.names import folded

# Parts of `set_hints`, with the names that MCP has for them and the value that permits most.
HINTS: Final = {
    "read_only": ("readOnlyHint", True),
    "destructive": ("destructiveHint", False),
    "idempotent": ("idempotentHint", True),
    "open_world": ("openWorldHint", False),
}
Hint = bool | None | EllipsisType


def set_hints(
    tool: str,
    *,
    read_only: Hint = ...,
    destructive: Hint = ...,
    idempotent: Hint = ...,
    open_world: Hint = ...,
    actor: Actor,
    reason: str = "",
) -> list[str]:
    """Decide what a call of a tool outside does. None: not known, the worst is assumed. Returns the parts that changed.

    Raises:
        ToolNotFoundError
        ConflictError: the tool is Python code, whose author declares it.
        AuthorizationError: a program would declare it less dangerous.
    """
    parts = {"read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": open_world}
    with changing(actions.TOOL_HINTS, actor, reason) as change:
        rows = ToolRecord.objects.select_for_update(of=("self",)).select_related("source")
        record = rows.filter(folded_name=folded(tool)).first()
        if record is None:
            raise ToolNotFoundError.named(tool)
        if record.source is None or not record.source.is_outside:
            raise ConflictError(f"The hints of {record.name} are declared by its author, in its code")
        decided_parts = {part: value for part, value in parts.items() if not isinstance(value, EllipsisType)}
        return decide(record, decided_parts, change, actor)


def decide(record: ToolRecord, hints: Mapping[str, bool | None], change: Change, actor: Actor) -> list[str]:
    """Set hints in the transaction of a change. Returns the parts that changed.

    Raises:
        AuthorizationError: a program would declare the tool less dangerous.
    """
    changes = {
        part: [was, value] for part, value in hints.items() if (was := getattr(record, f"hint_{part}")) is not value
    }
    if not changes:
        return []
    if any(value is not None for _, value in changes.values()):
        # That hints of another version do not hold any more is no decision.
        refuse_managed(Kind.TOOL, [record.name])
    if any(value is HINTS[part][1] for part, (_, value) in changes.items()):
        actor.require(actions.TOOL_HINTS_BETTER, record.name)
    for part, (_, value) in changes.items():
        setattr(record, f"hint_{part}", value)
    record.updated_at = timezone.now()
    record.save(update_fields=[*(f"hint_{part}" for part in changes), "updated_at"])
    change.note(record.name, {f"hint_{part}": values for part, values in changes.items()}, actions.TOOL_HINTS)
    return sorted(changes)


def claimed(definition: Definition | None) -> dict[str, bool | None]:
    """What a version of a tool outside says about itself; None where it says nothing."""
    raw: Any = json.loads(definition.raw) if definition is not None and definition.raw else {}
    annotations = raw.get("annotations") if isinstance(raw, dict) else None
    claims = annotations if isinstance(annotations, dict) else {}
    return {part: value if isinstance(value := claims.get(name), bool) else None for part, (name, _) in HINTS.items()}


def accepted(definition: Definition) -> dict[str, bool]:
    """The claims of a version, as decisions. Where it says nothing, what an operator has decided holds."""
    return {part: value for part, value in claimed(definition).items() if value is not None}


def outdated(record: ToolRecord, before: Definition | None, after: Definition) -> dict[str, None]:
    """The hints that were decided about a version which claimed something else."""
    if before is None or before.approved_at is None or before.epoch != after.epoch:
        return {}
    old, new = claimed(before), claimed(after)
    return {
        part: None
        for part, (_, better) in HINTS.items()
        if old[part] is not new[part] and getattr(record, f"hint_{part}") is better
    }
