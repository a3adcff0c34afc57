"""Verify that nothing but the hub has changed the audit trail."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from tools_app.journal import trail
from tools_app.management.hub_command import HubCommand

ADVICE = (
    "Something other than ToolHub has changed the database, or seals cannot be read. Keep a copy of the database, "
    "compare this entry with exports, logs and backups, and see who can write to the database."
)


class Command(HubCommand):
    help = (
        "Verify the seals of the audit trail. Exits with 1 if an entry was changed, deleted, added or moved by "
        "something other than the hub, and names the first one. Entries that are not sealed yet are only counted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--checkpoint", default="", metavar="NUMBER:HEAD",
            help="a checkpoint from a log or an export: verify as well that nothing up to it was cut off",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, checkpoint: str, json: bool, **options: Any) -> None:
        report = trail.verify(checkpoint.strip())
        if json:
            self.stdout.write(_json(report))
        else:
            self._print(report)
        if report.faults:
            raise SystemExit(1)

    def _print(self, report: trail.Report) -> None:
        if report.first is not None:
            self.stderr.write(f"toolhub: {report.first} (problems: {report.faults})")
            self.stderr.write(f"toolhub: {ADVICE}")
        words = "could not be verified" if report.faults else "verified"
        self.stdout.write(
            f"The audit trail {words}: {report.entries:,} entries, {report.redacted:,} of them redacted; "
            f"{report.deleted:,} deleted by retention; {report.checkpoints:,} checkpoints."
        )
        if report.before:
            self.stdout.write(
                f"{report.before:,} entries are older than the seals, which prove that they have not changed since."
            )
        if report.unsealed:
            self.stdout.write(f"{report.unsealed:,} entries are not sealed yet: a running hub seals them every minute.")
        if report.newest:
            self.stdout.write(f"Newest checkpoint: {report.newest}")


def _json(report: trail.Report) -> str:
    first = report.first and {"entry": report.first.entry, "problem": report.first.text}
    return json.dumps({"verified": not report.faults, **asdict(report), "first": first})
