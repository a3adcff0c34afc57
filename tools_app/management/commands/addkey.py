"""Create an API key, or those of a file."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from tools_app import governance
from tools_app.management import budget_argument, key_file
from tools_app.management.hub_command import REFUSED, Abort, HubCommand, add_connection_option
from tools_app.models import ApiKey
from tools_app.models.keys import after
from tools_app.sdk.errors import ToolError
from tools_app.sdk.reach import ENVIRONMENT

_DAYS: Final = re.compile(r"([1-9][0-9]{0,4})d")
_RATE: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Command(HubCommand):
    help = (
        "Create an API key. It is printed alone on the last line and never shown again. With --from, create all keys "
        "of a CSV file, or none of them, and print them as CSV."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", default="", help="who or what will use the key")
        parser.add_argument(
            "--from",
            default="",
            dest="file",
            metavar="FILE",
            help=f"CSV (- reads stdin) with the columns {', '.join(key_file.COLUMNS)}, of which only name is required; "
            "several values are separated by spaces",
        )
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
            "--rate", type=rate, metavar="REQUESTS/SECONDS", help="like 100/60 for 100 a minute; default: the hub's"
        )
        budget_argument.add(parser)
        parser.add_argument(
            "--address",
            action="append",
            dest="addresses",
            default=[],
            metavar="IP|NETWORK",
            help="only from this address or network, like 10.0.0.0/8; repeatable; default: from any",
        )
        parser.add_argument(
            "--expires", type=expiry, metavar="DAYS|DATE", help="30d, or 2027-01-31 (its end, UTC); default: never"
        )

    def handle(self, *args: Any, name: str, file: str, **options: Any) -> None:
        if bool(name) == bool(file):
            raise Abort("give the name of a key, or --from FILE", REFUSED)
        if not file:
            key, secret = _created(name, options)
            self.stdout.write(f"Created key {key.name!r} for {_in_words(key)}. Copy it now, it is not stored:")
            self.stdout.write(secret)
            return
        if any(options[part] for part in _PARTS):
            raise Abort("the rights of the keys are columns of the file, not options", REFUSED)
        parser = self.create_parser("toolhub", "addkey")
        parser.called_from_command_line = False
        made = []
        with transaction.atomic():
            for line, row in key_file.rows(file):
                try:
                    given = vars(parser.parse_args(key_file.words(row)))
                    made.append((row["name"], _created(given["name"], given)[1]))
                except (CommandError, ValueError) as error:
                    words = str(error).removeprefix("Error: ")
                    raise Abort(f"line {line} of {file}: {words}. No key is created", REFUSED) from error
                except ToolError as error:
                    raise Abort(f"line {line} of {file}: {error.message}. No key is created") from error
        self.stdout.write(key_file.written(made), ending="")


_PARTS: Final = (
    "scopes",
    "toolsets",
    "connections",
    "read_only",
    "no_destructive",
    "ask",
    "rate",
    "budget",
    "addresses",
    "expires",
)


def _created(name: str, options: Mapping[str, Any]) -> tuple[ApiKey, str]:
    return governance.create_key(
        name,
        actor=governance.of_command(),
        scopes=options["scopes"],
        toolsets=options["toolsets"],
        connections=[ENVIRONMENT] if options["connections"] is None else options["connections"],
        may_write=not options["read_only"],
        may_destroy=not options["no_destructive"],
        asks=options["ask"] or "",
        rate=options["rate"],
        budget=budget_argument.budget(options["budget"]),
        addresses=options["addresses"],
        expires_at=options["expires"],
    )


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
    if key.addresses:
        words += f", only from {', '.join(key.addresses)}"
    if key.expires_at is not None:
        words += f", until {key.expires_at:%Y-%m-%d %H:%M} UTC"
    return words


def rate(text: str) -> tuple[int, int]:
    match = _RATE.fullmatch(text)
    if match is None:
        raise ArgumentTypeError("must be like 100/60: requests per seconds")
    return int(match[1]), int(match[2])


def expiry(text: str) -> datetime:
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
