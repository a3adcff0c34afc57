"""Wires the app into Django. Nothing here queries the database or loads a pack."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate


class ToolsAppConfig(AppConfig):
    name = "tools_app"
    verbose_name = "ToolHub"

    def ready(self) -> None:
        from tools_app.setup import checks  # noqa: F401 – importing registers them

        pre_migrate.connect(_before_migrate, sender=self)
        post_migrate.connect(_after_migrate, sender=self)


def _before_migrate(using: str, **_: Any) -> None:
    from tools_app.models import revision

    revision.drop_triggers(connections[using])


def _after_migrate(using: str, **given: Any) -> None:
    from tools_app.governance import roles
    from tools_app.models import revision

    revision.create_triggers(connections[using])
    # At a flush, all apps there are; else those that are migrated so far.
    roles.grant(using, given.get("apps", apps))
