"""Show the settings in force, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.db import DatabaseError

from tools_app.base.setting_table import with_bounds
from tools_app.management.hub_command import HubCommand
from tools_app.setup import installation, settings_in_force
from tools_app.setup.installation import Schema
from tools_app.setup.settings_in_force import GroupInForce, SettingInForce


class Command(HubCommand):
    help = "Show the settings in force: value, default and origin (environment, .env file, file). Secrets are masked."
    needs_ready = False  # Without a database, the variables of packs are left out.
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("text", nargs="?", default="", help="only settings whose name or description contains it")
        parser.add_argument("--changed", action="store_true", help="only settings that are not at their default")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, text: str, changed: bool, as_json: bool, **options: Any) -> None:
        rows = [
            (group.title, one)
            for group in _groups()
            for one in group.settings
            if text.lower() in f"{one.name} {one.help}".lower() and (one.is_changed or not changed)
        ]
        if as_json:
            items = [_as_dict(title, one) for title, one in rows]
            self.stdout.write(json.dumps(items, indent=2, ensure_ascii=False))
            return
        width = max((len(one.name) for _, one in rows), default=0)
        last_title = ""
        for title, one in rows:
            if title != last_title:
                self.stdout.write(f"{chr(10) if last_title else ''}{self.style.MIGRATE_HEADING(title)}")
                last_title = title
            self.stdout.write(f"  {one.name.ljust(width)}  {_in_words(one)}".rstrip())


def _groups() -> Iterator[GroupInForce]:
    yield from settings_in_force.settings_of_hub()
    try:
        if installation.schema() is Schema.CURRENT:
            yield from settings_in_force.variables_of_packs()
    except (installation.NotReady, DatabaseError):
        return


def _as_dict(title: str, one: SettingInForce) -> dict[str, str]:
    return {
        "name": one.name,
        "group": title,
        "value": one.value,
        "default": one.default,
        "origin": one.origin.value,
        "variable": one.variable,
        "help": with_bounds(one.help, one.bounds),
    }


def _in_words(one: SettingInForce) -> str:
    value = one.value or "-"
    if not one.is_changed:
        return value
    source = f"{one.origin}: {one.variable}" if one.variable != one.name and one.variable else str(one.origin)
    return f"{value}   ({source}; default: {one.default or '-'})"
