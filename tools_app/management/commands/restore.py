"""Restore a hub from a backup."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management.commands.backup import require_own_site
from tools_app.management.commands.doctor import diagnoses
from tools_app.management.hub_command import Abort, HubCommand
from tools_app.management.private_state import keep_private
from tools_app.setup.backup import archive, restoring
from tools_app.setup.backup.errors import BackupError
from tools_app.setup.backup.restoring import Restored, Wishes

MOST_NAMED = 10


class Command(HubCommand):
    help = (
        "Restore a backup into an empty home, or replace what is there. Everything is compared with the backup first; "
        "if anything is wrong, the present state is unchanged. Sessions and open approvals end; API keys are off until "
        "you resume them. Exits with 0 if `toolhub doctor` finds no problem then, 1 if it does, 2 if nothing was "
        "restored."
    )
    needs_ready = False
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file that `toolhub backup` has made")
        parser.add_argument(
            "--replace", action="store_true", help="replace the present database, which is kept under another name"
        )
        parser.add_argument(
            "--keys-as-of-backup",
            action="store_true",
            help="leave API keys on that were valid in the backup; keys that the replaced database knows as revoked "
            "stay revoked",
        )
        parser.add_argument(
            "--accept-unreadable-secrets",
            action="store_true",
            help="restore even if stored secrets cannot be decrypted; they have to be set again",
        )

    def handle(
        self,
        *args: Any,
        file: Path,
        replace: bool,
        keys_as_of_backup: bool,
        accept_unreadable_secrets: bool,
        **options: Any,
    ) -> None:
        require_own_site("restore")
        keep_private()
        wishes = Wishes(replace, keys_as_of_backup, accept_unreadable_secrets)
        try:
            self._ask_for_passphrase(file)
            restored = restoring.restore(file.absolute(), wishes, governance.of_command(), self.tell)
        except BackupError as error:
            raise Abort(f"{error}. Nothing was changed.", 2) from error
        self._report(restored, keys_as_of_backup=keys_as_of_backup)
        bad = [diagnosis for diagnosis in diagnoses() if not diagnosis.is_good]
        for diagnosis in bad:
            self.stdout.write(f"!! {diagnosis.text}")
            if diagnosis.advice:
                self.stdout.write(f"    {diagnosis.advice}")
        self.stdout.write(f"Restored; `toolhub doctor` finds {len(bad)} problems." if bad else "Restored; no problems.")
        if bad:
            raise SystemExit(1)

    def _ask_for_passphrase(self, file: Path) -> None:
        if not settings.TOOLHUB_BACKUP_PASSPHRASE and sys.stdin.isatty() and archive.read(file).seal.box:
            settings.TOOLHUB_BACKUP_PASSPHRASE = getpass.getpass(
                "Passphrase of the backup (empty: this hub has its keys): "
            )

    def _report(self, restored: Restored, *, keys_as_of_backup: bool) -> None:
        manifest, settled = restored.manifest, restored.settled
        rows = sum(table.rows for table in manifest.tables.values())
        out = self.stdout.write
        out(f"Backup of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC by ToolHub {manifest.hub_version}.")
        out(f"{rows:,} rows in {len(manifest.tables)} tables, all as in the manifest; every secret was decrypted.")
        out(f"Ended: {settled.sessions} sessions, {settled.approvals} open approvals.")
        if settled.keys_revoked:
            out(f"Revoked since the backup, and still revoked: {_named(settled.keys_revoked)}.")
        if settled.keys_off:
            out(f"API keys that are off: {_named(settled.keys_off)}.")
            out("  Turn on those in use with `toolhub resume key NAME`, revoke others with `toolhub revokekey NAME`.")
        elif keys_as_of_backup:
            out("API keys are as in the backup: revoke those that were revoked since.")
        out("Users and passwords are as in the backup: check them in the admin.")
        for note in restored.notes:
            out(note)
        if restored.kept:
            out(f"The database of before is kept as {restored.kept}. Delete it when you no longer need it.")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
