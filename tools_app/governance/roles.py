"""What people may do: three roles, kept as groups of Django's and brought up to date by every `migrate`.

Nothing else looks at the groups: the admin and `access` ask for permissions, so groups of one's own work as well.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps as installed_apps
from django.contrib.auth import get_user_model
from django.contrib.auth.management import create_permissions

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
OWN: Final = "tools_app"

# What each role may beyond the one before it. What no role may is done by the hub itself, or by nobody.
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
    """All that a role may, as `app.codename`."""
    user = get_user_model()._meta
    found: set[str] = set()
    for name, granted in GRANTED.items():
        found.update(one.format(user=user.app_label, user_model=user.model_name) for one in granted)
        if name == role:
            return found
    raise KeyError(role)


def grant(using: str, apps: Any = installed_apps) -> None:
    """Make the groups, and give them what this version says. What other apps' permissions they have is left alone."""
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # They are not migrated yet; afterwards this is called again.
    labels = {name.partition(".")[0] for name in permissions_of(ADMIN)}
    for label in labels:
        # Django makes them app by app, in an order that we do not know.
        create_permissions(installed_apps.get_app_config(label), verbosity=0, using=using, apps=apps)
    known = {
        f"{label}.{codename}": pk
        for label, codename, pk in permissions.objects.using(using)
        .filter(content_type__app_label__in=labels)
        .values_list("content_type__app_label", "codename", "pk")
    }
    own = {pk for name, pk in known.items() if name.startswith(f"{OWN}.")}
    for role in GRANTED:
        group, _ = groups.objects.using(using).get_or_create(name=role)
        wanted = {known[name] for name in permissions_of(role) if name in known}
        had = set(group.permissions.values_list("pk", flat=True))
        group.permissions.remove(*((had & own) - wanted))
        group.permissions.add(*(wanted - had))
