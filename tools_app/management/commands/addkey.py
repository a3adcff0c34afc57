"""Create an API key."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app import governance
from tools_app.management.hub_command import HubCommand, add_connection_option
from tools_app.models import ApiKey
from tools_app.models.keys import after
from tools_app.sdk.reach import ENVIRONMENT

_DAYS: Final = re.compile(r"([1-9][0-9]{0,4})d")
_RATE: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Command(HubCommand):
    help = "Create an API key. It is printed alone on the last line and never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use the key")
        parser.add_argument(
            "--scope",
            action="append",
            dest="scopes",
            metavar="SCOPE",
            help=f"repeatable: {', '.join(governance.SCOPES)}; default: list, read and execute",
        )
        parser.add_argument(
            "--toolset",
            action="append",
            dest="toolsets",
            default=[],
            metavar="NAME",
            help="limit the key to this toolset; repeatable",
        )
        add_connection_option(parser)
        parser.add_argument("--read-only", action="store_true", help="only read-only tools")
        parser.add_argument("--no-destructive", action="store_true", help="no destructive tools")
        parser.add_argument(
            "--ask", choices=("writes", "destroys"), help="require approval for all writing or only destructive calls"
        )
        parser.add_argument(
            "--rate", type=_rate, metavar="REQUESTS/SECONDS", help="like 100/60 for 100 a minute; default: the hub's"
        )
        parser.add_argument(
            "--expires", type=_expiry, metavar="DAYS|DATE", help="30d, or 2027-01-31 (its end, UTC); default: never"
        )

    def handle(
        self,
        *args: Any,
        name: str,
        scopes: list[str] | None,
        toolsets: list[str],
        connections: list[str] | None,
        read_only: bool,
        no_destructive: bool,
        ask: str | None,
        rate: tuple[int, int] | None,
        expires: datetime | None,
        **options: Any,
    ) -> None:
        key, secret = governance.create_key(
            name,
            actor=governance.of_command(),
            scopes=scopes,
            toolsets=toolsets,
            connections=[ENVIRONMENT] if connections is None else connections,
            may_write=not read_only,
            may_destroy=not no_destructive,
            asks=ask or "",
            rate=rate,
            expires_at=expires,
        )
        self.stdout.write(f"Created key {key.name!r} for {_in_words(key)}. Copy it now, it is not stored:")
        self.stdout.write(secret)


def _in_words(key: ApiKey) -> str:
    words = ", ".join(key.scopes)
    if toolsets := ", ".join(toolset.name for toolset in key.toolsets.all()):
        words += f", in {toolsets}"
    if (names := key.connection_names) != [ENVIRONMENT]:
        words += f", through {', '.join(names)}"
    if not key.may_write:
        words += ", read-only"
    elif not key.may_destroy:
        words += ", not destructive"
    if key.asks:
        words += f", with approval of each call that {key.asks}"
    if key.expires_at is not None:
        words += f", until {key.expires_at:%Y-%m-%d %H:%M} UTC"
    return words


def _rate(text: str) -> tuple[int, int]:
    match = _RATE.fullmatch(text)
    if match is None:
        raise ArgumentTypeError("must be like 100/60: requests per seconds")
    return int(match[1]), int(match[2])


def _expiry(text: str) -> datetime:
    now = timezone.now()
    try:
        if days := _DAYS.fullmatch(text):
            return now + timedelta(days=int(days[1]))
        expiry = after(date.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError("must be like 30d, or a day like 2027-01-31") from error
    if expiry <= now:
        raise ArgumentTypeError("that day is in the past")
    return expiry
