"""Export the audit trail to files, as JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.base import conf
from tools_app.journal import trail
from tools_app.management.hub_command import REFUSED, Abort, HubCommand


class Command(HubCommand):
    help = (
        "Export what is new in the audit trail since the last export to a directory: JSON Lines, a file a day, and a "
        "cursor. Each entry is exported at least once; drop repeated lines by type and id."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "directory", nargs="?", type=Path, help="created if it is missing; default: TOOLHUB_AUDIT_DIR"
        )

    def handle(self, *args: Any, directory: Path | None, **options: Any) -> None:
        directory = directory or conf.value("TOOLHUB_AUDIT_DIR")
        if directory is None:
            raise Abort("name the directory, or set TOOLHUB_AUDIT_DIR", REFUSED)
        try:
            trail.seal()
            exported = trail.export(directory.absolute(), actor=governance.of_command().name)
        except (trail.ExportError, trail.UnsettledError) as error:
            raise Abort(str(error)) from error
        self.stdout.write(
            f"{exported.entries:,} entries exported to {directory}, up to checkpoint {exported.checkpoint}."
            if exported.entries
            else "There is nothing new."
        )
