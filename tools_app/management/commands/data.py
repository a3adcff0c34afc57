"""Show what the hub stores, and how much room there is."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.db import DatabaseError
from django.utils import timezone

from tools_app.journal import disk
from tools_app.management.hub_command import HubCommand
from tools_app.setup import inventory
from tools_app.setup.inventory import HoldingInForce


class Command(HubCommand):
    help = (
        "Show what the hub stores: tables and files, how many rows, how long, encrypted or not, personal data or not, "
        "what removes it; and how much room its disks have."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        now = timezone.now()
        with contextlib.suppress(DatabaseError):  # On a full disk, what was measured last is shown.
            disk.sample(now, at_once=True)
        volumes = disk.volumes(now)
        if as_json:
            about = {
                "holdings": [_as_dict(one) for one in inventory.holdings()],
                "volumes": [_volume_as_dict(volume) for volume in volumes],
            }
            self.stdout.write(json.dumps(about, indent=2, ensure_ascii=False))
            return
        for one in inventory.holdings():
            facts = [
                "personal" if one.holding.is_personal else "",
                one.holding.protection,
                f"kept: {_kept(one)}",
                f"removed by: {one.holding.removed_by}",
            ]
            figures = ", ".join(filter(None, (one.number, disk.size(one.size) if one.size is not None else "")))
            self.stdout.write(f"{self.style.MIGRATE_HEADING(one.place)}  {figures}".rstrip())
            self.stdout.write(f"  {one.holding.what}")
            self.stdout.write(f"  {'; '.join(filter(None, facts))}")
        self.stdout.write("")
        for volume in volumes:
            self.stdout.write(volume.words)


def _kept(one: HoldingInForce) -> str:
    return " ".join(filter(None, (one.kept, one.settings_in_words)))


def _as_dict(one: HoldingInForce) -> dict[str, Any]:
    return asdict(one.holding) | {
        "place": one.place,
        "rows": one.rows,
        "bytes": one.size,
        "settings": dict(one.settings),
        "kept": _kept(one),
    }


def _volume_as_dict(volume: disk.Volume) -> dict[str, Any]:
    names = ("host", "path", "places", "bytes", "free", "total", "growth", "days_left", "is_soon_full")
    return {name: getattr(volume, name) for name in names}
