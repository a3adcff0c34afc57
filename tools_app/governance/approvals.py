"""Decisions on pending calls, and on versions of tools whose sources need approval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import F, Q
from django.utils import timezone

from tools_app.access import actions
from tools_app.access.actions import Action
from tools_app.base import conf
from tools_app.governance import hints
from tools_app.governance.actors import Actor, Change, changing, clean_reason, is_same_person
from tools_app.governance.managed import managed_tools
from tools_app.governance.outside import outside_source, require_not_own
from tools_app.models import ApiKey, Approval, Definition, Source, ToolRecord
from tools_app.models.alerts import close_alerts
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    ConflictError,
    NotFoundError,
    shortened,
)
from tools_app.sdk.names import folded
from tools_app.sources import sync

# People may approve their own calls, unless there is the two-person rule; programs may not.
_PEOPLE: Final = "user:"


def approve_call(approval_id: str, *, actor: Actor, reason: str = "") -> Approval:
    """Approve a pending call: its caller may make it once, within TOOLHUB_APPROVAL_SECONDS from now.

    The audit trail notes if the actor approves their own call, or one of a key that they own.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, has expired, or its arguments cannot be read.
        AuthorizationError: a program tried to approve its own call.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, actions.CALL_APPROVE, Approval.State.APPROVED, actor=actor, reason=reason)


def refuse_call(approval_id: str, *, actor: Actor, reason: str = "") -> Approval:
    """Refuse a pending call. The caller gets the reason, and the refusal applies until it expires.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, or has expired.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, actions.CALL_REFUSE, Approval.State.REFUSED, actor=actor, reason=reason)


def _decide(approval_id: str, action: Action, state: Approval.State, *, actor: Actor, reason: str) -> Approval:
    reason = clean_reason(reason)
    with changing(action, actor, reason) as change:
        approval = Approval.objects.select_for_update().filter(pk=approval_id).first()
        if approval is None:
            raise NotFoundError(f"There is no approval {shortened(approval_id)!r}")
        now = timezone.now()
        if (was := approval.state_at(now)) != Approval.State.PENDING:
            raise ConflictError(f"This call is not pending: it is {was}")
        is_own = is_own_call(approval, actor)
        if state == Approval.State.APPROVED:
            require_may_approve(approval, actor)
        if state == Approval.State.APPROVED and approval.call_arguments() is None:
            raise ConflictError(
                "This call cannot be approved: its arguments cannot be read",
                next_step="Refuse it: its encryption key is no longer configured. Its caller can request it again.",
            )
        approval.state, approval.reason = state, reason
        approval.decided_at, approval.decided_by = now, actor.name[:150]
        approval.expires_at = now + timedelta(seconds=conf.value("TOOLHUB_APPROVAL_SECONDS"))
        approval.save(update_fields=["state", "reason", "decided_at", "decided_by", "expires_at"])
        changes: dict[str, Any] = {
            "tool": [None, approval.tool_name],
            "caller": [None, f"{approval.caller_kind}:{approval.caller_name}"],
            "state": [was, state],
        }
        if is_own:
            changes["own"] = [None, True]
        change.note(f"approval:{approval.pk}", changes)
        close_alerts(f"approval:{approval.pk}", actor.name, now)
    return approval


def require_may_approve(approval: Approval, actor: Actor) -> None:
    """Raises: AuthorizationError."""
    is_own = is_own_call(approval, actor)
    if is_own and not actor.name.startswith(_PEOPLE):
        raise AuthorizationError(
            "Permission denied: a key cannot approve its own calls", next_step="Ask an operator of this hub."
        )
    is_own = is_own or is_same_person(actor, f"{approval.caller_kind}:{approval.caller_name}")
    if is_own and conf.value("TOOLHUB_TWO_PERSON_RULE"):
        raise AuthorizationError(
            "Permission denied: this hub has the two-person rule, and this call is your own",
            next_step="Ask another operator to decide.",
        )


def own_keys(actor: Actor) -> Set[str]:
    """The caller ids of the keys that the actor owns."""
    owner = actor.name.removeprefix(_PEOPLE)
    keys = ApiKey.objects.filter(owner__username=owner) if owner != actor.name else ApiKey.objects.none()
    return {f"key:{pk}" for pk in keys.values_list("pk", flat=True)}


def is_own_call(approval: Approval, actor: Actor, keys: Set[str] | None = None) -> bool:
    """True if the call is the actor's, or that of a key that the actor owns: one of `keys`, if these are known."""
    # Unlike a name, the id is the same for all tokens of a subject.
    if actor.caller is not None and actor.caller.id == approval.caller_id:
        return True
    if str(Caller(approval.caller_kind, approval.caller_id, approval.caller_name)) == actor.name:
        return True
    return approval.caller_kind == "key" and approval.caller_id in (own_keys(actor) if keys is None else keys)


