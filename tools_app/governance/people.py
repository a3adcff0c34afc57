"""People who use the admin: invited by a link, deactivated, removed. What they have set up ends with their access."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.views.decorators.debug import sensitive_variables

from tools_app.access import actions
from tools_app.governance import roles, users
from tools_app.governance.actors import Actor, changing, of_user
from tools_app.governance.keys import revoke_key
from tools_app.governance.managed import Kind, forget, refuse_managed
from tools_app.governance.stops import stop
from tools_app.models import ApiKey, AuditEntry, PasswordLink, StandingApproval
from tools_app.models.audit import note
from tools_app.sdk.errors import AuthenticationError, ConflictError, Problem, ValidationError

INVITED_FOR: Final = timedelta(days=7)
RESET_FOR: Final = timedelta(days=1)
# What happens to the keys of a user who loses access: they are stopped until resumed, or end for good.
STOP_KEYS: Final = "stop"
REVOKE_KEYS: Final = "revoke"


@dataclass(frozen=True, slots=True)
class Invitation:
    """What the holder of a link is told before choosing a password."""

    user: Any
    made_by: str
    expires_at: datetime
    # Whether the user has never had a password.
    is_first: bool
    role: str


@dataclass(frozen=True, slots=True)
class Belongings:
    """What works on behalf of a user without their session."""

    keys: list[ApiKey]
    standing: list[StandingApproval]


def add_user(
    name: str, *, role: str, email: str = "", actor: Actor, reason: str = "", first_name: str = "", last_name: str = ""
) -> Any:
    """Create a user who cannot sign in with a password before they have chosen one, with a link of `make_link`.

    Raises:
        AuthorizationError: the role has permissions that the actor lacks.
        ValidationError: the name is taken, or the name or the address is none.
    """
    with changing(roles.on_users(actions.USER_CREATE), actor, reason) as change:
        user = get_user_model()()
        user.first_name, user.last_name = first_name, last_name
        _set(user, name, email)
        user.set_unusable_password()
        user.save()
        users.set_role(user, role, actor=actor)
        change.note(_subject(user), {"role": [None, role]})
    return user


def change_user(user: Any, *, name: str, email: str, actor: Actor, reason: str = "") -> list[str]:
    """Change name and mail address. Returns which have changed; the audit trail has no values.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks.
        ValidationError: as `add_user`.
    """
    with changing(roles.on_users(actions.USER_CHANGE), actor, reason) as change:
        row = users.locked_user(user)
        users.refuse_beyond(actor, row)
        subject, before = _subject(row), (row.get_username(), getattr(row, "email", ""))
        different = [
            part for part, old, new in zip(("name", "email"), before, (name, email), strict=True) if old != new
        ]
        if "name" in different:
            refuse_managed(Kind.USER, [row.get_username()])
            forget(Kind.USER, row.get_username())
        if different:
            _set(row, name, email)
            row.save()
            change.note(subject, {"fields": [None, different]})
    return different


def make_link(user: Any, *, actor: Actor, reason: str = "") -> str:
    """The code with which a user chooses a password, once. It cannot be retrieved again; an earlier one ends.

    It is an invitation for who has never signed in, else a reset. It ends with any change of password, role or state,
    and with a sign-in.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks.
        ConflictError: the user is deactivated.
    """
    is_first = not users.has_signed_up(user)
    action = actions.USER_INVITE if is_first else actions.USER_RESET
    with changing(roles.on_users(action), actor, reason) as change:
        row = users.locked_user(user)
        users.refuse_beyond(actor, row)
        if not row.is_active:
            raise ConflictError(f"{row.get_username()} is deactivated", next_step="Reactivate the user first.")
        code = secrets.token_urlsafe(32)
        expires_at = timezone.now() + (INVITED_FOR if is_first else RESET_FOR)
        row_of_link = {"hash": _hash(code), "state": _state(row), "made_by": actor.name[:150], "expires_at": expires_at}
        PasswordLink.objects.update_or_create(user=row, defaults={**row_of_link, "created_at": timezone.now()})
        change.note(_subject(row), {"expires_at": [None, expires_at.isoformat()]})
    return code


def invitation(code: str) -> Invitation:
    """What a link is for.

    Raises:
        AuthenticationError: it is unknown, used, expired or void.
    """
    link = PasswordLink.objects.select_related("user").filter(hash=_hash(code)).first()
    if link is None or link.expires_at <= timezone.now() or not constant_time_compare(link.state, _state(link.user)):
        raise AuthenticationError(
            "This link is not valid: it has been used or replaced, has expired, or the user has changed since",
            next_step="Ask an administrator of this hub for another one.",
        )
    is_first, role = not users.has_signed_up(link.user), users.role_of(link.user)
    return Invitation(link.user, link.made_by, link.expires_at, is_first, role)


@sensitive_variables("password")
def redeem_link(code: str, password: str) -> Any:
    """Set the password of the user of a link, which ends. Their sessions end as well, and their name is unlocked.

    Raises:
        AuthenticationError: as `invitation`.
        ValidationError: the password is too easy to guess; the problems say why.
    """
    with transaction.atomic():
        # Of two requests at once, the second finds no link.
        PasswordLink.objects.select_for_update().filter(hash=_hash(code)).first()
        invited = invitation(code)
        user = invited.user
        try:
            validate_password(password, user)
        except DjangoValidationError as error:
            problems = [Problem("/password", message) for message in error.messages]
            raise ValidationError("The password is refused", problems=problems) from error
        user.set_password(password)
        user.save(update_fields=["password"])
        PasswordLink.objects.filter(user=user).delete()
        users.end_all_sessions(user)
        _unlock(user)
        changes = {"by": [None, "invitation" if invited.is_first else "reset"]}
        note(actions.USER_PASSWORD.event, _subject(user), actor=_subject(user), changes=changes)
    return user


def belongings(user: Any) -> Belongings:
    """The usable keys that a user owns or has created, and the standing approvals that they have granted."""
    now, name = timezone.now(), _subject(user)
    created = AuditEntry.objects.filter(actor=name, action=actions.KEY_CREATE.event)
    names = [subject.removeprefix("key:") for subject in created.values_list("subject", flat=True)]
    keys = ApiKey.objects.usable(now).filter(Q(owner=user) | Q(owner=None, name__in=names)).with_stops()
    return Belongings(list(keys), list(StandingApproval.objects.active(now).filter(created_by=name)))


def deactivate_user(user: Any, *, keys: str, actor: Actor, reason: str = "") -> bool:
    """End the access of a user: sessions, link, and keys, which are stopped or revoked. False: it has ended already.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks.
        ConflictError: it is the actor, or the last superuser.
    """
    with changing(roles.on_users(actions.USER_DEACTIVATE), actor, reason) as change:
        row = _removable(user, actor)
        if not row.is_active:
            return False
        row.is_active = False
        row.save(update_fields=["is_active"])
        ended = _end_access(row, keys, actor, f"{row.get_username()} was deactivated")
        change.note(_subject(row), {"is_active": [True, False], **ended})
    return True


def reactivate_user(user: Any, *, actor: Actor, reason: str = "") -> bool:
    """Let a user sign in again, with the password they had. Their keys stay stopped. False: the user is active.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks.
    """
    with changing(roles.on_users(actions.USER_REACTIVATE), actor, reason) as change:
        row = users.locked_user(user)
        users.refuse_beyond(actor, row)
        if row.is_active:
            return False
        row.is_active = True
        row.save(update_fields=["is_active"])
        change.note(_subject(row), {"is_active": [False, True]})
    return True


def delete_user(user: Any, *, keys: str, actor: Actor, reason: str = "") -> None:
    """Delete a user, with what `deactivate_user` ends. The audit trail and calls keep the name.

    Raises:
        AuthorizationError, ConflictError: as `deactivate_user`.
    """
    with changing(roles.on_users(actions.USER_DELETE), actor, reason) as change:
        row = _removable(user, actor)
        role = users.role_of(row)
        ended = _end_access(row, keys, actor, f"{row.get_username()} was deleted")
        change.note(_subject(row), {"role": [role, None], **ended})
        forget(Kind.USER, row.get_username())
        row.delete()


def unlock_user(user: Any, *, actor: Actor, reason: str = "") -> bool:
    """Let a user try to sign in again after too many wrong passwords, from every address. False: none were counted."""
    with changing(roles.on_users(actions.USER_UNLOCK), actor, reason) as change:
        number = _unlock(user)
        if number:
            change.note(_subject(user), {"addresses": [number, 0]})
    return bool(number)


def set_permissions(
    user: Any, *, groups: Collection[Group], permissions: Collection[Permission], actor: Actor, reason: str = ""
) -> bool:
    """Replace all groups and single permissions of a user, who becomes one of the role *custom*.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks, or would get such.
        ConflictError: the user is a superuser, who has all permissions.
    """
    with changing(roles.on_users(actions.USER_PERMISSIONS), actor, reason) as change:
        row = users.locked_user(user)
        if row.is_superuser:
            raise ConflictError(f"{row.get_username()} is a superuser, who has all permissions")
        users.refuse_beyond(actor, row)
        refuse_managed(Kind.USER, [row.get_username()])
        before, held = _memberships(row), users.permissions_held(row)
        row.groups.set(groups)
        row.user_permissions.set(permissions)
        row.is_staff = True
        row.save(update_fields=["is_staff"])
        # Once more, with what the user has now.
        users.refuse_beyond(actor, row)
        if held - users.permissions_held(row):
            users.end_all_sessions(row)
        after = _memberships(row)
        if before != after:
            change.note(
                _subject(row), {part: [before[part], after[part]] for part in after if before[part] != after[part]}
            )
    return before != after


def locked_names() -> set[str]:
    """The names that are locked for some address, as django-axes has stored them."""
    if not apps.is_installed("axes"):
        return set()
    attempts = apps.get_model("axes", "AccessAttempt")._default_manager.filter(
        failures_since_start__gte=getattr(settings, "AXES_FAILURE_LIMIT", 3)
    )
    # Another project may have other settings; without this one its locks do not end by themselves.
    if isinstance(cooloff := getattr(settings, "AXES_COOLOFF_TIME", None), timedelta):
        attempts = attempts.filter(attempt_time__gt=timezone.now() - cooloff)
    return set(attempts.values_list("username", flat=True))


def _subject(user: Any) -> str:
    return of_user(user).name[:150]


def _set(user: Any, name: str, email: str) -> None:
    """Raises: ValidationError."""
    model = get_user_model()
    setattr(user, model.USERNAME_FIELD, model.normalize_username(name.strip()))
    if model.get_email_field_name() != model.USERNAME_FIELD:
        setattr(user, model.get_email_field_name(), email.strip())
    try:
        user.clean_fields(exclude=["password"])
        user.validate_unique()
    except DjangoValidationError as error:
        problems = [Problem(f"/{part}", text) for part, texts in error.message_dict.items() for text in texts]
        raise ValidationError(problems=problems) from error


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()


def _state(user: Any) -> str:
    """Differs as soon as a link must not work any more."""
    parts = (user.pk, user.password, user.last_login, user.is_active, users.role_of(user))
    return salted_hmac("tools_app.governance.people", repr(parts), algorithm="sha256").hexdigest()


def _removable(user: Any, actor: Actor) -> Any:
    """Raises: AuthorizationError, ConflictError."""
    row = users.locked_user(user)
    users.refuse_beyond(actor, row)
    if actor.name == of_user(row).name:
        raise ConflictError("You cannot end your own access", next_step="Ask another administrator.")
    if row.is_superuser:
        users.refuse_last_superuser(row)
    return row


def _end_access(user: Any, keys: str, actor: Actor, reason: str) -> dict[str, Any]:
    if keys not in (STOP_KEYS, REVOKE_KEYS):
        raise ValidationError(f"Keys are stopped or revoked: {STOP_KEYS} or {REVOKE_KEYS}")
    users.end_all_sessions(user)
    PasswordLink.objects.filter(user=user).delete()
    ended = belongings(user).keys
    for key in ended:
        if keys == REVOKE_KEYS:
            revoke_key(key, actor=actor, reason=reason)
        else:
            stop("key", key.name, actor=actor, reason=reason)
    return {"keys": [[key.name for key in ended], keys]} if ended else {}


def _unlock(user: Any) -> int:
    if not apps.is_installed("axes"):
        return 0
    attempts = apps.get_model("axes", "AccessAttempt")._default_manager.filter(username=user.get_username())
    return int(attempts.delete()[0])


def _memberships(user: Any) -> dict[str, Any]:
    return {
        "staff": user.is_staff,
        "groups": sorted(user.groups.values_list("name", flat=True)),
        "permissions": sorted(user.user_permissions.values_list("codename", flat=True)),
    }
