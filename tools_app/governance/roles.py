"""Roles of users: three groups of Django's, updated by every `migrate`.

Only permissions are checked, by the admin and `access`, never group names, so custom groups work as well.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps as installed_apps
from django.contrib.auth import get_user_model
from django.contrib.auth.management import create_permissions

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
OWN: Final = "tools_app"

# The permissions of each role beyond the previous one. Permissions of no role are for superusers and the hub only.
GRANTED: Final = {
    VIEWER: (
        "tools_app.view_agent",
        "tools_app.view_approval",
        "tools_app.view_auditentry",
        "tools_app.view_call",
        "tools_app.view_callhour",
        "tools_app.view_callsum",
        "tools_app.view_definition",
        "tools_app.view_errorgroup",
        "tools_app.view_errorlog",
        "tools_app.view_process",
        "tools_app.view_stop",
        "tools_app.view_tag",
        "tools_app.view_toolrecord",
    ),
    OPERATOR: (
        "tools_app.change_approval",
        "tools_app.change_definition",
        "tools_app.change_errorgroup",
        "tools_app.change_stop",
        "tools_app.change_toolrecord",
    ),
    ADMIN: (
        "tools_app.add_apikey",
        "tools_app.add_connection",
        "tools_app.add_toolset",
        "tools_app.change_apikey",
        "tools_app.change_connection",
        "tools_app.change_toolset",
        "tools_app.delete_connection",
        "tools_app.delete_toolset",
        "tools_app.view_apikey",
        "tools_app.view_connection",
        "tools_app.view_payload",
        "tools_app.view_toolset",
        *(f"auth.{verb}_group" for verb in ("add", "change", "delete", "view")),
        *(f"{{user}}.{verb}_{{user_model}}" for verb in ("add", "change", "delete", "view")),
    ),
}


def permissions_of(role: str) -> set[str]:
    """All permissions of a role, as `app.codename`."""
    user = get_user_model()._meta
    permissions: set[str] = set()
    for name, granted in GRANTED.items():
        permissions.update(permission.format(user=user.app_label, user_model=user.model_name) for permission in granted)
        if name == role:
            return permissions
    raise KeyError(role)


def grant(using: str, apps: Any = installed_apps) -> None:
    """Create the groups and set their permissions to this version's. Permissions of other apps are not touched."""
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # Not migrated yet; this is called again afterwards.
    labels = {name.partition(".")[0] for name in permissions_of(ADMIN)}
    for label in labels:
        # Django creates them app by app, in an unspecified order.
        create_permissions(installed_apps.get_app_config(label), verbosity=0, using=using, apps=apps)
    permission_ids = {
        f"{label}.{codename}": pk
        for label, codename, pk in permissions.objects.using(using)
        .filter(content_type__app_label__in=labels)
        .values_list("content_type__app_label", "codename", "pk")
    }
    own_ids = {pk for name, pk in permission_ids.items() if name.startswith(f"{OWN}.")}
    for role in GRANTED:
        group, _ = groups.objects.using(using).get_or_create(name=role)
        expected = {permission_ids[name] for name in permissions_of(role) if name in permission_ids}
        current = set(group.permissions.values_list("pk", flat=True))
        group.permissions.remove(*((current & own_ids) - expected))
        group.permissions.add(*(expected - current))
