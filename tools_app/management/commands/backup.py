"""Back up the hub into one file, while it is serving."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.base import conf, setting_origins
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.setup import installation
from tools_app.setup.backup import making
from tools_app.setup.backup.errors import BackupError
from tools_app.setup.installation import Schema


class Command(HubCommand):
    help = (
        "Back up database and keys into one file, also while the hub is serving, and read it back. The keys are in it "
        "if TOOLHUB_BACKUP_PASSPHRASE is set. The file has everything that callers sent: keep it private."
    )
    needs_ready = False  # It must not create a database.
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", nargs="?", type=Path, help="a new file; default: in TOOLHUB_BACKUP_DIR, or backups/ of the home"
        )
        parser.add_argument(
            "--scheduled", action="store_true", help="as a running hub does it: also delete scheduled backups beyond "
            "TOOLHUB_BACKUP_KEEP",
        )  # fmt: skip

    def handle(self, *args: Any, file: Path | None, scheduled: bool, **options: Any) -> None:
        require_own_site("backup")
        if installation.schema() is Schema.EMPTY:
            raise Abort("there is nothing to back up: this hub is not set up yet", REFUSED)
        # Unfinished files are deleted at the end.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        if scheduled:
            making.lower_priority()
        actor = governance.trusted("hub") if scheduled else governance.of_command()
        try:
            target = file or making.folder() / making.file_name(is_scheduled=scheduled)
            backup = making.make(target.absolute(), actor)
        except BackupError as error:
            raise Abort(str(error), 1) from error
        if scheduled:
            making.rotate(target.parent, conf.value("TOOLHUB_BACKUP_KEEP"))
        manifest = backup.manifest
        rows = sum(table.rows for table in manifest.tables.values())
        if manifest.keys == "left out" and not scheduled:
            self.tell(
                "toolhub: the keys are not in it, and without them it cannot be restored. Keep `secret_key` and "
                "`encryption_key` of the home (or SECRET_KEY and TOOLHUB_ENCRYPTION_KEY) elsewhere, or set "
                "TOOLHUB_BACKUP_PASSPHRASE."
            )
        self.stdout.write(
            f"{backup.path}: {rows:,} rows in {len(manifest.tables)} tables, {backup.bytes:,} bytes, keys "
            f"{manifest.keys}; read back and found good."
        )


def require_own_site(command: str) -> None:
    """Raises: Abort: the hub is part of another project, whose database has other tables, too."""
    if not setting_origins.is_site():
        raise Abort(f"{command}: for ToolHub's own site; back up this project as a whole", REFUSED)
