"""The base of all commands: it requires a hub that is set up, and reports errors in one line."""

from __future__ import annotations

import sys
from typing import Any, Never

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError

from tools_app import sources
from tools_app.catalog import connections
from tools_app.models import Connection, ToolRecord
from tools_app.sdk.errors import ToolError
from tools_app.sdk.reach import ENVIRONMENT, Mode
from tools_app.setup import installation

REFUSED = 2


def add_connection_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--connection",
        action="append",
        dest="connections",
        metavar="NAME",
        help="only this upstream account; repeatable; default: those of the environment",
    )


def add_mode_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default="",
        help="how the agent finds tools: direct (list all), search, or auto (search if the list is long)",
    )


def through(connections: list[str] | None) -> frozenset[str]:
    """The connections of `--connection`.

    Raises:
        Stop: a connection does not exist.
    """
    if connections is None:
        return frozenset({ENVIRONMENT})
    known = {ENVIRONMENT, *Connection.objects.values_list("name", flat=True)}
    if unknown := [name for name in connections if name not in known]:
        raise Stop(f"there is no connection {unknown[0]!r}; there are: {', '.join(sorted(known))}", REFUSED)
    return frozenset(connections)


def not_synced(name: str) -> str:
    """Advice about a tool that is loaded but not in the database yet; empty for any other."""
    loaded = sources.loaded().get(name)
    if loaded is None or ToolRecord.objects.present().filter(folded_name=loaded.tool.folded_name).exists():
        return ""
    return f"{name} exists in {loaded.tool.place}, but is not synced yet: run `toolhub synctools`"


class Stop(Exception):
    """Ends the command with a line on stderr and an exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class HubCommand(BaseCommand):
    """A command of the hub. Subclasses implement `handle`.

    `needs_ready`: the database schema must be current. `needs_variables`: the variables of packs must be valid.
    `spares`: packs without an account are not loaded.
    """

    needs_ready = True
    needs_variables = True
    spares = False
    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            if self.spares:
                sources.spare()
            if self.needs_variables:
                self.require_variables()
            if self.needs_ready:
                installation.require_ready(self.tell)
            return super().execute(*args, **options)
        except installation.NotReady as error:
            self._end(str(error), REFUSED)
        except Stop as error:
            self._end(str(error), error.code)
        except ToolError as error:
            self._end(" ".join(filter(None, (error.message.rstrip(".") + ".", error.next_step))), 1)
        except DatabaseError as error:
            self._end(installation.database_trouble(error), REFUSED)
        except KeyboardInterrupt:
            sys.exit(130)

    def require_variables(self) -> None:
        """Raises: Stop: names every invalid variable of a pack."""
        if faults := connections.unreadable(sources.loaded()):
            raise Stop("\n".join(faults), REFUSED)

    def tell(self, line: str) -> None:
        """Print progress to stderr, as stdout is for results."""
        self.stderr.write(line)

    def _end(self, message: str, code: int) -> Never:
        for line in message.splitlines():
            self.stderr.write(f"toolhub: {line}")
        sys.exit(code)
