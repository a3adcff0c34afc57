"""Changes of users of the admin, and their sign-ins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from django.apps import apps
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance import roles
from tools_app.governance.actors import Actor, changing, of_user
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.models import AuditEntry, BrowserSession
from tools_app.models.audit import note
from tools_app.sdk.errors import AuthorizationError, ConflictError, ValidationError

# Sign-ins that failed, of all names and addresses: an attacker must not fill the disk.
MOST_FAILURES: Final = 200
_FAILURES_WITHIN: Final = timedelta(hours=1)
# Of names that no user has. The name itself is not stored: people enter their password in its place.
_UNKNOWN: Final = "user:?"
_ALL: Final = "user:*"

# The role of users with permissions of this hub that none of its roles has in this way: from groups of an operator's
# own, or given one by one. They keep these permissions until a role is chosen.
CUSTOM: Final = "custom"
SUPERUSER: Final = "superuser"
NO_ACCESS: Final = ""
# Each has the permissions of those before it.
ALL_ROLES: Final = (NO_ACCESS, *actions.ROLES, SUPERUSER)


def create_admin(username: str, password: str, *, actor: Actor) -> None:
    """Create a superuser.

    Raises:
        ValidationError: the password is too easy to guess.
    """
    users = get_user_model()._default_manager
    try:
        validate_password(password)
    except DjangoValidationError as error:
        raise ValidationError(f"The password for {username!r} is refused: {' '.join(error.messages)}") from error
    with changing(actions.USER_CREATE, actor) as change:
        users.create_superuser(username, password=password)
        change.note(f"user:{username}", {"is_superuser": [None, True]})


def role_of(user: Any) -> str:
    """One of `ALL_ROLES`, or `CUSTOM`.

    Groups and permissions that concern nothing in this hub, such as those of a project that contains it, do not count.
    """
    return roles_of([user])[user.pk]


def roles_of(users: Sequence[Any]) -> dict[Any, str]:
    """The roles of several users, by primary key, with four queries."""
    ids, of_hub = [user.pk for user in users], _of_hub()
    of_own = set(
        Group.objects.exclude(name__in=actions.ROLES).filter(permissions__in=of_hub).values_list("pk", flat=True)
    )
    custom = set(Permission.objects.filter(pk__in=of_hub, user__in=ids).values_list("user", flat=True))
    held: dict[Any, set[str]] = {}
    memberships = get_user_model()._default_manager.filter(pk__in=ids, groups__isnull=False)
    for pk, group, name in memberships.values_list("pk", "groups", "groups__name"):
        held.setdefault(pk, set()).add(name)
        if group in of_own:
            custom.add(pk)
    return {user.pk: _role(user, held.get(user.pk, set()), user.pk in custom) for user in users}


def _role(user: Any, groups: set[str], is_custom: bool) -> str:
    if user.is_superuser:
        return SUPERUSER if user.is_staff else CUSTOM
    held = [role for role in actions.ROLES if role in groups]
    if is_custom or user.is_staff != bool(held):
        return CUSTOM
    return held[-1] if held else NO_ACCESS


def at_provider(users: Sequence[Any]) -> set[Any]:
    """Those whose role a sign-in service gives, by primary key."""
    if not apps.is_installed("allauth.socialaccount"):
        return set()
    rows = apps.get_model("socialaccount", "SocialAccount")._default_manager.filter(user__in=users)
    return set(rows.values_list("user", flat=True))


def set_role(user: Any, role: str, *, actor: Actor, reason: str = "") -> bool:
    """Give a user exactly this role, one of `ALL_ROLES`. Returns whether that changed anything.

    It replaces all of the user's permissions of this hub. If the user loses any, their browser sessions end. An
    actor can only give or take permissions that they have.

    Raises:
        AuthorizationError: the actor has less permissions than the role, or than the user has now.
        ConflictError: the hub would be left without a superuser who can sign in; or a file manages the user, who would
            get more permissions.
        ValidationError: there is no such role.
    """
    if role not in ALL_ROLES:
        raise ValidationError(f"There is no role {role!r}; there are: {', '.join(ALL_ROLES[1:])}, or none")
    with changing(roles.on_users(actions.USER_ROLE), actor, reason) as change:
        row = locked_user(user)
        before, held = role_of(row), permissions_held(row)
        if before == role:
            return False
        refuse_beyond(actor, row, role)
        gains = _SUPERUSERS not in held and bool(_of_role(role) - held)
        if (gains or (role != NO_ACCESS and not row.is_staff)) and not at_provider([row]):
            refuse_managed(Kind.USER, [row.get_username()])
        if row.is_superuser and role != SUPERUSER:
            refuse_last_superuser(row)
        groups = sorted(row.groups.values_list("name", flat=True)) if before == CUSTOM else None
        row.groups.remove(*_own_groups(row), *row.groups.filter(name__in=actions.ROLES))
        row.user_permissions.remove(*_own_permissions(row))
        if role in actions.ROLES:
            row.groups.add(Group.objects.get(name=role))
        was_staff = row.is_staff
        row.is_superuser, row.is_staff = role == SUPERUSER, role != NO_ACCESS
        row.save(update_fields=["is_superuser", "is_staff"])
        if held - permissions_held(row) or (was_staff and not row.is_staff):
            end_all_sessions(row)
        changes: dict[str, Any] = {"role": [before, role]}
        if groups:
            changes["groups"] = [groups, [role] if role in actions.ROLES else []]
        change.note(of_user(row).name[:150], changes)
    user.is_superuser, user.is_staff = row.is_superuser, row.is_staff
    return True


def locked_user(user: Any) -> Any:
    """The row of a user, together with those of all superusers: of two changes at once the second sees the first."""
    users = get_user_model()
    rows = users._default_manager.select_for_update().filter(Q(pk=user.pk) | Q(is_superuser=True)).order_by("pk")
    found = next((row for row in rows if row.pk == user.pk), None)
    if found is None:
        raise ConflictError(f"The user {user.get_username()!r} has been deleted")
    return found


def refuse_last_superuser(user: Any) -> None:
    """Raises: ConflictError: no other superuser could sign in without this one."""
    others = get_user_model()._default_manager.filter(is_superuser=True, is_active=True, is_staff=True)
    if not any(has_signed_up(other) for other in others.exclude(pk=user.pk)) and user.is_active:
        raise ConflictError(
            f"{user.get_username()} is the last superuser who can sign in",
            next_step="Make another user a superuser first.",
        )


def end_all_sessions(user: Any) -> int:
    """End all browser sessions of a user, in every process: the next request is refused. Returns how many."""
    BrowserSession.objects.filter(user=user.pk).delete()
    if not apps.is_installed("django.contrib.sessions"):
        return 0
    sessions = apps.get_model("sessions", "Session")._default_manager.filter(expire_date__gt=timezone.now())
    keys = [row.pk for row in sessions.iterator() if row.get_decoded().get(SESSION_KEY) == str(user.pk)]
    return int(sessions.filter(pk__in=keys).delete()[0])


def has_signed_up(user: Any) -> bool:
    """Whether a user can sign in: who was invited has to choose a password first."""
    return bool(user.has_usable_password() or user.last_login)


def refuse_beyond(actor: Actor, user: Any, role: str = NO_ACCESS) -> None:
    """Users decide about others who have no more permissions than they have, and give no more.

    Raises:
        AuthorizationError: the user has permissions that the actor lacks, or the role would give them.
    """
    if actor.principal is None or actor.caller is not None:
        return  # Programs are refused before.
    permissions = permissions_held(user) | _of_role(role)
    if _SUPERUSERS in permissions:
        actor.require(actions.SUPERUSER_CHANGE)
    elif _SUPERUSERS not in (held := permissions_held(actor.principal)) and permissions - held:
        raise AuthorizationError(
            "Permission denied: this user or role has permissions that you do not have",
            next_step="Ask an administrator of this hub.",
        )


# Stands for all permissions there are.
_SUPERUSERS: Final = "superuser"


def permissions_held(user: Any) -> set[str]:
    """The permissions of this hub that a user has, whether or not the user is active."""
    if user.is_superuser:
        return {_SUPERUSERS}
    held = Permission.objects.filter(Q(group__user=user) | Q(user=user), pk__in=_of_hub())
    return {f"{label}.{codename}" for label, codename in held.values_list("content_type__app_label", "codename")}


def _of_role(role: str) -> set[str]:
    if role == SUPERUSER:
        return {_SUPERUSERS}
    return roles.permissions_of(role) if role else set()


def _of_hub() -> list[int]:
    """The keys of all permissions of this hub: on its own tables, and on users and groups."""
    known = roles.permissions_of(actions.ADMIN)
    there = Permission.objects.values_list("pk", "content_type__app_label", "codename")
    return [pk for pk, label, codename in there if label == roles.OWN or f"{label}.{codename}" in known]


def _own_groups(user: Any) -> Any:
    """Groups of an operator's own with permissions of this hub."""
    return user.groups.exclude(name__in=actions.ROLES).filter(permissions__in=_of_hub()).distinct()


