"""Every change that somebody decides: switch a tool, set its policy, make a toolset, a connection or a key, and so on.

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
from tools_app.errors import ConflictError, NotFoundError, Problem, ToolNotFoundError, ValidationError, shortened
from tools_app.governance.connections import (
    change_connection,
    check_connection,
    create_connection,
    delete_connection,
    note_check,
    note_health,
    rotate_secrets,
)
from tools_app.models import ApiKey, Connection, ErrorGroup, KeyConnection, KeyToolset, ToolRecord, Toolset
from tools_app.models.audit import note, note_all
from tools_app.models.keys import default_scopes
from tools_app.models.tools import MAX_RATE_CALLS, MAX_RATE_SECONDS, POLICY
from tools_app.reach import ENVIRONMENT
from tools_app.tool import folded

__all__ = [
    "SCOPES",
    "SELECTORS",
    "TOOLSET",
    "change_connection",
    "change_tool",
    "change_toolset",
    "check_connection",
    "create_admin",
    "create_connection",
    "create_key",
    "create_toolset",
    "delete_connection",
    "delete_toolset",
    "note_check",
    "note_health",
    "reopen_errors",
    "resolve_errors",
    "revoke_key",
    "rotate_secrets",
    "set_enabled",
    "set_policy",
]

SCOPES = ("tools:list", "tools:read", "tools:execute", "tools:manage", "admin:*")
SELECTORS = ("packs", "categories", "tags", "names")
# What can be decided about a toolset, beside its name.
TOOLSET = ("description", *SELECTORS, "read_only")
MOST_CHARACTERS = 64
MOST_NAMED = 10


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


def change_tool(
    name: str, *, enabled: bool | None, policy: Mapping[str, int | None], actor: str, reason: str = ""
) -> None:
    """Switch a tool and set its policy: all of it, or nothing. `enabled=None` leaves the switch alone.

    Raises:
        ToolNotFoundError, ValidationError
    """
    with transaction.atomic():
        if enabled is not None:
            set_enabled([name], enabled, actor=actor, reason=reason)
        set_policy(name, policy, actor=actor, reason=reason)


def create_toolset(name: str, *, actor: str, reason: str = "", **given: Any) -> Toolset:
    """Make a named choice of tools. `given` holds any of the names in `TOOLSET`.

    Raises:
        ValidationError: the name is taken or none, or a selector is no list of names.
    """
    toolset = Toolset(name=name)
    with transaction.atomic():
        if Toolset.objects.filter(name=name).exists():
            raise ConflictError(f"A toolset named {shortened(name)!r} exists already")
        _set(toolset, given)
        toolset.save(force_insert=True)
        changes = {part: [None, getattr(toolset, part)] for part in TOOLSET if getattr(toolset, part)}
        note("toolset.create", f"toolset:{name}", actor=actor, reason=reason, changes=changes)
    return toolset


def change_toolset(name: str, *, actor: str, reason: str = "", **given: Any) -> list[str]:
    """Change what a toolset holds; true for every key that has it from its next request. Returns what changed.

    Its name stays: keys could be told of another, but not agents that are started with it.

    Raises:
        NotFoundError, ValidationError
    """
    with transaction.atomic():
        toolset = _toolset(name)
        before = {part: getattr(toolset, part) for part in TOOLSET}
        _set(toolset, given)
        changes = {part: [was, getattr(toolset, part)] for part, was in before.items() if getattr(toolset, part) != was}
        if changes:
            toolset.save()
            note("toolset.change", f"toolset:{name}", actor=actor, reason=reason, changes=changes)
    return sorted(changes)


def delete_toolset(name: str, *, actor: str, reason: str = "") -> None:
    """Delete a toolset that no key has, not even a revoked one: without it, the key would reach every tool.

    Raises:
        NotFoundError
        ValidationError: with the keys that have it.
    """
    with transaction.atomic():
        toolset = _toolset(name)
        if keys := list(toolset.keys.values_list("name", flat=True)[: MOST_NAMED + 1]):
            named = ", ".join(keys[:MOST_NAMED]) + (" and others" if len(keys) > MOST_NAMED else "")
            raise ConflictError(f"Toolset {name} cannot be deleted: it is in use by {named}")
        changes = {part: [getattr(toolset, part), None] for part in TOOLSET if getattr(toolset, part)}
        toolset.delete()
        note("toolset.delete", f"toolset:{name}", actor=actor, reason=reason, changes=changes)


def _toolset(name: str) -> Toolset:
    toolset = Toolset.objects.select_for_update().filter(name=name).first()
    if toolset is None:
        raise NotFoundError(f"There is no toolset {shortened(name)!r}")
    return toolset


def _set(toolset: Toolset, given: Mapping[str, Any]) -> None:
    """Raises: ValidationError."""
    for part, value in given.items():
        if part not in TOOLSET:
            raise ValidationError(f"{part!r} is no part of a toolset; known are {', '.join(TOOLSET)}")
        setattr(toolset, part, _names(part, value) if part in SELECTORS else value)
    try:
        toolset.clean_fields()
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error


def _names(part: str, value: Any) -> list[str]:
    """Raises: ValidationError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValidationError(f"{part} must be a list of names")
    names = list(value)
    if not all(isinstance(name, str) and 0 < len(name.strip()) <= MOST_CHARACTERS for name in names):
        raise ValidationError(f"{part} must hold names of 1 to {MOST_CHARACTERS} characters")
    return sorted({name.strip() for name in names})


