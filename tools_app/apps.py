"""Wires the app into Django, and rooms to the ports of others. Nothing here queries the database or loads a pack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate

from tools_app.base import conf, hub, ports
from tools_app.base.setting_table import DEFAULTS

if TYPE_CHECKING:
    from tools_app.sdk.context import Caller


class ToolsAppConfig(AppConfig):
    name = "tools_app"
    verbose_name = "ToolHub"

    def ready(self) -> None:
        from tools_app.setup import checks  # noqa: F401 – importing registers them

        conf.use_defaults(DEFAULTS)
        ports.code.connect(_code)
        ports.upstreams.connect(_upstreams)
        ports.clients.connect(_clients)
        ports.shelf.connect(_shelf)
        ports.finder.connect(_finder)
        ports.note_use.connect(_note_use)
        pre_migrate.connect(_before_migrate, sender=self)
        post_migrate.connect(_after_migrate, sender=self)


def _code() -> ports.Code:
    from tools_app import sources

    return sources.current()


def _upstreams() -> ports.Upstreams:
    from tools_app import upstream

    return upstream.current()


def _clients() -> ports.Clients:
    from tools_app.catalog.clients import Clients

    return Clients()


def _shelf() -> ports.Shelf:
    from tools_app.shelf.fitting import Shelf

    return hub.part(Shelf)


def _finder() -> Callable[[Caller], ports.ToolFinder]:
    from tools_app.catalog.search.finding import ToolFinder

    return ToolFinder


def _note_use() -> Callable[[int], None]:
    from tools_app import engine

    return engine.note_use


def _before_migrate(using: str, **_: Any) -> None:
    from tools_app.models import text_index, triggers

    triggers.drop_triggers(connections[using])
    text_index.make_way(connections[using])


def _after_migrate(using: str, **options: Any) -> None:
    from tools_app.governance import roles
    from tools_app.models import text_index, triggers

    triggers.create_triggers(connections[using])
    text_index.create(connections[using])
    # At a flush, all apps there are; else those that are migrated so far.
    roles.grant(using, options.get("apps", apps))