def approve_definitions(keys: Iterable[int], *, actor: Actor, reason: str = "") -> list[str]:
    """Approve versions of tools. Returns the tools of those that were not approved before.

    A version that waited behind an approved one is listed from now on.

    Raises:
        NotFoundError: one of them does not exist; nothing is changed then.
        ValidationError: the reason is too long.
        ConflictError: one is of another origin than its source has now.
        AuthorizationError: a program has set the address of the source itself.
    """
    reason, definition_ids = clean_reason(reason), set(keys)
    with changing(actions.DEFINITION_APPROVE, actor, reason) as change:
        sync.lock()
        approved_definitions = _approve(_lock(definition_ids), change, actor, reason)
    return sorted(definition.tool.label for definition in approved_definitions)


def approve_tools(
    source: str,
    tools: Sequence[str] | None = None,
    *,
    definitions: Collection[int] | None = None,
    enable: bool = False,
    accept_hints: bool = False,
    actor: Actor,
    reason: str = "",
) -> list[str]:
    """Approve the versions of a source outside that wait: all, or those of some tools. Returns what was approved.

    `tools` are names or labels. `definitions` are the versions that the operator has seen: one that came later is not
    approved, so the result may be shorter. Without either, versions that were rejected, or whose wording could mislead
    an agent, are left alone.
    `enable` also switches on what is approved, `accept_hints` takes over what the versions say about themselves; both
    leave alone what a configuration file manages (`managed_tools`).

    Raises:
        NotFoundError: there is no such source, or no such tool in it; nothing is changed then.
        ConflictError: the source is Python code.
        ValidationError: the reason is too long.
        AuthorizationError: a program has set the address of the source itself.
    """
    reason = clean_reason(reason)
    with changing(actions.DEFINITION_APPROVE, actor, reason) as change:
        sync.lock()
        row = outside_source(source)
        records = {record.label: record for record in ToolRecord.everything.present().filter(source=row)}
        if tools is not None:
            records = _named(source, records, tools)
        is_chosen = tools is not None or definitions is not None
        latest = {key for record in records.values() if (key := record.offered_id or record.definition_id) is not None}
        latest &= latest if definitions is None else set(definitions)
        waiting = [
            definition
            for definition in _lock(latest)
            if definition.approved_at is None
            and definition.epoch == row.epoch
            and (is_chosen or (definition.refused_at is None and not definition.findings))
        ]
        approved_definitions = _approve(waiting, change, actor, reason)
        managed = set(managed_tools(definition.tool.name for definition in approved_definitions))
        for definition in approved_definitions:
            if accept_hints and definition.tool.name not in managed:
                hints.decide(definition.tool, hints.accepted(definition), change, actor)
        if enable:
            _enable([one for one in approved_definitions if one.tool.name not in managed], change, actor)
    return sorted(definition.tool.label for definition in approved_definitions)


@dataclass(frozen=True, slots=True)
class WaitingVersion:
    """A version of a tool that no operator has decided about."""

    definition: Definition
    # Whether agents see an approved version meanwhile.
    is_change: bool
    # What it says about its calls.
    claims: Mapping[str, bool | None]


def waiting_versions(source: Source) -> list[WaitingVersion]:
    """What `approve_tools` would approve, by name."""
    rows = Definition.objects.open().filter(tool__source=source, refused_at=None)
    if source.is_outside:
        rows = rows.filter(epoch=source.epoch)
    # A version that an offered one replaces does not wait any more.
    latest = Q(tool__offered=F("pk")) | Q(tool__offered=None)
    return [
        WaitingVersion(definition, definition.tool.offered_id == definition.pk, hints.claimed(definition))
        for definition in rows.filter(latest).select_related("tool").defer("body", "body_text").order_by("tool__name")
    ]


