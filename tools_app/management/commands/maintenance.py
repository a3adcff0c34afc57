"""Begin and end maintenance: tools that only read can be called, others are refused."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, timedelta
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management.hub_command import HubCommand
from tools_app.models import Stop

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is no duration such as 30m, 2h or 1d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


class Command(HubCommand):
    help = (
        "Maintenance: tools that only read can be called, calls of all others are refused with MAINTENANCE, to be "
        "repeated later. Without arguments, say whether it is on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("wanted", nargs="?", choices=("on", "off"))
        parser.add_argument("--reason", default="", help="shown to callers, and recorded in the audit trail")
        parser.add_argument(
            "--for", dest="duration", type=duration, metavar="30m|2h|1d", help="default: until it is ended"
        )

    def handle(self, *args: Any, wanted: str | None, reason: str, duration: timedelta | None, **options: Any) -> None:
        match wanted:
            case "on":
                actor = governance.of_command()
                changed = governance.stop(Stop.Kind.WRITES, actor=actor, reason=reason, duration=duration)
                self.stdout.write(self._state() if changed else f"Nothing was changed. {self._state()}")
            case "off":
                changed = governance.resume(Stop.Kind.WRITES, actor=governance.of_command(), reason=reason)
                self.stdout.write("Maintenance has ended." if changed else self._state())
            case _:
                self.stdout.write(self._state())

    def _state(self) -> str:
        stop = Stop.objects.active().filter(kind=Stop.Kind.WRITES).first()
        if stop is None:
            return "The hub is not in maintenance."
        end = (
            f"until {stop.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            if stop.until
            else "until `toolhub maintenance off`"
        )
        since = f"since {stop.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"The hub is in maintenance {since}, by {stop.by}, {end}. {stop.reason}".rstrip()
