"""Serve one agent over stdin and stdout. Agents start this themselves."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Never

from django.core.management.base import CommandParser

from tools_app import access
from tools_app.management.hub_command import REFUSED, HubCommand, Stop
from tools_app.mcp_server import wire
from tools_app.models import Toolset
from tools_app.reach import Reach
from tools_app.tool import Caller

log = logging.getLogger("tools_app.mcp")


class Command(HubCommand):
    help = "Serve this hub's tools to one agent over stdin and stdout, as an MCP server. Agents start this themselves."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--toolset", action="append", dest="toolsets", metavar="NAME", help="only these tools; may be repeated"
        )
        parser.add_argument("--read-only", action="store_true", help="only tools that say they change nothing")

    def execute(self, *args: Any, **options: Any) -> str | None:
        wire.claim()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        return super().execute(*args, **options)

    def handle(self, *args: Any, toolsets: list[str] | None, read_only: bool, **options: Any) -> None:
        caller = access.caller_of_process(_reach(toolsets, read_only=read_only))
        from tools_app.mcp_server import diet

        with diet.slim():
            from tools_app.mcp_server import stdio

        # All that was made so far stays to the end: collections, and the calls that wait for them, can pass it by.
        gc.freeze()
        gc.enable()  # The start does without: it makes many objects, and no garbage.
        asyncio.run(_served(stdio.serve, caller))


def _reach(toolsets: list[str] | None, *, read_only: bool) -> Reach:
    if toolsets:
        known = set(Toolset.objects.values_list("name", flat=True))
        if unknown := [name for name in toolsets if name not in known]:
            named = ", ".join(sorted(known)) or "none"
            raise Stop(f"there is no toolset {unknown[0]!r}; there are: {named}", REFUSED)
    return Reach(frozenset(toolsets) if toolsets else None, writes=not read_only, destroys=not read_only)


async def _served(serve: Callable[[int, int, Caller], Awaitable[None]], caller: Caller) -> Never:
    code = 0
    try:
        await serve(*wire.claimed(), caller)
    except Exception:
        log.exception("serving over stdio broke")
        code = 1
    finally:
        logging.shutdown()
        sys.stderr.flush()
    # Not by returning: that would wait for threads in which tools are still busy, and nobody is left to care.
    os._exit(code)


def _leave(*_: object) -> Never:
    """Asked to end before serving began."""
    raise SystemExit(0)
