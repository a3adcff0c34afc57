"""What an upstream sends costs no more than it may, measured in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.http.conftest import Client
from tests.support.faultd import Faultd, Wire
from tools_app.http import bodies
from tools_app.sdk.errors import ToolError

# Reads one fault, after something harmless, so that what is loaded once does not count.
PROGRAM = """
import asyncio, json, re, sys, time
from tools_app.sdk.errors import ToolError
from tools_app.http import ApiClient

async def read(fault):
    api = ApiClient(f"{sys.argv[1]}/{fault}", name="Faultd")
    try:
        return str(len(await api.get("a", operation="get a")))
    except ToolError as error:
        return error.code
    finally:
        await api.close()

def peak():
    # Not of getrusage, where a process begins with what its parent had.
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

asyncio.run(read("big:200000"))
before, begun = peak(), time.monotonic()
said = asyncio.run(read(sys.argv[2]))
print(json.dumps({"said": said, "grown": peak() - before, "seconds": time.monotonic() - begun}))
"""
MOST_GROWTH_MIB = 40


def measured(server: Faultd, fault: str) -> dict[str, Any]:
    program = [sys.executable, "-c", PROGRAM, server.url, fault]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=30)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much it was")
@pytest.mark.parametrize(
    "fault", [f"big:{10 * 1024 * 1024 + 1}", "endless", "bomb:gzip", "bomb:deflate", "bomb:gzip:gzip"]
)
def test_too_much_is_refused_before_it_fills_the_memory(server: Faultd, fault: str) -> None:
    found = measured(server, fault)
    assert found["said"] == "UPSTREAM_INVALID_RESPONSE"
    assert found["grown"] < MOST_GROWTH_MIB


@pytest.mark.anyio
async def test_what_is_just_small_enough_is_read(client: Client) -> None:
    assert len(await client("big:1000").get("a", operation="x")) == 998
    api = client("big:1001", most_bytes=1000)
    with pytest.raises(ToolError, match="the response of Faultd is too large: more than 0.000953674 MiB$") as caught:
        await api.get("a", operation="x")
    assert caught.value.next_step == "Request less: fewer items, a smaller page, or a part of it."
    assert len(await api.get("a", operation="x", most_bytes=1001)) == 999


@pytest.mark.anyio
async def test_more_values_than_are_taken_are_too_much_and_no_nonsense(client: Client) -> None:
    with pytest.raises(ToolError, match="is too large: more than 400,000 values$") as caught:
        await client("wide-json").get("a", operation="x")
    assert not caught.value.blames_upstream
    assert "Request less" in caught.value.next_step
    assert len(await client("wide-json").get("a", operation="x", most_bytes=64 * 1024 * 1024)) == 750_001


@pytest.mark.anyio
async def test_large_bodies_are_read_two_at_a_time(client: Client, upstream: Faultd) -> None:
    """One that does not end keeps its turn; two of them all turns."""
    size = bodies.MOST_BYTES + 1_000
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def slow(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size)
        await wire.send(b'"' + b"a" * (size - 2))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(release.wait(), loop))
        await wire.send(b'"')

    upstream.answer("slow", slow)

    async def read(fault: str) -> int:
        api = client(fault, timeout=60)
        return len(await api.get("a", operation="x", most_bytes=2 * size))

    first = [asyncio.create_task(read("slow")) for _ in range(bodies.LARGE_AT_ONCE)]
    async with asyncio.timeout(30):
        while not bodies._large().locked():  # noqa: ASYNC110 - nothing says when it is
            await asyncio.sleep(0.01)
    waiting = asyncio.create_task(read(f"big:{size}"))
    assert await read("big:1000") == 998, "what is small does not wait"
    await asyncio.sleep(0.2)
    assert not waiting.done()
    release.set()
    assert await asyncio.gather(*first, waiting) == [size - 2] * (bodies.LARGE_AT_ONCE + 1)


@pytest.mark.anyio
async def test_repetitive_text_is_accepted_at_any_compression_ratio() -> None:
    async def chunks() -> Any:
        yield zlib.compress(b" " * 9_000_000)

    async with AsyncExitStack() as held:
        assert len(await bodies.collect(chunks(), "deflate", "", 10_000_000, held)) == 9_000_000


def test_a_piece_is_unpacked_at_a_time() -> None:
    """64 KiB of a chunk that would become 50 MiB, however much of it there is."""
    inflater = bodies._Inflater(zlib.MAX_WBITS)
    assert len(next(inflater.pieces(zlib.compress(bytes(50 * 1024 * 1024))))) == 64 * 1024


def test_httpx_waits_until_it_is_needed() -> None:
    program = (
        "import sys, toolhub, tools_app.http; toolhub.ApiClient('https://n8n.test', name='n8n'); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"httpx", "httpx2", "httpcore2", "anyio", "h11", "certifi"} & set(loaded)
