"""Give an API key another secret."""

from __future__ import annotations

import getpass
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import key_argument
from tools_app.management.hub_command import HubCommand

_MOST_HOURS: Final = int(governance.LONGEST_GRACE / timedelta(hours=1))


class Command(HubCommand):
    help = "Give an API key another secret, which stands alone on the last line and is never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="NAME|PREFIX", help=key_argument.HELP)
        parser.add_argument(
            "--grace",
            type=int,
            choices=range(_MOST_HOURS + 1),
            default=0,
            metavar="HOURS",
            help=f"so long the secret of now goes on working, up to {_MOST_HOURS} hours; without it, not at all",
        )
        parser.add_argument("--reason", default="", help="why; it stands in the audit trail")

    def handle(self, *args: Any, key: str, grace: int, reason: str, **options: Any) -> None:
        found = key_argument.found(key)
        secret = governance.rotate_key(
            found, grace=timedelta(hours=grace), actor=f"command:{getpass.getuser()}", reason=reason
        )
        before = f"works until {found.previous_until:%Y-%m-%d %H:%M} UTC" if found.previous_until else "is refused now"
        self.stdout.write(f"{found.name} has another secret, the one before {before}. Keep it, it is not stored:")
        self.stdout.write(secret)
