"""Delete records beyond their retention. A running hub does it every hour."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app.journal import retention
from tools_app.management.hub_command import REFUSED, Abort, HubCommand


class Command(HubCommand):
    help = "Delete records beyond the limits in TOOLHUB_KEEP_…. A running hub does it every hour."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count what would be deleted")
        parser.add_argument(
            "--trust-clock",
            action="store_true",
            help="prune even though the latest record is old: the clock is right, the hub was not running",
        )

    def handle(self, *args: Any, dry_run: bool, trust_clock: bool, **options: Any) -> None:
        now = timezone.now()
        if (leap := retention.leap(now)) is not None and not trust_clock:
            raise Abort(f"{leap}; {retention.CURE}", REFUSED)
        if not dry_run:
            retention.believe(now)
        deletions = retention.prunable(now) if dry_run else retention.prune(now)
        self.stdout.write("Would be deleted:" if dry_run else "Deleted:")
        for kind, count in deletions.counts.items():
            self.stdout.write(f"  {kind:<18}{count:>12,}")
