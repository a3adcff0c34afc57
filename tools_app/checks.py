"""System checks: each names the setting to change."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection

WEAK_KEY_LENGTH = 40


@register(Tags.security, deploy=True)
def secret_key_is_strong(app_configs: Any, **_: Any) -> list[CheckMessage]:
    key = settings.SECRET_KEY
    if len(key) < WEAK_KEY_LENGTH or len(set(key)) < 10 or key.startswith("django-insecure-"):
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
        hint = "Give TOOLHUB_ENCRYPTION_KEY a value of its own: whoever signs cookies need not read stored secrets."
        return [Warning("TOOLHUB_ENCRYPTION_KEY equals SECRET_KEY.", hint=hint, id="tools_app.W001")]
    return []
