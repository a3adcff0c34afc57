"""End an API key."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import key_argument
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = "Revoke an API key: it is refused from the next request on, and cannot be brought back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="NAME|PREFIX", help=key_argument.HELP)
        parser.add_argument("--reason", default="", help="why; it stands in the audit trail")

    def handle(self, *args: Any, key: str, reason: str, **options: Any) -> None:
        found = key_argument.found(key)
        if governance.revoke_key(found, actor=f"command:{getpass.getuser()}", reason=reason):
            self.stdout.write(f"{found.name} is revoked; the next request with it is refused.")
        else:
            self.stdout.write(f"{found.name} was revoked already.")
