"""Encrypt what is stored secretly under the first key of TOOLHUB_ENCRYPTION_KEY."""

from __future__ import annotations

import getpass
from typing import Any

from tools_app import governance
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = (
        "Encrypt every stored secret under the first key of TOOLHUB_ENCRYPTION_KEY; the others can be taken out then. "
        "Can be repeated. Ends with 1 when something cannot be read under any of them."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        done = governance.rotate_secrets(actor=f"command:{getpass.getuser()}")
        self.stdout.write(f"{done.rotated} rotated, {done.current} were under the first key already.")
        for name in done.unreadable:
            self.stderr.write(f"toolhub: cannot be read under any of the keys: {name}")
        if done.unreadable:
            raise SystemExit(1)
