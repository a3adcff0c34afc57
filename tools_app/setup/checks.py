"""System checks: each names the setting to change."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection
from django.template import TemplateDoesNotExist
from django.template.loader import get_template

from tools_app.base import secrets


@register(Tags.security, deploy=True)
def secret_key_is_strong(app_configs: Any, **_: Any) -> list[CheckMessage]:
    if not secrets.is_strong(settings.SECRET_KEY):
        return [
            Error(
                "SECRET_KEY is weak.",
                hint="Unset SECRET_KEY to have one generated, or set at least 50 random characters.",
                id="tools_app.E001",
            )
        ]
    return []


@register(Tags.database)
def database_is_supported(app_configs: Any, **_: Any) -> list[CheckMessage]:
    vendor = connection.vendor
    if vendor not in {"sqlite", "postgresql"}:
        hint = "Set DATABASE_URL to a sqlite:/// or postgres:// address."
        return [Error(f"The database {vendor} is not supported.", hint=hint, id="tools_app.E002")]
    return []


@register(Tags.security, deploy=True)
def encryption_key_is_own(app_configs: Any, **_: Any) -> list[CheckMessage]:
    key = getattr(settings, "TOOLHUB_ENCRYPTION_KEY", "")
    if key and key == settings.SECRET_KEY:
        hint = "Use a different TOOLHUB_ENCRYPTION_KEY: the key that signs cookies should not decrypt stored secrets."
        return [Warning("TOOLHUB_ENCRYPTION_KEY equals SECRET_KEY.", hint=hint, id="tools_app.W001")]
    return []


@register(Tags.templates)
def admin_has_its_look(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Without theme and templates the pages of the admin fail or are incomplete."""
    names = [config.name for config in apps.get_app_configs()]
    if "django.contrib.admin" not in names:
        return []
    messages: list[CheckMessage] = []
    if "unfold" not in names or names.index("unfold") > names.index("django.contrib.admin"):
        hint = 'Put "unfold" before "django.contrib.admin" in INSTALLED_APPS.'
        messages.append(Error("The hub's admin pages require the Unfold theme.", hint=hint, id="tools_app.E003"))
    try:
        get_template("admin/tools_app/status.html")
    except TemplateDoesNotExist:
        hint = 'Add Path(toolhub.__file__).parent / "templates" to DIRS in TEMPLATES.'
        messages.append(Error("The templates of the hub's admin pages are not found.", hint=hint, id="tools_app.E004"))
    return messages
