"""Changes of tools: switch, policy, approval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.utils import timezone

from tools_app.access import actions
from tools_app.catalog.snapshot import Snapshot
from tools_app.governance.actors import Actor, Change, changing
from tools_app.governance.hints import set_hints
from tools_app.governance.managed import Kind, forget, refuse_managed
from tools_app.governance.policies import check_policy, policy_changes
from tools_app.governance.toolsets import SELECTORS
from tools_app.models import Approval, ToolRecord, Toolset
from tools_app.models.tools import POLICY
from tools_app.sdk.errors import ConflictError, ToolNotFoundError, ValidationError
from tools_app.sdk.names import folded
from tools_app.sources import sync


def set_enabled(names: Iterable[str], enabled: bool, *, actor: Actor, reason: str = "") -> list[str]:
    """Enable or disable tools. Returns the names that changed; the others are left alone.

    Raises:
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
    """
    names_by_folded = {folded(name): name for name in names}
    with changing(actions.TOOL_ENABLE if enabled else actions.TOOL_DISABLE, actor, reason) as change:
        records = {
            record.folded_name: record
            for record in ToolRecord.objects.select_for_update().filter(folded_name__in=names_by_folded).order_by("pk")
        }
        for key, name in names_by_folded.items():
            if key not in records:
                raise ToolNotFoundError.named(name)
        records_to_change = [record for record in records.values() if record.enabled != enabled]
        if enabled:
            refuse_managed(Kind.TOOL, [record.name for record in records_to_change])
        # A constant number of statements for any number of tools: the write lock must be short.
        keys = [record.pk for record in records_to_change]
        ToolRecord.objects.filter(pk__in=keys).update(enabled=enabled, updated_at=timezone.now())
        for record in records_to_change:
            change.note(record.name, {"enabled": [not enabled, enabled]})
    return sorted(record.name for record in records_to_change)


def consequences(names: Collection[str], view: Snapshot) -> list[str]:
    """The tools that can no longer be called when these are switched off, as sentences; limited to this view."""
    users_by_tool = view.needing(names)
    return [f"{', '.join(users)} cannot be called without {name}" for name, users in sorted(users_by_tool.items())]


def set_policy(name: str, policy: Mapping[str, int | None], *, actor: Actor, reason: str = "") -> list[str]:
    """Set the policy of a tool; None inherits from its source, its author, its pack and the settings.

    Returns the parts that changed. `policy` may have any of the names in `models.tools.POLICY`.

    Raises:
        ToolNotFoundError, ValidationError
    """
    check_policy(policy)
    with changing(actions.TOOL_POLICY, actor, reason) as change:
        record = _record(name)
        changes = policy_changes(record, policy)
        if not changes:
            return []
        refuse_managed(Kind.TOOL, [record.name])
        reads = record.read_only if record.hint_read_only is None else record.hint_read_only
        if changes.get("cache_seconds", [None, None])[1] and not reads:
            raise ValidationError(f"{record.name} says that it writes: its answers cannot be cached")
        change.note(record.name, dict(changes))
        values = {part: value for part, (_, value) in changes.items()}
        ToolRecord.objects.filter(pk=record.pk).update(**values, updated_at=timezone.now())
    return sorted(changes)


def set_ask(name: str, ask: bool, *, actor: Actor, reason: str = "") -> bool:
    """Set whether every call of a tool needs an operator's approval. False: nothing changed.

    Raises:
        ToolNotFoundError
        AuthorizationError: a program would turn it off.
    """
    with changing(actions.TOOL_ASK, actor, reason) as change:
        record = _record(name)
        if record.ask == ask:
            return False
        refuse_managed(Kind.TOOL, [record.name])
        if not ask:
            actor.require(actions.TOOL_ASK_NOT, record.name)
        ToolRecord.objects.filter(pk=record.pk).update(ask=ask, updated_at=timezone.now())
        change.note(record.name, {"ask": [record.ask, ask]})
    return True


def change_tool(
    name: str,
    *,
    enabled: bool | None,
    policy: Mapping[str, int | None],
    ask: bool | None = None,
    hints: Mapping[str, bool | None] | None = None,
    actor: Actor,
    reason: str = "",
) -> None:
    """Switch a tool, set its policy, its hints and whether its calls need approval, in one transaction.

    None leaves `enabled` and `ask` unchanged, as do hints that are not named.

    Raises:
        ToolNotFoundError, ValidationError
        ConflictError: the tool is Python code, whose author declares the hints.
    """
    with changing(actions.TOOL_CHANGE, actor):
        if enabled is not None:
            set_enabled([name], enabled, actor=actor, reason=reason)
        if ask is not None:
            set_ask(name, ask, actor=actor, reason=reason)
        if hints:
            set_hints(name, **hints, actor=actor, reason=reason)
        set_policy(name, policy, actor=actor, reason=reason)


def delete_tool(name: str, *, actor: Actor, reason: str = "") -> list[str]:
    """Delete the record of a retired tool, with its definitions and decisions. Returns the toolsets that named it.

    Its name can be used by another tool then, to which nothing applies that was decided about this one. The journal
    keeps the name.

    Raises:
        ToolNotFoundError
        ConflictError: a source provides the tool, an approval of a call is open, or a toolset names no other tool.
    """
    with changing(actions.TOOL_DELETE, actor, reason) as change:
        # A sync could be about to restore it.
        sync.lock()
        record = _record(name)
        _check_deletable(record)
        refuse_managed(Kind.TOOL, [record.name])
        changes = {part: [value, None] for part, value in _decisions(record).items() if value}
        toolsets = [toolset.name for toolset in Toolset.objects.select_for_update() if _leave(toolset, record, change)]
        if toolsets:
            changes["toolsets"] = [toolsets, []]
        record.delete()
        forget(Kind.TOOL, record.name)
        change.note(record.name, changes)
    return toolsets


def _record(name: str) -> ToolRecord:
    """Raises: ToolNotFoundError."""
    record = ToolRecord.objects.select_for_update().filter(folded_name=folded(name)).first()
    if record is None:
        raise ToolNotFoundError.named(name)
    return record


def _check_deletable(record: ToolRecord) -> None:
    """Raises: ConflictError."""
    if record.retired_at is None:
        raise ConflictError(
            f"{record.name} cannot be deleted: its source provides it", next_step="Switch the tool off instead."
        )
    open_states = (Approval.State.PENDING, Approval.State.APPROVED)
    if Approval.objects.filter(tool_name=record.name, state__in=open_states, expires_at__gt=timezone.now()).exists():
        # It would apply to a tool that takes over name and definition.
        raise ConflictError(
            f"{record.name} cannot be deleted: an approval of a call of it is open",
            next_step="Refuse the call, or wait until the approval expires.",
        )


def _decisions(record: ToolRecord) -> dict[str, Any]:
    """What goes with a tool."""
    return {
        "source": record.source.name if record.source is not None else record.source_kind,
        "definitions": list(record.definitions.values_list("hash", flat=True)),
        "tags": list(record.tags.order_by("name").values_list("name", flat=True)),
        "enabled": "on" if record.enabled else "off",
        "ask": record.ask,
        **{part: getattr(record, part) for part in POLICY},
    }


def _leave(toolset: Toolset, record: ToolRecord, change: Change) -> bool:
    """Remove a tool from a toolset that names it. False: it does not.

    Raises:
        ConflictError: the toolset names nothing else. Without a selector, it would include every tool.
    """
    before = {"names": toolset.names, "overrides": toolset.overrides}
    toolset.names = [name for name in toolset.names if folded(name) != record.folded_name]
    toolset.overrides = {
        name: override for name, override in toolset.overrides.items() if folded(name) != record.folded_name
    }
    changes: dict[str, Any] = {
        part: [value, getattr(toolset, part)] for part, value in before.items() if value != getattr(toolset, part)
    }
    if not changes:
        return False
    if "names" in changes and not any(getattr(toolset, selector) for selector in SELECTORS):
        raise ConflictError(
            f"{record.name} cannot be deleted: toolset {toolset.name} would be empty and include every tool",
            next_step=f"Change or delete toolset {toolset.name} first.",
        )
    refuse_managed(Kind.TOOLSET, [toolset.name])
    toolset.save()
    change.note(f"toolset:{toolset.name}", changes, actions.TOOLSET_CHANGE)
    return True
