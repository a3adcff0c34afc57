"""Decisions on pending calls, and on versions of tools whose sources need approval."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.base import conf
from tools_app.models import ApiKey, Approval, Definition
from tools_app.models.approvals import MOST_REASON
from tools_app.models.audit import note, note_all
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    ConflictError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)

# People may approve their own calls; programs may not.
_PEOPLE: Final = "user:"


def approve_call(approval_id: str, *, actor: str, caller_id: str = "", reason: str = "") -> Approval:
    """Approve a pending call: its caller may make it once, within TOOLHUB_APPROVAL_SECONDS from now.

    The audit trail notes if the actor approves their own call, or one of a key that they own. `caller_id` is the
    deciding caller, if it is one: unlike a name, it is the same for all tokens of a subject.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, has expired, or its arguments cannot be read.
        AuthorizationError: a program tried to approve its own call.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, Approval.State.APPROVED, actor=actor, caller_id=caller_id, reason=reason)


def refuse_call(approval_id: str, *, actor: str, caller_id: str = "", reason: str = "") -> Approval:
    """Refuse a pending call. The caller gets the reason, and the refusal applies until it expires.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, or has expired.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, Approval.State.REFUSED, actor=actor, caller_id=caller_id, reason=reason)


def _decide(approval_id: str, state: Approval.State, *, actor: str, caller_id: str, reason: str) -> Approval:
    reason = _validated(reason)
    with transaction.atomic():
        approval = Approval.objects.select_for_update().filter(pk=approval_id).first()
        if approval is None:
            raise NotFoundError(f"There is no approval {shortened(approval_id)!r}")
        now = timezone.now()
        if (was := approval.state_at(now)) != Approval.State.PENDING:
            raise ConflictError(f"This call is not pending: it is {was}")
        is_own = approval.caller_id == caller_id or _is_own(approval, actor)
        if is_own and state == Approval.State.APPROVED and not actor.startswith(_PEOPLE):
            raise AuthorizationError(
                "Permission denied: a key cannot approve its own calls", next_step="Ask an operator of this hub."
            )
        if state == Approval.State.APPROVED and approval.call_arguments() is None:
            raise ConflictError(
                "This call cannot be approved: its arguments cannot be read",
                next_step="Refuse it: its encryption key is no longer configured. Its caller can request it again.",
            )
        approval.state, approval.reason = state, reason
        approval.decided_at, approval.decided_by = now, actor[:150]
        approval.expires_at = now + timedelta(seconds=conf.value("TOOLHUB_APPROVAL_SECONDS"))
        approval.save(update_fields=["state", "reason", "decided_at", "decided_by", "expires_at"])
        changes: dict[str, Any] = {
            "tool": [None, approval.tool_name],
            "caller": [None, f"{approval.caller_kind}:{approval.caller_name}"],
            "state": [was, state],
        }
        if is_own:
            changes["own"] = [None, True]
        action = "call.approve" if state == Approval.State.APPROVED else "call.refuse"
        note(action, f"approval:{approval.pk}", actor=actor, reason=reason, changes=changes)
    return approval


def _is_own(approval: Approval, actor: str) -> bool:
    """True if the call is the actor's, or that of a key that the actor owns."""
    if str(Caller(approval.caller_kind, approval.caller_id, approval.caller_name)) == actor:
        return True
    if approval.caller_kind != "key":
        return False
    key = ApiKey.objects.filter(pk=int(approval.caller_id.partition(":")[2])).select_related("owner").first()
    return key is not None and key.owner is not None and actor == f"{_PEOPLE}{key.owner.get_username()}"


def approve_definitions(keys: Iterable[int], *, actor: str, reason: str = "") -> list[str]:
    """Approve versions of tools. Returns the tools of those that were not approved before.

    Raises:
        NotFoundError: one of them does not exist; nothing is changed then.
        ValidationError: the reason is too long.
    """
    reason, definition_ids = _validated(reason), set(keys)
    with transaction.atomic():
        definitions = _lock(definition_ids)
        now = timezone.now()
        changed = [definition for definition in definitions if definition.approved_at is None]
        Definition.objects.filter(pk__in=[definition.pk for definition in changed]).update(
            approved_at=now, approved_by=actor[:150], refused_at=None, refused_by="", reason=reason
        )
        _note("definition.approve", changed, "approved", actor=actor, reason=reason)
    return sorted(definition.tool.name for definition in changed)


def refuse_definitions(keys: Iterable[int], *, actor: str, reason: str = "") -> list[str]:
    """Refuse versions of tools. Returns the tools of those that were pending.

    Raises:
        NotFoundError: one of them does not exist; nothing is changed then.
        ConflictError: one is approved already; its tool can be switched off instead.
        ValidationError: the reason is too long.
    """
    reason, definition_ids = _validated(reason), set(keys)
    with transaction.atomic():
        definitions = _lock(definition_ids)
        if approved := next((definition for definition in definitions if definition.approved_at is not None), None):
            raise ConflictError(
                f"This version of {approved.tool.name} is approved already", next_step="Switch the tool off instead."
            )
        now = timezone.now()
        changed = [definition for definition in definitions if definition.refused_at is None]
        Definition.objects.filter(pk__in=[definition.pk for definition in changed]).update(
            refused_at=now, refused_by=actor[:150], reason=reason
        )
        _note("definition.refuse", changed, "refused", actor=actor, reason=reason)
    return sorted(definition.tool.name for definition in changed)


def _lock(keys: set[int]) -> list[Definition]:
    rows = Definition.objects.select_related("tool").select_for_update(of=("self",))
    definitions = list(rows.filter(pk__in=keys).order_by("pk"))
    if len(definitions) < len(keys):
        raise NotFoundError("There is no such definition", next_step="See the approvals for pending ones.")
    return definitions


def _note(action: str, changed: Iterable[Definition], now: str, *, actor: str, reason: str) -> None:
    """Audit entries with the state that each definition had before the change."""
    entries: list[tuple[str, str, dict[str, Any]]] = [
        (
            action,
            version.tool.name,
            {"definition": [None, version.hash], "version": [None, version.version], "state": [version.state, now]},
        )
        for version in changed
    ]
    note_all(entries, actor=actor, reason=reason)


def _validated(reason: str) -> str:
    """Raises: ValidationError."""
    reason = reason.strip()
    if len(reason) > MOST_REASON:
        message = f"A reason has at most {MOST_REASON} characters"
        raise ValidationError(problems=[Problem("/reason", message)])
    return reason
