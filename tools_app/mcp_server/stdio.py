"""MCP over the process's stdin and stdout: one client, from its first line until it leaves."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import anyio

from tools_app import engine
from tools_app.mcp_server import server
from tools_app.mcp_server.changes import Changes, always
from tools_app.mcp_server.pipes import Pipes
from tools_app.tool import Caller

# With the times in `pipes` and `server` less than the two seconds after which clients kill.
CLOSE_SECONDS: Final = 0.5

# One client needs one. Each is a request that stays open, of which the pipes allow only so many.
MOST_LISTENING: Final = 16

# An agent waits for the start: nothing that can be done later may stand in its way.
LATER_SECONDS: Final = 60.0


async def serve(readable: int, writable: int, caller: Caller) -> None:
    """Serve until the client closes its side, or until SIGTERM or SIGINT."""
    engine.adopt_running_loop()
    loop = asyncio.get_running_loop()
    changes = Changes(always(caller), MOST_LISTENING)
    served = server.build(changes, lambda _: caller)
    pipes = Pipes(leaving=changes.close)
    await pipes.connect(readable, writable)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pipes.stop)
    telling = asyncio.create_task(changes.tell())
    keeping = asyncio.create_task(_keep())
    try:
        await served.run(pipes, pipes, served.create_initialization_options())
    finally:
        telling.cancel()
        keeping.cancel()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await engine.close(CLOSE_SECONDS / 2)
        await pipes.close()


async def _keep() -> None:
    """Let go of what is old, until cancelled."""
    await asyncio.sleep(LATER_SECONDS)
    from tools_app import retention

    keeper = retention.Keeper(first_seconds=0)
    keeper.start()
    try:
        await asyncio.Event().wait()
    finally:
        # In a thread: a batch may be under way.
        await asyncio.get_running_loop().run_in_executor(None, keeper.stop)
