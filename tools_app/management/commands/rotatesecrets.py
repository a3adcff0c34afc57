"""Re-encrypt stored secrets with the first key of TOOLHUB_ENCRYPTION_KEY."""

from __future__ import annotations

from typing import Any

from tools_app import governance
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = (
        "Re-encrypt every stored secret with the first key of TOOLHUB_ENCRYPTION_KEY, so that the others can go. "
        "Can be repeated. Exits with 1 if something cannot be decrypted with any of them."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        rotation = governance.rotate_secrets(actor=governance.of_command())
        self.stdout.write(f"{rotation.rotated} re-encrypted, {rotation.current} already current.")
        for name in rotation.unreadable:
            self.stderr.write(f"toolhub: cannot be decrypted with any key: {name}")
        if rotation.unreadable:
            raise SystemExit(1)
