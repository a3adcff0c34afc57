"""Anonymise a caller in the records."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.governance import callers
from tools_app.journal import retention
from tools_app.management.hub_command import REFUSED, Abort, HubCommand, confirms


class Command(HubCommand):
    help = (
        "Anonymise a caller in the records: delete names, arguments, answers and error texts, keep the figures. "
        "Entries of the audit trail lose the name, and still prove themselves. Cannot be undone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "caller", help="an id as a call shows it (key:3, user:1, local:alice), or a key's or user's name"
        )
        parser.add_argument("--reason", default="", help="recorded in the audit trail")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, caller: str, reason: str, yes: bool, **options: Any) -> None:
        caller_id = retention.identified(caller)
        self._show(f"Records of {caller_id}:", retention.remembered(caller_id))
        if not yes:
            if not sys.stdin.isatty():
                raise Abort("this cannot be undone; without a terminal to confirm, add --yes", REFUSED)
            if not confirms(f"Forget {caller_id}? This cannot be undone. [y/N] "):
                raise Abort("nothing was changed")
        counts = callers.forget_caller(caller_id, actor=governance.of_command(), reason=reason)
        self._show("Forgotten:", counts)

    def _show(self, heading: str, rows: retention.Forgotten) -> None:
        self.stdout.write(heading)
        for kind, count in asdict(rows).items():
            self.stdout.write(f"  {kind.replace('_', ' '):<18}{count:>12,}")
