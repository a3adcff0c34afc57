"""List, grant and revoke standing approvals."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any, Final

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app import governance
from tools_app.admin import standing_words
from tools_app.governance import disclosure
from tools_app.governance.standing import MOST_BYTES, in_state, state_of
from tools_app.management.commands.maintenance import duration
from tools_app.management.hub_command import REFUSED, Abort, HubCommand, confirms
from tools_app.management.tables import aligned
from tools_app.models import Approval, StandingApproval
from tools_app.sdk.errors import NotFoundError

MOST_OF_ARGUMENTS: Final = 200


class Command(HubCommand):
    help = "Standing approvals: calls approved in advance, of one caller and version of a tool, within limits."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = "List standing approvals: those that are active, or all."
        one = verbs.add_parser("list", help=listing, description=listing)
        one.add_argument("--all", action="store_true", dest="shows_all", help="also those that are not active any more")
        one.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
        calls = "List the calls that wait for approval, with their ids."
        verbs.add_parser("calls", help=calls, description=calls)
        granting = "Approve calls like one that waits for approval. Arguments that are not named have to be the same."
        grant = verbs.add_parser("grant", help=granting, description=granting)
        grant.add_argument("id", help="of the approval, as `standing calls` and the caller's error show it")
        grant.add_argument("--uses", type=int, required=True, metavar="NUMBER", help="how many calls are covered")
        grant.add_argument(
            "--for", type=duration, required=True, dest="lasts", metavar="30m|8h|7d", help="how long it is valid"
        )
        grant.add_argument(
            "--any", action="append", default=[], dest="free", metavar="ARGUMENT", help="any value; repeatable"
        )
        grant.add_argument(
            "--one-of",
            action="append",
            default=[],
            type=_named,
            dest="values",
            metavar="ARGUMENT=VALUE",
            help="this value, beside others that are named so; JSON, except for texts; repeatable",
        )
        grant.add_argument(
            "--range",
            action="append",
            default=[],
            type=_range,
            dest="ranges",
            metavar="ARGUMENT=FROM..TO",
            help="a number within bounds, of which one can be left out; repeatable",
        )
        grant.add_argument("--reason", default="", help="recorded in the audit trail")
        grant.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        revoking = "Revoke standing approvals: from the next call on, each needs an approval of its own."
        revoke = verbs.add_parser("revoke", help=revoking, description=revoking)
        revoke.add_argument("ids", nargs="+", metavar="ID", help="as `standing list` shows it")
        revoke.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "list":
                self._list(shows_all=options["shows_all"], as_json=options["as_json"])
            case "calls":
                self._calls()
            case "grant":
                self._grant(options["id"], **options)
            case _:
                for standing_id in options["ids"]:
                    self._revoke(standing_id, options["reason"])

    def _list(self, *, shows_all: bool, as_json: bool) -> None:
        now = timezone.now()
        rows = StandingApproval.objects.with_address()
        rows = rows if shows_all else rows.filter(in_state(StandingApproval.State.ACTIVE, now))
        found = [_as_dict(standing, now) for standing in rows]
        if as_json:
            self.stdout.write(json.dumps(found, indent=2, ensure_ascii=False))
            return
        if not found:
            self.stdout.write("No standing approvals. `toolhub standing calls` lists calls from which one is granted.")
            return
        table = [("ID", "STATE", "TOOL", "CALLER", "CONNECTION", "USED", "EXPIRES", "BY")]
        for one in found:
            used = f"{one['used']}/{one['uses']}"
            row = (one["id"], one["state"], one["tool"], one["caller"], one["connection"] or "-", used)
            table.append((*row, _minute(one["expiresAt"]), one["createdBy"]))
        for line in aligned(table):
            self.stdout.write(line)

    def _calls(self) -> None:
        """Reading the arguments of calls is an entry of the audit trail, as in the admin."""
        waiting = list(Approval.objects.waiting(timezone.now()).order_by("expires_at"))
        if not waiting:
            self.stdout.write("No calls wait for approval.")
            return
        governance.note_arguments_read(*(approval.pk for approval in waiting), actor=governance.of_command())
        table = [("ID", "TOOL", "CALLER", "EXPIRES", "ARGUMENTS")]
        for one in waiting:
            shown = disclosure.of_approval(one)
            text = "cannot be read" if shown is None else json.dumps(shown.arguments, ensure_ascii=False)
            text = text if len(text) <= MOST_OF_ARGUMENTS else f"{text[:MOST_OF_ARGUMENTS]}…"
            caller = f"{one.caller_kind}:{one.caller_name}"
            table.append((one.pk, one.tool_name, caller, _minute(one.expires_at.isoformat()), text))
        for line in aligned(table):
            self.stdout.write(line)

    def _grant(self, approval_id: str, *, yes: bool, reason: str, **options: Any) -> None:
        approval = Approval.objects.filter(pk=approval_id).first()
        if approval is None:
            raise NotFoundError(
                f"There is no approval {approval_id[:100]!r}", next_step="`toolhub standing calls` lists them."
            )
        terms = {
            "free": options["free"],
            "limits": _limits(approval, options["values"], options["ranges"]),
            "uses": options["uses"],
            "lasts": options["lasts"],
        }
        governance.note_arguments_read(approval.pk, actor=governance.of_command())
        self.stdout.write(standing_words.sentence(governance.standing.drafted(approval, **terms)))
        if not yes:
            if not sys.stdin.isatty():
                raise Abort("without a terminal to confirm, add --yes", REFUSED)
            if not confirms("Grant it? [y/N] "):
                raise Abort("nothing was changed")
        standing = governance.grant_standing(approval.pk, **terms, actor=governance.of_command(), reason=reason)
        self.stdout.write(f"Granted. `toolhub standing revoke {standing.pk}` ends it.")

    def _revoke(self, standing_id: str, reason: str) -> None:
        if governance.revoke_standing(standing_id, actor=governance.of_command(), reason=reason):
            self.stdout.write(f"{standing_id} is revoked. Calls need an approval of their own again.")
        else:
            self.stdout.write(f"{standing_id} was not active any more.")


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError("must be like ARGUMENT=VALUE")
    return name, value


def _range(text: str) -> tuple[str, dict[str, float]]:
    name, bounds = _named(text)
    low, dots, high = bounds.partition("..")
    if not dots or not (low or high):
        raise ArgumentTypeError("must be like ARGUMENT=1..50, ARGUMENT=1.. or ARGUMENT=..50")
    try:
        limits = {"minimum": low, "maximum": high}
        return name, {bound: _number(number) for bound, number in limits.items() if number}
    except ValueError as error:
        raise ArgumentTypeError(f"{bounds!r} is not a range of numbers") from error


def _number(text: str) -> float:
    number = float(text)
    return int(text) if text.lstrip("-").isdecimal() else number


def _limits(
    approval: Approval, values: list[tuple[str, str]], ranges: list[tuple[str, dict[str, float]]]
) -> dict[str, dict[str, Any]]:
    """Raises: ValidationError."""
    arguments = approval.call_arguments() or {}
    limits: dict[str, dict[str, Any]] = {name: dict(bounds) for name, bounds in ranges}
    for name, text in values:
        allowed = limits.setdefault(name, {}).setdefault("enum", [])
        allowed.append(standing_words.value_of(name, text, arguments.get(name)))
    return limits


def _as_dict(standing: StandingApproval, now: datetime) -> dict[str, Any]:
    return {
        "id": standing.pk,
        "state": str(state_of(standing, now)),
        "tool": standing.tool_name,
        "caller": f"{standing.caller_kind}:{standing.caller_name}",
        "connection": standing.connection or None,
        "uses": standing.uses,
        "used": standing.used,
        "covers": standing_words.conditions(standing, MOST_BYTES),
        "createdAt": standing.created_at.isoformat(),
        "createdBy": standing.created_by,
        "expiresAt": standing.expires_at.isoformat(),
    }


def _minute(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M}"