def _named(source: str, records: dict[str, ToolRecord], names: Sequence[str]) -> dict[str, ToolRecord]:
    """Raises: NotFoundError."""
    by_name = {folded(label): label for label in records}
    labels = [by_name.get(folded(name), "") for name in names]
    if unknown := [name for name, label in zip(names, labels, strict=True) if not label]:
        raise NotFoundError(
            f"Source {source} has no tool {shortened(unknown[0])!r}", next_step="List the tools of the source."
        )
    return {label: records[label] for label in labels}


def _enable(definitions: Iterable[Definition], change: Change, actor: Actor) -> None:
    """Raises: AuthorizationError."""
    actor.require(actions.TOOL_ENABLE)
    records = [definition.tool for definition in definitions if not definition.tool.enabled]
    keys = [record.pk for record in records]
    ToolRecord.everything.filter(pk__in=keys).update(enabled=True, updated_at=timezone.now())
    for record in records:
        change.note(record.label, {"enabled": [False, True]}, actions.TOOL_ENABLE)


def _approve(definitions: list[Definition], change: Change, actor: Actor, reason: str) -> list[Definition]:
    """Approve versions. Returns those that were not approved before.

    Raises:
        ConflictError, AuthorizationError
    """
    for definition in definitions:
        source = definition.tool.source
        require_not_own(source, actor)
        if source is not None and source.is_outside and definition.epoch != source.epoch:
            raise ConflictError(
                f"This version of {definition.tool.label} is of an earlier origin of source {source.name}",
                next_step="Approve the version that the source lists now.",
            )
    definitions_to_change = [definition for definition in definitions if definition.approved_at is None]
    Definition.objects.filter(pk__in=[definition.pk for definition in definitions_to_change]).update(
        approved_at=timezone.now(), approved_by=actor.name[:150], refused_at=None, refused_by="", reason=reason
    )
    _note(change, definitions_to_change, "approved")
    for definition in definitions_to_change:
        if definition.tool.source is not None and definition.tool.source.is_outside:
            # What was decided about a tool that said something else of itself is not decided about this one.
            stale_hints = hints.outdated(definition.tool, definition.approved_before(), definition)
            hints.decide(definition.tool, stale_hints, change, actor)
    for definition in definitions:
        sync.promote(definition)
    return definitions_to_change


def refuse_definitions(keys: Iterable[int], *, actor: Actor, reason: str = "") -> list[str]:
    """Refuse versions of tools. Returns the tools of those that were pending.

    Calls stay refused. Agents still see the version that they saw before.

    Raises:
        NotFoundError: one of them does not exist; nothing is changed then.
        ConflictError: one is approved already; its tool can be switched off instead.
        ValidationError: the reason is too long.
    """
    reason, definition_ids = clean_reason(reason), set(keys)
    with changing(actions.DEFINITION_REFUSE, actor, reason) as change:
        definitions = _lock(definition_ids)
        if conflict := next((definition for definition in definitions if definition.approved_at is not None), None):
            raise ConflictError(
                f"This version of {conflict.tool.label} is approved already", next_step="Switch the tool off instead."
            )
        now = timezone.now()
        definitions_to_change = [definition for definition in definitions if definition.refused_at is None]
        Definition.objects.filter(pk__in=[definition.pk for definition in definitions_to_change]).update(
            refused_at=now, refused_by=actor.name[:150], reason=reason
        )
        _note(change, definitions_to_change, "refused")
    return sorted(definition.tool.label for definition in definitions_to_change)


def _lock(keys: set[int]) -> list[Definition]:
    rows = Definition.objects.select_related("tool__source", "tool__definition").select_for_update(of=("self",))
    definitions = list(rows.filter(pk__in=keys).order_by("pk"))
    if len(definitions) < len(keys):
        raise NotFoundError("There is no such definition", next_step="See the approvals for pending ones.")
    return definitions


def _note(change: Change, definitions_to_change: Iterable[Definition], now: str) -> None:
    """Audit entries with the state that each definition had before the change."""
    for version in definitions_to_change:
        parts = {"definition": [None, version.hash], "version": [None, version.version], "state": [version.state, now]}
        change.note(version.tool.label, parts)
