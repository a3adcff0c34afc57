"""Serve one agent over stdin and stdout. Agents start this themselves."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Never

from django.core.management.base import CommandParser
from django.db import DatabaseError

from tools_app.access import access
from tools_app.management.hub_command import (
    REFUSED,
    Abort,
    HubCommand,
    add_connection_option,
    add_mode_option,
    through,
)
from tools_app.management.private_state import keep_private
from tools_app.mcp_server import closed, wire
from tools_app.models import Toolset
from tools_app.sdk.reach import ENVIRONMENT, Reach
from tools_app.setup import installation
from tools_app.setup.installation import NotReady

log = logging.getLogger("tools_app.mcp")


class Command(HubCommand):
    needs_ready = False  # Problems are reported over the protocol as well.
    needs_variables = False  # Checked below, after the imports that have to come first.
    help = "Serve this hub's tools to one agent over stdin and stdout, as an MCP server. Agents start this themselves."

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        # Otherwise wrong arguments would end the process without an answer over the protocol.
        self._called_from_command_line = False
        return super().create_parser(*args, **options)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--toolset", action="append", dest="toolsets", metavar="NAME", help="only this toolset; repeatable"
        )
        add_mode_option(parser)
        parser.add_argument("--read-only", action="store_true", help="only read-only tools")
        parser.add_argument(
            "--transport",
            choices=["stdio", "http"],
            default="stdio",
            help="stdio; for HTTP run `toolhub serve`",
        )
        add_connection_option(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        wire.claim()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        return super().execute(*args, **options)

    def handle(
        self,
        *args: Any,
        toolsets: list[str] | None,
        mode: str,
        transport: str,
        read_only: bool,
        connections: list[str] | None,
        **options: Any,
    ) -> None:
        if transport == "http":
            raise Abort(
                "this command serves one agent over stdio; `toolhub serve` serves MCP over HTTP, at /mcp", REFUSED
            )
        keep_private()
        reach = Reach(
            frozenset(toolsets) if toolsets else None,
            writes=not read_only,
            destroys=not read_only,
            connections=frozenset(connections or [ENVIRONMENT]),
            mode=mode,
            outside=bool(toolsets),
        )
        prepare = functools.partial(self._prepare, toolsets or [], connections)
        trouble = None
        try:
            prepare()
        except NotReady as error:
            if not error.passing:
                raise
            trouble = error
            self.stderr.write(f"toolhub: {trouble}; waiting for it")
        from tools_app.mcp_server import diet

        with diet.slim():
            from tools_app.mcp_server import stdio
            from tools_app.mcp_server.opening import Opening

        self.require_variables()
        # Objects created so far live as long as the process: exempt them from garbage collection, which delays calls.
        gc.freeze()
        gc.enable()  # Disabled during the start, which creates many objects and no garbage.
        opening = Opening(trouble, prepare) if trouble is not None else None
        asyncio.run(_serve_and_exit(stdio.serve(*wire.descriptors(), access.caller_of_process(reach), opening)))

    def _prepare(self, toolsets: list[str], connections: list[str] | None) -> None:
        """Raises: NotReady."""
        installation.require_ready(self.tell)
        try:
            known = set(Toolset.objects.values_list("name", flat=True)) if toolsets else set()
            through(connections)
        except Abort as error:
            raise NotReady(str(error)) from error
        except DatabaseError as error:
            raise NotReady.because(error) from error
        if unknown := [name for name in toolsets if name not in known]:
            raise NotReady(f"there is no toolset {unknown[0]!r}; there are: {', '.join(sorted(known)) or 'none'}")

    def _end(self, message: str, code: int) -> Never:
        lines = message.splitlines()
        for line in lines:
            self.stderr.write(f"toolhub: {line}")
        closed.refuse(*wire.descriptors(), "; ".join(lines))
        sys.exit(code)


async def _serve_and_exit(server_task: Coroutine[Any, Any, None]) -> Never:
    code = 0
    try:
        await server_task
    except Exception:
        log.exception("serving over stdio broke")
        code = 1
    finally:
        logging.shutdown()
        sys.stderr.flush()
    # Returning would wait for threads of tools that are still running, although the agent is gone.
    os._exit(code)


def _leave(*_: object) -> Never:
    """Handle a signal that arrives before serving starts."""
    raise SystemExit(0)
