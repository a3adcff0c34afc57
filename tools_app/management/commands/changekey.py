"""Change an API key."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import budget_argument, key_argument
from tools_app.management.commands.addkey import expiry, rate
from tools_app.management.hub_command import HubCommand

_ACCESS: Final = {"read": (False, False), "write": (True, False), "all": (True, True)}


class Command(HubCommand):
    help = "Change an API key, from its next request on. What is not named stays, and so does its secret."

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("key", metavar="NAME|PREFIX", help=key_argument.HELP)
        add("--scope", action="append", dest="scopes", metavar="SCOPE", help="all scopes from now on; repeatable")
        tools = parser.add_mutually_exclusive_group()
        tools.add_argument(
            "--toolset", action="append", dest="toolsets", metavar="NAME", help="only these toolsets; repeatable"
        )
        tools.add_argument(
            "--all-tools", action="store_true", help="all tools, also future ones, except those of sources outside"
        )
        accounts = parser.add_mutually_exclusive_group()
        accounts.add_argument(
            "--connection", action="append", dest="connections", metavar="NAME", help="only these; repeatable"
        )
        accounts.add_argument("--no-connections", action="store_true", help="no upstream accounts")
        add("--access", choices=_ACCESS, help="only read-only tools; also those that write; or also destructive ones")
        add("--ask", choices=("writes", "destroys", "none"), help="which calls require approval")
        limits = parser.add_mutually_exclusive_group()
        limits.add_argument("--rate", type=rate, metavar="REQUESTS/SECONDS", help="like 100/60 for 100 a minute")
        limits.add_argument("--default-rate", action="store_true", help="the rate limit of the hub")
        budgets = parser.add_mutually_exclusive_group()
        budget_argument.add(budgets, words="these are all from now on")
        budgets.add_argument("--no-budget", action="store_true", help="no limit of calls and tokens a day or month")
        places = parser.add_mutually_exclusive_group()
        places.add_argument(
            "--address", action="append", dest="addresses", metavar="IP|NETWORK", help="only from these; repeatable"
        )
        places.add_argument("--any-address", action="store_true", help="from any address")
        ends = parser.add_mutually_exclusive_group()
        ends.add_argument("--expires", type=expiry, metavar="DAYS|DATE", help="30d, or 2027-01-31 (its end, UTC)")
        ends.add_argument("--never-expires", action="store_true", help="until it is revoked")
        add("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, key: str, reason: str, **options: Any) -> None:
        changes = governance.KeyChanges()
        if options["scopes"]:
            changes["scopes"] = options["scopes"]
        if options["toolsets"] or options["all_tools"]:
            changes["toolsets"] = options["toolsets"]
        if options["connections"] or options["no_connections"]:
            changes["connections"] = options["connections"] or ()
        if options["access"]:
            changes["may_write"], changes["may_destroy"] = _ACCESS[options["access"]]
        if options["ask"]:
            changes["asks"] = "" if options["ask"] == "none" else options["ask"]
        if options["rate"] or options["default_rate"]:
            changes["rate"] = options["rate"]
        if options["budget"] or options["no_budget"]:
            changes["budget"] = budget_argument.budget(options["budget"])
        if options["addresses"] or options["any_address"]:
            changes["addresses"] = options["addresses"] or ()
        if options["expires"] or options["never_expires"]:
            changes["expires_at"] = options["expires"]
        api_key = key_argument.find(key)
        changed = governance.change_key(api_key, actor=governance.of_command(), reason=reason, **changes)
        parts = ", ".join(part.replace("_", " ") for part in changed) or "nothing"
        self.stdout.write(f"{api_key.name}: changed {parts}.")
