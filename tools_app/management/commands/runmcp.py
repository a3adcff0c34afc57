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

from tools_app.management.hub_command import HubCommand
from tools_app.mcp_server import wire

log = logging.getLogger("tools_app.mcp")


class Command(HubCommand):
    help = "Serve this hub's tools to one agent over stdin and stdout, as an MCP server. Agents start this themselves."

    def execute(self, *args: Any, **options: Any) -> str | None:
        wire.claim()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        from tools_app.mcp_server import diet

        with diet.slim():
            from tools_app.mcp_server import stdio

        # All that was made so far stays to the end: collections, and the calls that wait for them, can pass it by.
        gc.freeze()
        gc.enable()  # The start does without: it makes many objects, and no garbage.
        asyncio.run(_served(stdio.serve))


async def _served(serve: Callable[[int, int], Awaitable[None]]) -> Never:
    code = 0
    try:
        await serve(*wire.claimed())
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
