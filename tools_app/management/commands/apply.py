"""Make the hub as a configuration file says: first the plan, then one transaction."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.management import key_file
from tools_app.management.hub_command import REFUSED, Abort, HubCommand, confirms
from tools_app.setup import configuration
from tools_app.setup.configuration import Options, Plan, PlanChangedError
from tools_app.text import hygiene

# Exit code of --dry-run if the hub differs from the file.
DIFFERS: Final = 3
MOST_NAME: Final = 100
_NO_KEY_FILE: Final = "new keys are issued: say where with --keys-to FILE. Nothing is changed"


class Command(HubCommand):
    help = (
        "Change the hub to be as a configuration file says, in one transaction; what the file manages is read-only "
        "elsewhere. Exit codes: 0 done or nothing to do, 1 refused, 2 the file cannot be used, 3 (--dry-run) the hub "
        "differs from the file."
    )
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("file", help="a file of `toolhub export`, possibly edited (- reads stdin)")
        add("--dry-run", action="store_true", help="show the plan, and change nothing")
        add(
            "--plan", default="", metavar="DIGEST", help="only if the plan is still this one, as --dry-run has shown it"
        )
        add("--prune", action="store_true", help="delete what an earlier version of this file has named (needs --name)")
        add("--switch-on", action="store_true", help="also give back what was switched off or taken away in the hub")
        add("--keys-to", metavar="FILE", help="a new file for keys that are created, which only you can read (CSV)")
        add("--name", default="", help="the name under which records are managed; default: that of the file")
        add("--yes", action="store_true", help="do not ask; without --plan, apply also if the hub changes meanwhile")
        add("--reason", default="", help="recorded in the audit trail")
        add("--json", action="store_true", dest="as_json", help="print the plan as JSON")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        try:
            wanted = configuration.read(_content(file))
        except configuration.ConfigurationFileError as error:
            lines = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
            raise Abort(hygiene.cleaned(lines), REFUSED) from error
        name, is_guessed = _name(file, options["name"]), not options["name"]
        if options["prune"] and is_guessed:
            raise Abort(f"--prune needs --name, as other files can be called {name} too. Nothing is changed", REFUSED)
        how = Options(name, is_guessed, prune=options["prune"], switch_on=options["switch_on"])
        try:
            self._apply(wanted, how, options)
        except configuration.ConfigurationRefusedError as error:
            raise Abort(hygiene.cleaned(f"{error} Nothing is changed.")) from error

    def _apply(self, wanted: configuration.Document, how: Options, options: dict[str, Any]) -> None:
        plan = configuration.plan(wanted, how, actor=governance.of_command())
        self._show(plan, options)
        if options["dry_run"]:
            sys.exit(DIFFERS if plan.changes or plan.drift else 0)
        if options["plan"] and options["plan"] != plan.digest:
            raise Abort(f"the plan is another one by now: {plan.digest}. Nothing is changed")
        if plan.keys and options["keys_to"] is None:
            raise Abort(_NO_KEY_FILE)
        if plan.is_needed:
            self._change_as_agreed(wanted, how, plan, options)

    def _change_as_agreed(
        self, wanted: configuration.Document, how: Options, plan: Plan, options: dict[str, Any]
    ) -> None:
        keys, is_asking = _KeyFile(options["keys_to"]), sys.stdin.isatty() and not options["yes"]
        while True:
            if is_asking and not confirms("Apply this plan? [y/N] "):
                raise Abort("nothing is changed")
            try:
                self._change(wanted, how, plan, keys, options)
                break
            except PlanChangedError as error:
                if not is_asking or options["plan"]:
                    raise Abort(f"{error}. Nothing is changed: run it again") from error
                plan = replace(error.plan, documents=plan.documents)
                self.tell(f"toolhub: {error}. It is this now:")
                self._show(plan, options)
        if not options["as_json"]:
            self.stdout.write("Applied." + (f" The new keys are in {keys.path}." if plan.keys else ""))

    def _change(
        self, wanted: configuration.Document, how: Options, plan: Plan, keys: _KeyFile, options: dict[str, Any]
    ) -> None:
        """Raises: PlanChangedError, ConfigurationRefusedError."""
        try:
            configuration.apply(
                wanted,
                how,
                expected=plan,
                accepts_changes=options["yes"] and not options["plan"],
                issue=keys.write,
                actor=governance.of_command(),
                reason=options["reason"],
            )
        except BaseException:
            keys.discard()
            raise

    def _show(self, plan: Plan, options: dict[str, Any]) -> None:
        if options["as_json"]:
            parts = ("changes", "effects", "drift", "notes", "keys")
            data = {"plan": plan.digest, **{part: list(getattr(plan, part)) for part in parts}}
            self.stdout.write(json.dumps(data, indent=2, ensure_ascii=False))
            return
        stays, notes = [f"stays: {one}" for one in plan.drift], [f"! {one}" for one in plan.notes]
        lines = [*plan.changes, *plan.effects, *stays, *notes]
        for line in lines:
            # Names in it can come from upstreams: nothing may control the terminal.
            self.stdout.write(hygiene.cleaned(f"  {line}"))
        if plan.keys:
            self.stdout.write(f"  ! new keys: {hygiene.cleaned(', '.join(plan.keys))}")
        self.stdout.write(f"Plan {plan.digest}: {len(plan.changes):,} changes." if plan.changes else "Nothing to do.")


class _KeyFile:
    """Where new keys are written, before the transaction is committed."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._is_made = False

    def write(self, keys: list[tuple[str, str]]) -> None:
        """Raises: Abort."""
        if self.path is None:
            raise Abort(_NO_KEY_FILE)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._is_made = True
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(key_file.written(keys))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Abort(f"cannot write {self.path}: {error.strerror}. Nothing is changed") from error

    def discard(self) -> None:
        """The keys in it do not exist."""
        if self._is_made and self.path is not None:
            Path(self.path).unlink(missing_ok=True)
            self._is_made = False


def _content(file: str) -> bytes:
    """Raises: Abort."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(configuration.MOST_BYTES + 1)
        path = Path(file)
        if not path.is_file():
            raise Abort(f"there is no file {file}", REFUSED)
        with path.open("rb") as opened:
            return opened.read(configuration.MOST_BYTES + 1)
    except OSError as error:
        raise Abort(f"{file} cannot be read: {error.strerror}", REFUSED) from error


def _name(file: str, given: str) -> str:
    """Raises: Abort."""
    name = given or ("" if file == "-" else Path(file).name)
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        raise Abort(f"--name must be a printable text of 1 to {MOST_NAME} characters", REFUSED)
    return name
