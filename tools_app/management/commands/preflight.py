"""Check whether calls of tools would work now, for schedulers and CI."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import connections as database_connections

from tools_app.access import access
from tools_app.base import hub, ports
from tools_app.base.ports import SignInRequiredError, UnavailableError
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.management.hub_command import HubCommand, add_connection_option, through
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.reach import Reach
from tools_app.text import hygiene

OK, NOT_CALLABLE, DOWN, UNKNOWN = 0, 10, 11, 12
SECONDS: Final = 30.0
_STATES: Final = {OK: "ok", NOT_CALLABLE: "not callable", DOWN: "down", UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call of a tool would work."""

    tool: str
    code: int
    reason: str = ""
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "ok": self.code == OK,
            "code": self.code,
            "state": _STATES[self.code],
            "reason": self.reason or None,
            "nextStep": self.advice or None,
        }

    def __str__(self) -> str:
        parts = f"{self.reason.rstrip('.')}." if self.reason else "", self.advice
        return f"{self.code:>2} {self.tool}: {' '.join(filter(None, parts)) or 'ok'}"


class Command(HubCommand):
    help = (
        "Check whether calls of tools would work now. Connects to outside sources; calls no tool. Exits with 0 if all "
        "would, else with the highest of: 10 a tool cannot be called (off, held, refused), 11 its server is down or "
        "starting, 12 there is no such tool."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="+", metavar="TOOL")
        parser.add_argument(
            "--timeout", type=float, default=SECONDS, metavar="S", help="seconds for each server; default: %(default)s"
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
        add_connection_option(parser)

    def handle(
        self,
        *args: Any,
        names: list[str],
        timeout: float,
        as_json: bool,
        connections: list[str] | None,
        **options: Any,
    ) -> None:
        caller = access.caller_of_process(Reach(connections=through(connections) if connections else None))
        view = catalog.current().seen_by(caller)
        servers = Servers(timeout)
        verdicts = [_verdict(name, view, servers) for name in dict.fromkeys(names)]
        if as_json:
            self.stdout.write(json.dumps({"tools": [verdict.as_dict() for verdict in verdicts]}, indent=2))
        else:
            for verdict in verdicts:
                # Others wrote parts of it: nothing may control the terminal.
                self.stdout.write(hygiene.cleaned(str(verdict)))
        if code := max(verdict.code for verdict in verdicts):
            raise SystemExit(code)


class Servers:
    """What the servers of this run list, each asked once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._listings: dict[Origin, Listing | UnavailableError] = {}

    def listing(self, origin: Origin) -> Listing:
        """Raises: UnavailableError."""
        if origin not in self._listings:
            self._listings[origin] = self._ask(origin)
        listing = self._listings[origin]
        if isinstance(listing, UnavailableError):
            raise listing
        return listing

    def _ask(self, origin: Origin) -> Listing | UnavailableError:
        outcome: list[Listing | UnavailableError] = []

        def ask() -> None:
            try:
                outcome.append(ports.upstreams().listing(origin))
            except UnavailableError as error:
                outcome.append(error)
            except Exception as error:
                outcome.append(UnavailableError(f"its listing cannot be read: {type(error).__name__}"))
            finally:
                database_connections.close_all()

        # A thread of its own: a program that is being installed takes longer than a caller would wait.
        thread = hub.current().thread(ask, "toolhub-preflight")
        thread.start()
        thread.join(self._seconds)
        return outcome[0] if outcome else UnavailableError(f"no answer within {self._seconds:g} s; it may be starting")


def _verdict(name: str, view: Snapshot, servers: Servers) -> Verdict:
    entry = view.find(name)
    if entry is None:
        return Verdict(name, UNKNOWN, "there is no such tool")
    if entry.refusal is not None:
        return Verdict(entry.name, NOT_CALLABLE, entry.refusal.reason, entry.refusal.advice)
    if entry.is_held:
        return Verdict(
            entry.name, NOT_CALLABLE, "its definition has changed, and no operator has approved the new version"
        )
    if entry.connection_kind is not None and (fault := _fault(entry)):
        return Verdict(entry.name, NOT_CALLABLE, fault)
    return _of_server(entry, servers) if entry.origin is not None else Verdict(entry.name, OK)


def _fault(entry: Entry) -> str:
    """Why none of the accounts of a tool can be used."""
    kind = entry.connection_kind
    if not entry.accounts:
        return "" if kind is None or kind.optional else "it has no connection"
    faults = [account.fault or ("" if account.enabled else "it is off") for account in entry.accounts]
    return f"connection {entry.accounts[0].name}: {faults[0]}" if all(faults) else ""


def _of_server(entry: Entry, servers: Servers) -> Verdict:
    assert entry.origin is not None  # noqa: S101 – checked before
    try:
        listing = servers.listing(entry.origin)
    except SignInRequiredError as error:
        return Verdict(entry.name, NOT_CALLABLE, str(error), "Set the secret of its connection again.")
    except UnavailableError as error:
        return Verdict(entry.name, DOWN, str(error), "Try again later, or see `toolhub doctor`.")
    if all(tool.get("name") != entry.spec.key for tool in listing.tools):
        return Verdict(entry.name, NOT_CALLABLE, f"its source {entry.origin.name} does not list it now")
    return Verdict(entry.name, OK)
