"""What waits for an operator: calls, and versions of tools whose sources do not approve themselves."""

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

# People may say yes to what they themselves asked for; what programs ask for, somebody else decides.
_PEOPLE: Final = "user:"


def approve_call(approval_id: str, *, actor: str, caller_id: str = "", reason: str = "") -> Approval:
    """Let a call that waits be made: once, by its caller, within TOOLHUB_APPROVAL_SECONDS from now.

    Whoever approves a call of their own, or of a key that they own, is named in the audit trail as having done so.
    `caller_id` is who decides, where that is a caller: other than a name, it is the same in all tokens of one subject.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, has expired, or cannot be shown to anybody.
        AuthorizationError: a program would approve its own call.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, Approval.State.APPROVED, actor=actor, caller_id=caller_id, reason=reason)


def refuse_call(approval_id: str, *, actor: str, caller_id: str = "", reason: str = "") -> Approval:
    """Say no to a call that waits. Its caller is told the reason, and not asked again while this holds.

    Raises:
        NotFoundError
        ConflictError: it has been decided already, or has expired.
        ValidationError: the reason is too long.
    """
    return _decide(approval_id, Approval.State.REFUSED, actor=actor, caller_id=caller_id, reason=reason)


def _decide(approval_id: str, state: Approval.State, *, actor: str, caller_id: str, reason: str) -> Approval:
    reason = _checked(reason)
    with transaction.atomic():
        approval = Approval.objects.select_for_update().filter(pk=approval_id).first()
        if approval is None:
            raise NotFoundError(f"There is no approval {shortened(approval_id)!r}")
        now = timezone.now()
        if (was := approval.state_at(now)) != Approval.State.PENDING:
            raise ConflictError(f"This call does not wait for a decision: it is {was}")
        own = approval.caller_id == caller_id or _is_own(approval, actor)
        if own and state == Approval.State.APPROVED and not actor.startswith(_PEOPLE):
            raise AuthorizationError(
                "Permission denied: a key cannot approve its own calls", next_step="Ask an operator of this hub."
            )
        if state == Approval.State.APPROVED and approval.call_arguments() is None:
            raise ConflictError(
                "This call cannot be approved: what it would be given cannot be read",
                next_step="Refuse it: it was stored under an encryption key that is gone. Its caller can ask again.",
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
        if own:
            changes["own"] = [None, True]
        action = "call.approve" if state == Approval.State.APPROVED else "call.refuse"
        note(action, f"approval:{approval.pk}", actor=actor, reason=reason, changes=changes)
    return approval


def _is_own(approval: Approval, actor: str) -> bool:
    """Whether the call is the actor's, or that of a key that the actor owns."""
    if str(Caller(approval.caller_kind, approval.caller_id, approval.caller_name)) == actor:
        return True
    if approval.caller_kind != "key":
        return False
    key = ApiKey.objects.filter(pk=int(approval.caller_id.partition(":")[2])).select_related("owner").first()
    return key is not None and key.owner is not None and actor == f"{_PEOPLE}{key.owner.get_username()}"


def approve_definitions(keys: Iterable[int], *, actor: str, reason: str = "") -> list[str]:
    """Let versions of tools be called. Returns the tools of those that were not approved before.

    Raises:
        NotFoundError: one of them is not there; nothing is changed then.
        ValidationError: the reason is too long.
    """
    reason, wanted = _checked(reason), set(keys)
    with transaction.atomic():
        found = _locked(wanted)
        now = timezone.now()
        changed = [definition for definition in found if definition.approved_at is None]
        Definition.objects.filter(pk__in=[definition.pk for definition in changed]).update(
            approved_at=now, approved_by=actor[:150], refused_at=None, refused_by="", reason=reason
        )
        _note("definition.approve", changed, "approved", actor=actor, reason=reason)
    return sorted(definition.tool.name for definition in changed)


def refuse_definitions(keys: Iterable[int], *, actor: str, reason: str = "") -> list[str]:
    """Keep versions of tools from being called. Returns the tools of those that waited.

    Raises:
        NotFoundError: one of them is not there; nothing is changed then.
        ConflictError: one is approved: a tool that is approved can be switched off.
        ValidationError: the reason is too long.
    """
    reason, wanted = _checked(reason), set(keys)
    with transaction.atomic():
        found = _locked(wanted)
        if approved := next((definition for definition in found if definition.approved_at is not None), None):
            raise ConflictError(
                f"This version of {approved.tool.name} is approved already", next_step="Switch the tool off instead."
            )
        now = timezone.now()
        changed = [definition for definition in found if definition.refused_at is None]
        Definition.objects.filter(pk__in=[definition.pk for definition in changed]).update(
            refused_at=now, refused_by=actor[:150], reason=reason
        )
        _note("definition.refuse", changed, "refused", actor=actor, reason=reason)
    return sorted(definition.tool.name for definition in changed)


def _locked(keys: set[int]) -> list[Definition]:
    rows = Definition.objects.select_related("tool").select_for_update(of=("self",))
    found = list(rows.filter(pk__in=keys).order_by("pk"))
    if len(found) < len(keys):
        raise NotFoundError("There is no such definition", next_step="Those that wait are among the approvals.")
    return found


def _note(action: str, changed: Iterable[Definition], now: str, *, actor: str, reason: str) -> None:
    """With what each of them was, as it was read before the change."""
    entries: list[tuple[str, str, dict[str, Any]]] = [
        (
            action,
            one.tool.name,
            {"definition": [None, one.hash], "version": [None, one.version], "state": [one.state, now]},
        )
        for one in changed
    ]
    note_all(entries, actor=actor, reason=reason)


def _checked(reason: str) -> str:
    """Raises: ValidationError."""
    reason = reason.strip()
    if len(reason) > MOST_REASON:
        message = f"A reason has at most {MOST_REASON} characters"
        raise ValidationError(problems=[Problem("/reason", message)])
    return reason
