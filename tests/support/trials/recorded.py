"""Tools for hubs under test. Each tells an upstream of every execution, at once and independently of the hub.

Loaded through TOOLHUB_TOOLS_DIR; TRIALS_UPSTREAM is the port on which a `Recorder` listens.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time

from toolhub import Context, Hints, tool

UPSTREAM = ("127.0.0.1", int(os.environ["TRIALS_UPSTREAM"]))


def line(ctx: Context, n: int) -> bytes:
    return json.dumps({"call": ctx.call_id, "tool": ctx.tool, "n": n}).encode() + b"\n"


async def tell(ctx: Context, n: int) -> None:
    reader, writer = await asyncio.open_connection(*UPSTREAM)
    try:
        writer.write(line(ctx, n))
        if await reader.readline() != b"done\n":
            raise ConnectionError("the upstream hung up")
    finally:
        writer.close()


@tool
async def write(ctx: Context, n: int, seconds: float = 0) -> dict[str, int]:
    """Change something, then take a while."""
    await tell(ctx, n)
    await asyncio.sleep(seconds)
    return {"n": n}


@tool
def write_in_thread(ctx: Context, n: int, seconds: float = 0) -> dict[str, int]:
    """Change something, then hold a thread for a while."""
    with socket.create_connection(UPSTREAM) as connection, connection.makefile("rb") as answers:
        connection.sendall(line(ctx, n))
        if answers.readline() != b"done\n":
            raise ConnectionError("the upstream hung up")
    time.sleep(seconds)
    return {"n": n}


@tool
async def write_and_fail(ctx: Context, n: int, seconds: float = 0) -> None:
    """Change something, then break."""
    await tell(ctx, n)
    await asyncio.sleep(seconds)
    raise RuntimeError("what nobody may see")


@tool(hints=Hints(read_only=True))
async def read(ctx: Context, n: int, seconds: float = 0) -> dict[str, int]:
    """Look at something, then take a while."""
    await tell(ctx, n)
    await asyncio.sleep(seconds)
    return {"n": n}


@tool(hints=Hints(read_only=True))
async def weigh(n: int, text: str) -> int:
    """Say how long a text is."""
    return len(text)
