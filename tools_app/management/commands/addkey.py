"""Make an API key."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = "Make an API key. The key stands alone on the last line and is never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use the key")
        parser.add_argument("--scope", action="append", dest="scopes", metavar="SCOPE", help="may be repeated")

    def handle(self, *args: Any, name: str, scopes: list[str] | None, **options: Any) -> None:
        key, secret = governance.create_key(name, actor=f"command:{getpass.getuser()}", scopes=scopes)
        self.stdout.write(f"Key {key.name!r} may use {', '.join(key.scopes)}. Keep it now, it is not stored:")
        self.stdout.write(secret)
