"""Every change that somebody decides: switch a tool, set its policy, make or revoke a key, call a failure resolved.

Each is one transaction with its audit entry. Doors and commands change state here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from tools_app import secrets
from tools_app.errors import ToolNotFoundError, ValidationError
from tools_app.models import ApiKey, ErrorGroup, ToolRecord
from tools_app.models.audit import note, note_all
from tools_app.models.keys import default_scopes
from tools_app.models.tools import POLICY
from tools_app.tool import folded

SCOPES = ("tools:list", "tools:read", "tools:execute", "tools:manage", "admin:*")


def set_enabled(names: Iterable[str], enabled: bool, *, actor: str, reason: str = "") -> list[str]:
    """Switch tools on or off. Returns the names that changed; those that were so already are left alone.

    Raises:
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
    """
    wanted = {folded(name): name for name in names}
    with transaction.atomic():
        records = {
            record.folded_name: record
            for record in ToolRecord.objects.select_for_update().filter(folded_name__in=wanted).order_by("pk")
        }
        for key, name in wanted.items():
            if key not in records:
                raise ToolNotFoundError.named(name)
        changed = [record for record in records.values() if record.enabled != enabled]
        now = timezone.now()
        for record in changed:
            ToolRecord.objects.filter(pk=record.pk).update(enabled=enabled, updated_at=now)
            note(
                "tool.enable" if enabled else "tool.disable",
                record.name,
                actor=actor,
                reason=reason,
                changes={"enabled": [not enabled, enabled]},
            )
    return sorted(record.name for record in changed)


def set_policy(name: str, policy: Mapping[str, int | None], *, actor: str, reason: str = "") -> list[str]:
    """Decide how a tool is called; None lets the tool, its pack and the settings decide again.

    Returns what really changed. `policy` holds any of the names in `models.tools.POLICY`.

    Raises:
        ToolNotFoundError, ValidationError
    """
    for part, value in policy.items():
        if part not in POLICY:
            raise ValidationError(f"{part!r} is no policy; known are {', '.join(POLICY)}")
        low, high = POLICY[part]
        if value is not None and not low <= value <= high:
            raise ValidationError(f"{part} must be between {low} and {high}")
    with transaction.atomic():
        record = ToolRecord.objects.select_for_update().filter(folded_name=folded(name)).first()
        if record is None:
            raise ToolNotFoundError.named(name)
        changes = {
            part: [getattr(record, part), value] for part, value in policy.items() if getattr(record, part) != value
        }
        if not changes:
            return []
        decided = {part: after for part, (_, after) in changes.items()}
        if (decided.get("rate_calls", record.rate_calls) is None) != (
            decided.get("rate_seconds", record.rate_seconds) is None
        ):
            raise ValidationError("A rate limit needs both rate_calls and rate_seconds")
        if decided.get("cache_seconds") and not record.read_only:
            raise ValidationError(f"{record.name} says that it writes: its answers cannot be cached")
        note("tool.policy", record.name, actor=actor, reason=reason, changes=changes)
        ToolRecord.objects.filter(pk=record.pk).update(**decided, updated_at=timezone.now())
    return sorted(changes)


def create_key(
    name: str,
    *,
    actor: str,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    owner: Any = None,
) -> tuple[ApiKey, str]:
    """Make an API key. The second value is the key itself, which nobody can ever read again.

    Raises:
        ValidationError: the name is blank, too long or taken, or a scope is unknown.
    """
    name = name.strip()
    if not name or len(name) > 100:
        raise ValidationError("A key needs a name of 1 to 100 characters")
    granted = list(default_scopes() if scopes is None else scopes)
    if unknown := sorted(set(granted) - set(SCOPES)):
        raise ValidationError(f"Unknown scope {unknown[0]!r}; known are {', '.join(SCOPES)}")
    secret, prefix = secrets.new_key()
    with transaction.atomic():
        if ApiKey.objects.filter(name=name).exists():
            raise ValidationError(f"A key named {name!r} exists already; revoke it, or choose another name")
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            hash=secrets.key_hash(secret),
            scopes=sorted(set(granted)),
            expires_at=expires_at,
            owner=owner,
        )
        note("key.create", f"key:{name}", actor=actor, changes={"scopes": [None, key.scopes]})
    return key, secret


def revoke_key(key: ApiKey, *, actor: str, reason: str = "") -> bool:
    """End a key: refused from the next request on, in every process. False: it was revoked already."""
    with transaction.atomic():
        now = timezone.now()
        if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            return False
        changes = {"revoked_at": [None, now.isoformat()]}
        note("key.revoke", f"key:{key.name}", actor=actor, reason=reason, changes=changes)
    key.revoked_at = now
    return True


def resolve_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Call groups of errors resolved. Returns those that were open; what happens again opens its group by itself."""
    now = timezone.now()
    with transaction.atomic():
        groups = _locked(fingerprints).filter(resolved_at=None)
        changed = {group.pk: {"error": [None, str(group)], "resolved_at": [None, now.isoformat()]} for group in groups}
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=now, resolved_by=actor[:150])
        _note_errors("error.resolve", changed, actor=actor, reason=reason)
    return list(changed)


def reopen_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Take that back. Returns the groups that were resolved."""
    with transaction.atomic():
        groups = _locked(fingerprints).exclude(resolved_at=None)
        changed = {
            group.pk: {
                "error": [None, str(group)],
                "resolved_at": [group.resolved_at and group.resolved_at.isoformat(), None],
            }
            for group in groups
        }
        # `reopened_at` is for what came back by itself.
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=None, resolved_by="", reopened_at=None)
        _note_errors("error.reopen", changed, actor=actor, reason=reason)
    return list(changed)


def _locked(fingerprints: Iterable[str]) -> QuerySet[ErrorGroup]:
    """In the order in which the journal takes them, so that neither waits for the other."""
    return ErrorGroup.objects.select_for_update().filter(pk__in=list(fingerprints)).order_by("pk")


def _note_errors(action: str, changed: Mapping[str, dict[str, Any]], *, actor: str, reason: str) -> None:
    entries = [(action, f"error:{fingerprint}", changes) for fingerprint, changes in changed.items()]
    note_all(entries, actor=actor, reason=reason)


def create_admin(username: str, password: str, *, actor: str) -> None:
    """Make a user who may do everything in the admin.

    Raises:
        ValidationError: the password is too easy to guess.
    """
    users = get_user_model()._default_manager
    try:
        validate_password(password)
    except DjangoValidationError as error:
        raise ValidationError(f"The password for {username!r} is refused: {' '.join(error.messages)}") from error
    with transaction.atomic():
        users.create_superuser(username, password=password)
        note("user.create", f"user:{username}", actor=actor, changes={"is_superuser": [None, True]})
