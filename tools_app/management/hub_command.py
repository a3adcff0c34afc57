"""What all commands of the hub share: they need a hub that is ready, and end with one clear line when it is not."""

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
        help="only these accounts at upstreams; may be repeated; without it, those of the environment",
    )


def add_mode_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default="",
        help="how tools are shown: in a list, by searching, or by searching where the list is long",
    )


def through(connections: list[str] | None) -> frozenset[str]:
    """What `--connection` says.

    Raises:
        Stop: there is no connection of that name.
    """
    if connections is None:
        return frozenset({ENVIRONMENT})
    known = {ENVIRONMENT, *Connection.objects.values_list("name", flat=True)}
    if unknown := [name for name in connections if name not in known]:
        raise Stop(f"there is no connection {unknown[0]!r}; there are: {', '.join(sorted(known))}", REFUSED)
    return frozenset(connections)


def not_written_down(name: str) -> str:
    """What to do about a tool that is loaded, and that the database does not know yet; empty for any other."""
    loaded = sources.loaded().get(name)
    if loaded is None or ToolRecord.objects.present().filter(folded_name=loaded.tool.folded_name).exists():
        return ""
    return f"{name} is there, in {loaded.tool.place}, and not written down yet: run `toolhub synctools`"


class Stop(Exception):
    """End the command with a line on stderr and an exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class HubCommand(BaseCommand):
    """A command of the hub. Subclasses implement `handle`.

    `needs_ready` says whether the schema must fit first, `needs_variables` whether the variables of packs must be
    readable, and `spares` that a pack without an account need not be loaded.
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
        """Raises: Stop, naming every variable of a pack that cannot be read."""
        if faults := connections.unreadable(sources.loaded()):
            raise Stop("\n".join(faults), REFUSED)

    def tell(self, line: str) -> None:
        """Progress: for people, and therefore not on stdout."""
        self.stderr.write(line)

    def _end(self, message: str, code: int) -> Never:
        for line in message.splitlines():
            self.stderr.write(f"toolhub: {line}")
        sys.exit(code)
