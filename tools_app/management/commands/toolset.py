"""Add and list toolsets."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from tools_app import governance
from tools_app.journal.budgets import limits
from tools_app.management import budget_argument
from tools_app.management.hub_command import HubCommand
from tools_app.management.tables import aligned
from tools_app.models import Toolset

_SELECTED: dict[str, tuple[str, str]] = {
    "packs": ("--source", "all tools of this source"),
    "categories": ("--category", "all tools of this category"),
    "tags": ("--tag", "all tools with this tag"),
    "names": ("--tool", "this tool"),
}


class Command(HubCommand):
    help = "Add or list toolsets: selections of tools, for keys and agents. The admin changes them."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        adding = "Add a toolset. It has the tools that match any of the options."
        add = verbs.add_parser("add", help=adding, description=adding)
        add.add_argument("name", help="lowercase letters, numbers, - and _")
        for part, (option, words) in _SELECTED.items():
            add.add_argument(
                option, action="append", default=[], dest=part, metavar="NAME", help=f"{words}; repeatable"
            )
        add.add_argument("--read-only", action="store_true", help="of these, only tools that only read")
        budget_argument.add(add)
        add.add_argument("--description", default="", help="what it is for")
        add.add_argument("--reason", default="", help="recorded in the audit trail")
        listing = "List the toolsets."
        verbs.add_parser("list", help=listing, description=listing)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        if verb == "list":
            self._list()
            return
        parts = {part: options[part] for part in (*_SELECTED, "read_only", "description")}
        parts |= dict(options["budget"] or ())
        governance.create_toolset(options["name"], actor=governance.of_command(), reason=options["reason"], **parts)
        self.stdout.write(
            f"Toolset {options['name']} is added. To give it to an agent: "
            f"toolhub addkey KEY --toolset {options['name']}."
        )

    def _list(self) -> None:
        selectors = (option.removeprefix("--").upper() for option, _ in _SELECTED.values())
        rows = [("NAME", *selectors, "ONLY", "BUDGET", "KEYS")]
        toolsets = list(Toolset.objects.prefetch_related("keys").order_by("name"))
        budgets = limits({f"toolset:{toolset.name}": toolset.budget for toolset in toolsets}, timezone.now())
        for toolset in toolsets:
            selected = [" ".join(getattr(toolset, part)) or "-" for part in _SELECTED]
            reads = "read" if toolset.read_only else "-"
            budget = budget_argument.in_words(budgets[f"toolset:{toolset.name}"])
            rows.append((toolset.name, *selected, reads, budget, str(toolset.keys.count())))
        for line in aligned(rows):
            self.stdout.write(line)
