"""Delete what has been kept long enough. A running hub does it by itself, every hour."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app.journal import retention
from tools_app.management.hub_command import REFUSED, HubCommand, Stop


class Command(HubCommand):
    help = "Delete what is older, or more, than the settings TOOLHUB_KEEP_… allow. A running hub does it every hour."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")

        parser.add_argument(
            "--trust-clock",
            action="store_true",
            help="delete although nothing is on record for long before now: the clock is right, the hub did not run",
        )

    def handle(self, *args: Any, dry_run: bool, trust_clock: bool, **options: Any) -> None:
        now = timezone.now()
        if (leap := retention.leap(now)) is not None and not trust_clock:
            raise Stop(f"{leap}; {retention.CURE}", REFUSED)
        if not dry_run:
            retention.believe(now)
        pruned = retention.prunable(now) if dry_run else retention.prune(now)
        self.stdout.write("Would be deleted:" if dry_run else "Deleted:")
        for kind, count in pruned.counts.items():
            self.stdout.write(f"  {kind:<18}{count:>12,}")
