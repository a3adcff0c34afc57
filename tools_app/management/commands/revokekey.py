"""End an API key."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from tools_app import governance, secrets
from tools_app.management.hub_command import HubCommand, Stop
from tools_app.models import ApiKey


class Command(HubCommand):
    help = "Revoke an API key: it is refused from the next request on, and cannot be brought back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="NAME|PREFIX", help="its name, or the start of the key as listkeys shows it")
        parser.add_argument("--reason", default="", help="why; it stands in the audit trail")

    def handle(self, *args: Any, key: str, reason: str, **options: Any) -> None:
        found = ApiKey.objects.filter(Q(name=key) | Q(prefix=secrets.prefix_in(key)))[:2]
        if not found:
            raise Stop(f"there is no key {key[:100]!r}; `toolhub listkeys` shows which there are")
        if len(found) > 1:
            raise Stop(f"{key!r} is the name of one key and the start of another; give the other's name or prefix")
        if governance.revoke_key(found[0], actor=f"command:{getpass.getuser()}", reason=reason):
            self.stdout.write(f"{found[0].name} is revoked; the next request with it is refused.")
        else:
            self.stdout.write(f"{found[0].name} was revoked already.")
