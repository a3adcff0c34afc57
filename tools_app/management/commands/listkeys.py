"""List the API keys; never a key itself."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app.journal.budgets import limits
from tools_app.management import budget_argument
from tools_app.management.hub_command import HubCommand
from tools_app.management.tables import aligned
from tools_app.models import ApiKey


class Command(HubCommand):
    help = "List the API keys with owner, permissions and last use. A key itself cannot be shown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        now = timezone.now()
        rows = list(ApiKey.objects.with_stops().select_related("owner").prefetch_related("toolsets", "connections"))
        budgets = limits({f"key:{key.pk}": key.budget for key in rows}, now)
        keys = [{**_as_dict(key, now), "budget": budget_argument.as_json(budgets[f"key:{key.pk}"])} for key in rows]
        if as_json:
            self.stdout.write(json.dumps(keys, indent=2, ensure_ascii=False))
        elif not keys:
            self.stdout.write("No keys. `toolhub addkey NAME` creates one.")
        else:
            for line in _table(keys):
                self.stdout.write(line)


def _as_dict(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "name": key.name,
        "caller": f"key:{key.pk}",
        "prefix": key.prefix,
        "previousPrefix": key.previous_prefix if key.previous_works(now) else None,
        "previousUntil": key.previous_until.isoformat() if key.previous_until and key.previous_works(now) else None,
        "state": key.state(now),
        "owner": key.owner.get_username() if key.owner else None,
        "scopes": key.scopes,
        "toolsets": [toolset.name for toolset in key.toolsets.all()],
        "connections": key.connection_names,
        "mayWrite": key.may_write,
        "mayDestroy": key.may_destroy,
        "rateLimit": {"max": key.rate.most, "seconds": key.rate.seconds} if key.rate else None,
        "addresses": key.addresses,
        "expiresAt": key.expires_at and key.expires_at.isoformat(),
        "lastUsedAt": key.last_used_at and key.last_used_at.isoformat(),
    }


def _table(keys: list[dict[str, Any]]) -> list[str]:
    rows = [
        (
            "NAME",
            "CALLER",
            "PREFIX",
            "STATE",
            "OWNER",
            "SCOPES",
            "TOOLSETS",
            "CONNECTIONS",
            "ACCESS",
            "BUDGET",
            "EXPIRES",
            "LAST USED",
        )
    ]
    for key in keys:
        access = "all" if key["mayDestroy"] else "read, write" if key["mayWrite"] else "read"
        prefixes = "+".join(filter(None, (key["prefix"], key["previousPrefix"])))
        row = (key["name"], key["caller"], prefixes, key["state"], key["owner"] or "-", " ".join(key["scopes"]))
        budget = f"{max(limit['percent'] for limit in key['budget'])}%" if key["budget"] else "-"
        times = (_minute(key["expiresAt"]), _minute(key["lastUsedAt"]))
        reach = (" ".join(key["toolsets"]) or "all", " ".join(key["connections"]) or "none", access)
        rows.append((*row, *reach, budget, *times))
    return aligned(rows)


def _minute(time: str | None) -> str:
    return f"{time[:10]} {time[11:16]}" if time else "never"
