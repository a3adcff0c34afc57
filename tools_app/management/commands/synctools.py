"""Update the records of tools from the loaded tools. `serve` does it at every start."""

from __future__ import annotations

from typing import Any

from tools_app.management.hub_command import HubCommand
from tools_app.setup import installation
from tools_app.sources import sync


class Command(HubCommand):
    help = "Register new, changed and removed tools. Running servers and agents are notified at once."
    needs_ready = False

    def handle(self, *args: Any, **options: Any) -> None:
        report = installation.require_ready(self.tell, records=False) or sync.sync()
        self.stdout.write(f"{report}")
        for problem in sync.problems():
            self.stderr.write(f"failed to load: {problem}")
