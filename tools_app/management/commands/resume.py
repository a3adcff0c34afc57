"""Resume what was stopped."""

from __future__ import annotations

import shlex
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.governance.stops import KINDS
from tools_app.management.hub_command import HubCommand
from tools_app.models import Stop


class Command(HubCommand):
    help = "Resume the hub, a pack, a connection or a key that was stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=[kind for kind in KINDS if kind != Stop.Kind.WRITES])
        parser.add_argument("name", nargs="?", default="", help="of the pack, connection or key")
        parser.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, kind: str, name: str, reason: str, **options: Any) -> None:
        target = shlex.join(filter(None, (kind, name)))
        if governance.resume(kind, name, actor=governance.of_command(), reason=reason):
            self.stdout.write(f"{target} is resumed. Calls are accepted from now on.")
        else:
            self.stdout.write(f"{target} was not stopped.")