def _own_permissions(user: Any) -> Any:
    return user.user_permissions.filter(pk__in=_of_hub())


def note_lock(username: str, address: str, *, within: timedelta) -> None:
    """Record that a user is locked out; one entry per user and address within that time."""
    subject = f"user:{username}"[:150]
    recent = AuditEntry.objects.filter(action=actions.USER_LOCK.event, subject=subject, at__gte=timezone.now() - within)
    with transaction.atomic():
        if not recent.filter(changes__address=[None, address]).exists():
            note(actions.USER_LOCK.event, subject, actor="hub", changes={"address": [None, address]})


def note_sign_in(user: Any, channel: str) -> None:
    """Record that a user signed in."""
    _note_session(actions.USER_SIGN_IN, user, channel)


def note_sign_out(user: Any, channel: str) -> None:
    _note_session(actions.USER_SIGN_OUT, user, channel)


def _note_session(action: actions.Action, user: Any, channel: str) -> None:
    name = of_user(user).name
    with transaction.atomic():
        note(action.event, name, actor=name, changes={"channel": [None, channel]})


def note_failed_sign_in(username: str, address: str, *, within: timedelta) -> None:
    """Record that a sign-in failed: one entry per user and address within that time, and a number per hour in all."""
    event, now = actions.USER_SIGN_IN_FAILED.event, timezone.now()
    subject = _UNKNOWN
    users = get_user_model()
    with suppress(users.DoesNotExist):
        subject = of_user(users._default_manager.get_by_natural_key(username)).name[:150]
    failures = AuditEntry.objects.filter(action=event)
    same = failures.filter(subject=subject, at__gte=now - within, changes__address=[None, address])
    if same.exists():
        return
    recent = failures.filter(at__gte=now - _FAILURES_WITHIN)
    changes: dict[str, Any] = {"address": [None, address]}
    if recent.count() >= MOST_FAILURES:
        if recent.filter(subject=_ALL).exists():
            return
        subject, changes = _ALL, {"omitted": [None, f"more than {MOST_FAILURES} within an hour"]}
    with transaction.atomic():
        note(event, subject, actor="hub", changes=changes)
