"""The base of all commands: it requires a hub that is set up, and reports errors in one line."""

from __future__ import annotations

import os
import sys
from typing import Any, Never

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError

from tools_app import sources
from tools_app.base import setting_origins
from tools_app.catalog import catalog, connections
from tools_app.models import Connection
from tools_app.sdk.errors import ToolError
from tools_app.sdk.reach import ENVIRONMENT, Mode
from tools_app.setup import installation
from tools_app.setup.installation import Schema

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
        Abort: a connection does not exist.
    """
    if connections is None:
        return frozenset({ENVIRONMENT})
    known = {ENVIRONMENT, *Connection.objects.values_list("name", flat=True)}
    if unknown := [name for name in connections if name not in known]:
        raise Abort(f"there is no connection {unknown[0]!r}; there are: {', '.join(sorted(known))}", REFUSED)
    return frozenset(connections)


def confirms(question: str) -> bool:
    """Ask the person at the terminal; no input is a no."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


class Abort(Exception):
    """Ends the command with a line on stderr and an exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def in_words(error: ToolError) -> str:
    return " ".join(filter(None, (error.message.rstrip(".") + ".", error.next_step)))


class HubCommand(BaseCommand):
    """A command of the hub. Subclasses implement `handle`.

    `needs_ready`: the database schema must be current. `needs_variables`: the variables of packs must be valid.
    """

    needs_ready = True
    needs_variables = True
    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        for line in setting_origins.deprecations():
            self.tell(f"toolhub: {line}")
        try:
            if self.needs_ready:
                installation.require_ready(self.tell)
            if self.needs_variables:
                self.require_variables()
            return super().execute(*args, **options)
        except installation.NotReady as error:
            self._end(str(error), REFUSED)
        except Abort as error:
            self._end(str(error), error.code)
        except ToolError as error:
            self._end(in_words(error), 1)
        except DatabaseError as error:
            self._end(installation.database_trouble(error), REFUSED)
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:
            # What reads the output has seen enough, such as `head`. Nothing is left to be written at the exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)

    def require_variables(self) -> None:
        """Raises: Abort: names every invalid variable of a pack."""
        try:
            is_recorded = installation.schema() is Schema.CURRENT
        except installation.NotReady:
            return  # Some commands need no database; the others report it themselves.
        if is_recorded:
            kinds, required = catalog.current().connection_kinds, catalog.current().required_variables
        else:
            loaded_tools = sources.current().inspected().tools
            kinds = {tool.pack: tool.spec.connection for tool in loaded_tools if tool.spec.connection is not None}
            required = {name for tool in loaded_tools for name in tool.spec.requires}
        if faults := connections.unreadable(kinds, required):
            raise Abort("\n".join(faults), REFUSED)

    def tell(self, line: str) -> None:
        """Print progress to stderr, as stdout is for results."""
        self.stderr.write(line)

    def _end(self, message: str, code: int) -> Never:
        for line in message.splitlines():
            self.stderr.write(f"toolhub: {line}")
        sys.exit(code)
