"""Replace the secret of an API key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import key_argument
from tools_app.management.hub_command import HubCommand

_MOST_HOURS: Final = int(governance.LONGEST_GRACE / timedelta(hours=1))


class Command(HubCommand):
    help = "Replace the secret of an API key. The new one is printed alone on the last line and never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="NAME|PREFIX", help=key_argument.HELP)
        parser.add_argument(
            "--grace",
            type=int,
            choices=range(_MOST_HOURS + 1),
            default=0,
            metavar="HOURS",
            help=f"how long the current secret stays valid, up to {_MOST_HOURS} hours; default: not at all",
        )
        parser.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, key: str, grace: int, reason: str, **options: Any) -> None:
        api_key = key_argument.find(key)
        secret = governance.rotate_key(
            api_key, grace=timedelta(hours=grace), actor=governance.of_command(), reason=reason
        )
        until = api_key.previous_until
        previous = f"stays valid until {until:%Y-%m-%d %H:%M} UTC" if until else "is no longer valid"
        self.stdout.write(f"{api_key.name} has a new secret, copy it now. The previous one {previous}.")
        self.stdout.write(secret)