def create_key(
    name: str,
    *,
    actor: str,
    scopes: Sequence[str] | None = None,
    toolsets: Iterable[str] = (),
    connections: Iterable[str] = (ENVIRONMENT,),
    may_write: bool = True,
    may_destroy: bool = True,
    rate: tuple[int, int] | None = None,
    expires_at: datetime | None = None,
    owner: Any = None,
) -> tuple[ApiKey, str]:
    """Make an API key. The second value is the key itself, which nobody can ever read again.

    Without toolsets it reaches every tool. It uses the connections that are named here and no others, those of the
    environment if nothing else is said. A key that may not write may not destroy. `rate` is so many requests in
    so many seconds.

    Raises:
        ValidationError: the name is blank, too long or taken, the rate out of bounds, or a scope, toolset or
            connection unknown.
    """
    name = name.strip()
    if not name or len(name) > 100:
        raise ValidationError("A key needs a name of 1 to 100 characters")
    granted = list(default_scopes() if scopes is None else scopes)
    if unknown := sorted(set(granted) - set(SCOPES)):
        raise ValidationError(f"Unknown scope {unknown[0]!r}; known are {', '.join(SCOPES)}")
    if rate is not None and not (1 <= rate[0] <= MAX_RATE_CALLS and 1 <= rate[1] <= MAX_RATE_SECONDS):
        raise ValidationError(f"A rate limit is 1 to {MAX_RATE_CALLS} requests in 1 to {MAX_RATE_SECONDS} seconds")
    secret, prefix = secrets.new_key()
    with transaction.atomic():
        wanted = set(toolsets)
        # Locked, so that none is deleted before the key that has it is there.
        chosen = list(Toolset.objects.select_for_update().filter(name__in=wanted).order_by("name"))
        if unknown := sorted(wanted - {toolset.name for toolset in chosen}):
            known = ", ".join(Toolset.objects.values_list("name", flat=True)) or "none"
            raise ValidationError(f"There is no toolset {shortened(unknown[0])!r}; there are: {known}")
        through = set(connections)
        accounts = list(Connection.objects.select_for_update().filter(name__in=through).order_by("name"))
        if unknown := sorted(through - {ENVIRONMENT, *(account.name for account in accounts)}):
            known = ", ".join([ENVIRONMENT, *Connection.objects.values_list("name", flat=True)])
            raise ValidationError(f"There is no connection {shortened(unknown[0])!r}; there are: {known}")
        if ApiKey.objects.filter(name=name).exists():
            raise ConflictError(f"A key named {name!r} exists already; revoke it, or choose another name")
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            hash=secrets.key_hash(secret),
            scopes=sorted(set(granted)),
            uses_environment=ENVIRONMENT in through,
            may_write=may_write,
            may_destroy=may_write and may_destroy,
            rate_calls=rate[0] if rate else None,
            rate_seconds=rate[1] if rate else None,
            expires_at=expires_at,
            owner=owner,
        )
        KeyToolset.objects.bulk_create(KeyToolset(key=key, toolset=toolset) for toolset in chosen)
        KeyConnection.objects.bulk_create(KeyConnection(key=key, connection=account) for account in accounts)
        given = {
            "scopes": key.scopes,
            "toolsets": [toolset.name for toolset in chosen] or None,
            "connections": None if through == {ENVIRONMENT} else sorted(through),
            "may_write": key.may_write,
            "may_destroy": key.may_destroy,
            "rate": rate and list(rate),
            "expires_at": expires_at and expires_at.isoformat(),
        }
        changes = {part: [None, value] for part, value in given.items() if value is not None}
        note("key.create", f"key:{name}", actor=actor, changes=changes)
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
