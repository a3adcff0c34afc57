"""Make sources of the servers in the configuration of an MCP client, and put the client behind the hub."""
# ruff: noqa: N999 – the command is called so, and Python imports it by its name as a text

from __future__ import annotations

import getpass
import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.base import conf
from tools_app.governance import imports
from tools_app.governance.imports import ImportFile, ImportFileError, Outcome, PlannedSource, Question
from tools_app.governance.source_checks import shown_command
from tools_app.management.config_file import ConfigFile, ConfigFileError
from tools_app.management.connect_plan import entry_name
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.management.moving import Move
from tools_app.models import Source
from tools_app.sdk.errors import ToolError, shortened
from tools_app.setup.clients import CLIENTS, Machine, McpClient
from tools_app.text import hygiene

_LINES: Final = {
    Outcome.ADDED: "adds source {name}",
    Outcome.EXISTS: "skipped: {reason}",
    Outcome.OWN: "skipped: {reason}",
    Outcome.INCOMPLETE: "not imported: {reason}",
    Outcome.REFUSED: "refused: {reason}",
}


class Command(HubCommand):
    help = (
        "Import the MCP servers of a client, or of a file, as sources. They arrive off, with their secrets as "
        "connections. --move then puts the client behind this hub; --undo takes that back."
    )
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        names = sorted(name for name, client in CLIENTS.items() if client.user_file is not None)
        add("origin", metavar="FILE|CLIENT", help=f"a file (- reads stdin), or a client: {', '.join(names)}")
        place = parser.add_mutually_exclusive_group()
        place.add_argument("--project", type=Path, metavar="DIR", help="the client's configuration of this project")
        place.add_argument("--file", type=Path, metavar="PATH", help="the client's configuration in this file")
        add("--dry-run", action="store_true", help="show what would be imported, and change nothing")
        add("--only", action="append", default=[], metavar="SERVER", help="only this server of the file; repeatable")
        add(
            "--set",
            action="append",
            default=[],
            type=_pair,
            dest="given",
            metavar="NAME=VALUE",
            help="the value of a placeholder, such as ${NAME}; others are taken from the variables of this shell",
        )
        add(
            "--as",
            action="append",
            default=[],
            type=_pair,
            dest="names",
            metavar="SERVER=SOURCE",
            help="the name of the source that a server becomes; repeatable",
        )
        add("--internal", action="store_true", help="permit private addresses and plain http for these servers")
        add("--move", action="store_true", help="replace the imported servers in the client's file by this hub")
        add("--undo", action="store_true", help="restore the client's file as it was before the last --move")
        add("--name", type=entry_name, default="toolhub", help="with --move: name of the hub's entry")
        add(
            "--toolset",
            default="",
            metavar="NAME",
            help="with --move: the toolset of the client; it is created if there is none; default: the client's name",
        )
        add("--no-check", action="store_true", help="with --move: skip the test of the connection")
        add("--reason", default="", help="recorded in the audit trail")
        add("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, origin: str, **options: Any) -> None:
        place = _place(origin, options)
        if place is None and (options["move"] or options["undo"]):
            raise Abort("--move and --undo require a client; --file PATH names its file", REFUSED)
        if place is not None and options["undo"]:
            self._undo(*place)
            return
        entries = _entries(place[1]) if place is not None and options["move"] else {}
        read = _read(origin, place)
        planned = self._complete(read, options)
        for notice in read.notices:
            self.tell(f"toolhub: {notice}")
        if not options["dry_run"]:
            planned = [_stored(one, options["reason"]) for one in planned]
        if not options["as_json"]:
            self._show(planned, is_done=not options["dry_run"])
        moved = self._move(*place, planned, entries, options) if place is not None and options["move"] else None
        if options["as_json"]:
            data = {"servers": [_data(one) for one in planned], "notices": list(read.notices), "moved": moved}
            self.stdout.write(json.dumps(data, indent=2, ensure_ascii=False))
        if any(one.outcome in (Outcome.REFUSED, Outcome.INCOMPLETE) for one in planned):
            sys.exit(1)

    def _complete(self, read: ImportFile, options: dict[str, Any]) -> list[PlannedSource]:
        """What is to be imported, with the values that a person at the terminal was asked for."""
        if unknown := [name for name in options["only"] if name not in read.entries]:
            raise Abort(f"there is no server {shortened(unknown[0])!r} in it", REFUSED)
        given = dict(options["given"])
        planned = self._planned(read, given, options)
        if not options["dry_run"] and sys.stdin.isatty() and (missing := _missing(planned)):
            planned = self._planned(read, given | self._answers(missing), options)
        return planned

    def _planned(self, read: ImportFile, given: dict[str, str], options: dict[str, Any]) -> list[PlannedSource]:
        return imports.plan(
            read,
            given=given,
            environment={name: value for name, value in os.environ.items() if conf.given(name)},
            names=dict(options["names"]),
            internal=options["internal"],
            only=options["only"],
        )

    def _answers(self, questions: Sequence[Question]) -> dict[str, str]:
        """Ask the person at the terminal. An empty answer leaves the value missing."""
        answers = {}
        for question in questions:
            label = hygiene.cleaned(": ".join(filter(None, (question.name, question.description))))
            choices = f" ({', '.join(question.choices)})" if question.choices else ""
            prompt = f"{label}{hygiene.cleaned(choices)}: "
            answers[question.name] = getpass.getpass(prompt) if question.is_secret else input(prompt)
        return answers

    def _show(self, planned: Sequence[PlannedSource], *, is_done: bool) -> None:
        for one in planned:
            # Others wrote parts of it: nothing may control the terminal.
            for line in _lines(one):
                self.stdout.write(hygiene.cleaned(line))
        added = [one.name for one in planned if one.outcome is Outcome.ADDED]
        counts = [f"{sum(one.outcome is outcome for one in planned)} {outcome}" for outcome in Outcome]
        self.stdout.write(f"{'Imported' if is_done else 'Would be imported'}: {', '.join(counts)}.")
        if missing := _missing(planned):
            names = " ".join(f"--set {shortened(question.name)}=…" for question in missing)
            self.stdout.write(hygiene.cleaned(f"Missing values: {names}"))
        if added and is_done:
            names = " ".join(added)
            self.stdout.write(f"All are off. Next: toolhub source on {names}")
            self.stdout.write("Then: toolhub source review")

    def _move(
        self,
        client: McpClient,
        file: ConfigFile,
        planned: list[PlannedSource],
        entries: dict[str, Any],
        options: dict[str, Any],
    ) -> dict[str, Any] | None:
        move = Move(client, file, options["name"], options["toolset"] or client.name, planned, entries)
        if not move.names:
            self.tell("toolhub: nothing is moved: no server of the file is a source")
            return None
        if options["dry_run"]:
            self.tell(f"toolhub: would be moved behind the hub: {hygiene.cleaned(', '.join(move.names))}")
            return None
        try:
            done = move.make(checks=not options["no_check"], reason=options["reason"])
        except ConfigFileError as error:
            raise Abort(f"{error}. The sources are imported") from error
        if not options["as_json"]:
            for line in done.lines:
                self.stdout.write(hygiene.cleaned(line))
        return {"servers": move.names, "entry": done.entry_name, "toolset": done.toolset, "backup": str(done.backup)}

    def _undo(self, client: McpClient, file: ConfigFile) -> None:
        try:
            undone = file.undo(imports.is_own_entry)
        except ConfigFileError as error:
            raise Abort(f"{error}") from error
        if undone.is_exact:
            self.stdout.write(f"{file.path} is as it was before the move.")
        else:
            names = hygiene.cleaned(", ".join(undone.names)) or "none"
            self.stdout.write(f"{file.path} was changed after the move. Its servers are back: {names}.")
            self.stdout.write(f"  The file before the move: {undone.backup}")
        self.stdout.write(f"  The sources of the hub stay. {client.next_step}")


def _place(origin: str, options: dict[str, Any]) -> tuple[McpClient, ConfigFile] | None:
    """The client and its file, if a client is named."""
    client = CLIENTS.get(origin)
    path: Path | None = options["file"]
    project: Path | None = options["project"]
    if client is None or client.user_file is None:
        if path is not None or project is not None:
            raise Abort("--file and --project require the name of a client", REFUSED)
        return None
    if project is not None:
        if not client.project_file:
            raise Abort(f"{client.title} has no project configuration: omit --project", REFUSED)
        path = project / client.project_file
    return client, ConfigFile.of(client, path or client.user_file(Machine.this()))


def _entries(file: ConfigFile) -> dict[str, Any]:
    try:
        return file.entries()
    except ConfigFileError as error:
        raise Abort(f"{error}. Nothing is imported", REFUSED) from error


def _read(origin: str, place: tuple[McpClient, ConfigFile] | None) -> ImportFile:
    path = place[1].path if place is not None else Path(origin).expanduser()
    try:
        if origin == "-":
            content = sys.stdin.buffer.read(imports.MOST_BYTES + 1)
        elif path.is_file():
            with path.open("rb") as opened:
                content = opened.read(imports.MOST_BYTES + 1)
        else:
            raise Abort(f"there is no file {path}" + ("" if place else ", and no client of that name"), REFUSED)
        return imports.read(content)
    except OSError as error:
        raise Abort(f"{path} cannot be read: {error.strerror}") from error
    except ImportFileError as error:
        raise Abort(f"{path} cannot be imported: {error}") from error


def _stored(planned: PlannedSource, reason: str) -> PlannedSource:
    """Import what can be; what is refused at that says why."""
    if planned.outcome is not Outcome.ADDED:
        return planned
    try:
        imports.import_source(planned, actor=governance.of_command(), reason=reason)
    except ToolError as error:
        return replace(planned, outcome=Outcome.REFUSED, reason=error.message)
    return planned


def _missing(planned: Sequence[PlannedSource]) -> list[Question]:
    return list({question.name: question for one in planned for question in one.missing}.values())


def _lines(one: PlannedSource) -> list[str]:
    words = _LINES[one.outcome].format(name=one.name, reason=one.reason)
    origin = one.location or shown_command(one.command)
    lines = [f"{shortened(one.entry)}: {words}" + (f": {shortened(origin, 300)}" if one.outcome == "added" else "")]
    if one.outcome is Outcome.ADDED and one.values:
        names = [f"{name} (secret)" if name in one.secret_names else name for name in one.value_names]
        lines.append(f"    connection ({one.form}): {', '.join(names)}")
    if one.outcome is Outcome.ADDED and one.from_shell:
        lines.append(f"    with variables of this shell: {', '.join(one.from_shell)}")
    if one.outcome not in (Outcome.EXISTS, Outcome.OWN):
        lines += [f"    ! {warning}" for warning in one.warnings]
    return lines


def _data(one: PlannedSource) -> dict[str, Any]:
    """Without values."""
    is_added = one.outcome in (Outcome.ADDED, Outcome.INCOMPLETE)
    return {
        "server": one.entry,
        "outcome": one.outcome,
        "source": one.name or None,
        "reason": one.reason or None,
        "kind": one.kind if is_added else None,
        "location": one.location if is_added and one.kind == Source.Kind.MCP_HTTP else None,
        "command": list(one.command) if is_added and one.kind == Source.Kind.MCP_STDIO else None,
        "form": one.form or None,
        "names": one.value_names,
        "secrets": list(one.secret_names),
        "missing": [question.name for question in one.missing],
        "fromShell": list(one.from_shell),
        "warnings": list(one.warnings),
    }


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError("must be like NAME=VALUE")
    return name, value
