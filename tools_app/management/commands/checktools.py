"""Run the examples of tools and compare the answers with the expected results."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import engine
from tools_app.access import access
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.governance import contracts
from tools_app.governance.contracts import Report
from tools_app.management.hub_command import (
    REFUSED,
    Abort,
    HubCommand,
    add_connection_option,
    through,
)
from tools_app.sdk.reach import Reach

BROKEN: Final = 1


class Command(HubCommand):
    help = (
        "Run the examples of tools with the configured accounts, and compare the answers with the expected results. "
        "Exits with 1 if one differs or a named tool cannot be run, with 2 if it does not exist."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", help="the tools; default: all that can be called")
        parser.add_argument("--write", action="store_true", help="also run named tools that write")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")
        add_connection_option(parser)

    def handle(
        self,
        *args: Any,
        names: list[str],
        write: bool,
        connections: list[str] | None,
        **options: Any,
    ) -> None:
        if write and not names:
            raise Abort("--write requires the names of the tools: checktools --write NAME …", REFUSED)
        if options["verbosity"] < 2:
            # The report has the errors; -v 2 shows the log as well.
            logging.getLogger("tools_app").setLevel(logging.CRITICAL)
        caller = access.caller_of_process(Reach(connections=through(connections)))
        snapshot = catalog.current().seen_by(caller)
        entries = [_require(snapshot.find(name), name) for name in names] if names else snapshot.all
        try:
            reports = contracts.check_all(entries, caller, writes=write)
        finally:
            asyncio.run(engine.close(2))
        broken = [report for report in reports if not report.passed and (names or not report.skipped)]
        self.stdout.write(_as_json(reports) if options["json"] else _in_words(reports))
        if broken:
            raise SystemExit(BROKEN)


def _require(entry: Entry | None, name: str) -> Entry:
    if entry is None:
        raise Abort(f"there is no tool {name!r}", REFUSED)
    return entry


def _as_json(reports: list[Report]) -> str:
    return json.dumps({"tools": [report.as_dict() for report in reports]}, indent=2, ensure_ascii=False)


def _in_words(reports: list[Report]) -> str:
    lines = []
    for report in reports:
        mark = "--" if report.skipped else "ok" if report.passed else "!!"
        lines.append(f"{mark} {report.tool}: {report.skipped or _count_of(len(report.outcomes), 'example')}")
        lines += [f"     {fault}" for fault in report.faults]
    ran = [report for report in reports if not report.skipped]
    failed_count = sum(not report.passed for report in ran)
    verdict = f"{failed_count} failed" if failed_count else "all passed" if ran else "none was run"
    lines.append(f"\n{_count_of(len(ran), 'tool')} tested, {verdict}; {len(reports) - len(ran)} skipped.")
    return "\n".join(lines)


def _count_of(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
