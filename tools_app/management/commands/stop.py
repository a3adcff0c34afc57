"""Stop the hub, a pack, a connection or a key."""

from __future__ import annotations

import getpass
import shlex
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.governance.stops import KINDS
from tools_app.management.hub_command import HubCommand
from tools_app.models import Stop


class Command(HubCommand):
    help = "Refuse every call of the hub, a pack, a connection or a key from the next one on. Alone: what is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", nargs="?", choices=KINDS)
        parser.add_argument("name", nargs="?", default="", help="of the pack, connection or key")
        parser.add_argument("--reason", default="", help="why; callers are told it, and it stands in the audit trail")

    def handle(self, *args: Any, kind: str | None, name: str, reason: str, **options: Any) -> None:
        if kind is None:
            for held in Stop.objects.all():
                by = f"since {held.since:%Y-%m-%d %H:%M} UTC by {held.by}"
                self.stdout.write(f"{shlex.join(filter(None, (held.kind, held.name)))}: {by}. {held.reason}".rstrip())
            if not Stop.objects.exists():
                self.stdout.write("Nothing is stopped.")
            return
        said = shlex.join(filter(None, (kind, name)))
        if governance.stop(kind, name, actor=f"command:{getpass.getuser()}", reason=reason):
            self.stdout.write(f"{said} is stopped; the next call is refused. `toolhub resume {said}` ends that.")
        else:
            self.stdout.write(f"{said} was stopped already.")
