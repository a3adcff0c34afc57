"""Revoke an API key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import key_argument
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = "Revoke an API key: it is refused from the next request on. Cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="NAME|PREFIX", help=key_argument.HELP)
        parser.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, key: str, reason: str, **options: Any) -> None:
        api_key = key_argument.find(key)
        if governance.revoke_key(api_key, actor=governance.of_command(), reason=reason):
            self.stdout.write(f"{api_key.name} is revoked. Requests with it are refused from now on.")
        else:
            self.stdout.write(f"{api_key.name} is already revoked.")
