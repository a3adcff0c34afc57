"""Roles of users: three groups of Django's with the permissions of `access.actions`, updated by every `migrate`.

Only permissions are checked, by the admin and `access`, never group names, so custom groups work as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.apps import apps as installed_apps
from django.contrib.auth import get_user_model
from django.contrib.auth.management import create_permissions

from tools_app.access.actions import ACTIONS, ADMIN, ROLES, Action

OWN: Final = "tools_app"


def permissions_of(role: str) -> set[str]:
    """All permissions of a role, as `app.codename`. Those of no role are for superusers and the hub only."""
    roles = ROLES[: ROLES.index(role) + 1]
    return {_in_this_project(action.permission) for action in ACTIONS if action.role in roles}


def on_users(action: Action) -> Action:
    """The action on users, with the permission that it needs in this project."""
    return replace(action, right=_in_this_project(action.permission))


def _in_this_project(permission: str) -> str:
    """Projects may have a user model of their own."""
    user, codename = get_user_model()._meta, permission.removeprefix("auth.")
    return f"{user.app_label}.{codename[:-4]}{user.model_name}" if codename.endswith("_user") else permission


def grant(database: str, apps: Any = installed_apps) -> None:
    """Create the groups and set their permissions to this version's. Permissions of other apps are not touched."""
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # Not migrated yet; this is called again afterwards.
    labels = {name.partition(".")[0] for name in permissions_of(ADMIN)}
    for label in labels:
        # Django creates them app by app, in an unspecified order.
        create_permissions(installed_apps.get_app_config(label), verbosity=0, using=database, apps=apps)
    permission_ids = {
        f"{label}.{codename}": pk
        for label, codename, pk in permissions.objects.using(database)
        .filter(content_type__app_label__in=labels)
        .values_list("content_type__app_label", "codename", "pk")
    }
    own_ids = {pk for name, pk in permission_ids.items() if name.startswith(f"{OWN}.")}
    for role in ROLES:
        group, _ = groups.objects.using(database).get_or_create(name=role)
        expected_ids = {permission_ids[name] for name in permissions_of(role) if name in permission_ids}
        current_ids = set(group.permissions.values_list("pk", flat=True))
        group.permissions.remove(*((current_ids & own_ids) - expected_ids))
        group.permissions.add(*(expected_ids - current_ids))
