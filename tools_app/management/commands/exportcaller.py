"""Export what is recorded of a person or key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.governance import callers
from tools_app.management.hub_command import REFUSED, Abort, HubCommand


class Command(HubCommand):
    help = (
        "Export what is recorded of a caller as JSON Lines: the rows that `forget` would change or delete, and which "
        "tools it called. Secrets are masked. Recorded in the audit trail."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "caller", help="an id as a call shows it (key:3, user:1, local:alice), or a key's or user's name"
        )
        parser.add_argument("--output", metavar="FILE", help="a new file, which only you can read; default: stdout")
        parser.add_argument("--no-payloads", action="store_true", help="leave out arguments and answers")
        parser.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(
        self, *args: Any, caller: str, output: str | None, no_payloads: bool, reason: str, **options: Any
    ) -> None:
        lines = callers.export_caller(caller, actor=governance.of_command(), payloads=not no_payloads, reason=reason)
        if output is None:
            for text in lines:
                self.stdout.write(text, ending="")
            return
        try:
            with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            raise Abort(f"cannot write {output}: {error.strerror}", REFUSED) from error
        self.tell(f"Exported to {Path(output).absolute()}")
