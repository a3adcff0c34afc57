"""Stop the hub, a pack, a connection or a key."""

from __future__ import annotations

import shlex
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.governance.stops import KINDS
from tools_app.management.hub_command import HubCommand
from tools_app.models import Stop


class Command(HubCommand):
    help = "Stop the hub, a pack, a connection or a key: refuse further calls. Without arguments, list what is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", nargs="?", choices=[kind for kind in KINDS if kind != Stop.Kind.WRITES])
        parser.add_argument("name", nargs="?", default="", help="of the pack, connection or key")
        parser.add_argument("--reason", default="", help="shown to callers, and recorded in the audit trail")

    def handle(self, *args: Any, kind: str | None, name: str, reason: str, **options: Any) -> None:
        if kind is None:
            for entry in Stop.objects.active():
                target = shlex.join(filter(None, (entry.kind, entry.name)))
                since = f"{entry.since:%Y-%m-%d %H:%M} UTC by {entry.by}"
                self.stdout.write(f"{target}: since {since}. {entry.reason}".rstrip())
            if not Stop.objects.active().exists():
                self.stdout.write("Nothing is stopped.")
            return
        target = shlex.join(filter(None, (kind, name)))
        if governance.stop(kind, name, actor=governance.of_command(), reason=reason):
            self.stdout.write(f"{target} is stopped. Calls are refused until you run `toolhub resume {target}`.")
        else:
            self.stdout.write(f"{target} is already stopped.")
