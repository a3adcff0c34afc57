"""What our way out adds to bare httpx, in one run on one machine, and the memory that 10 MB of JSON take.

    python benchmarks/upstream.py [--calls N]

Both read the same small JSON from the same server, which is a process of its own. httpx reads whole bodies without a
limit of size or time; we count, check and keep a deadline.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

import httpx  # noqa: E402

from tools_app.http import ApiClient  # noqa: E402

AT_ONCE = 10
ROUNDS = 5
TEN_MB = 10_000_000

# Answers every request with the same bytes, as little work as possible for the machine that measures.
SERVER = """
import asyncio, json, sys
SMALL = json.dumps({"data": [{"id": str(n), "name": f"Workflow {n}", "active": True} for n in range(20)]}).encode()
ROW = {"id": 1, "name": "Some words that a row would have", "tags": ["a", "b"], "value": 12.5}
BIG = json.dumps([ROW] * (int(sys.argv[1]) // len(json.dumps(ROW)))).encode()

def answer(body):
    head = f"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    return head.encode() + body

SMALL, BIG = answer(SMALL), answer(BIG)

class Server(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(BIG if b" /big" in data else SMALL)

async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

# Reads 10 MB one way, in a process of its own: what its memory grew by at most, and how long it took.
READER = """
import asyncio, json, re, sys, time
import httpx
from tools_app.http import ApiClient

async def ours(url):
    api = ApiClient(url, name="server")
    await api.get("small", operation="x")
    before, begun = peak(), time.perf_counter()
    found = await api.get("big", operation="x")
    said = peak() - before, time.perf_counter() - begun
    await api.close()
    return said

async def bare(url):
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.get(url + "/small")).json()
        before, begun = peak(), time.perf_counter()
        found = (await client.get(url + "/big")).json()
        return peak() - before, time.perf_counter() - begun

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

print(*asyncio.run(globals()[sys.argv[1]](sys.argv[2])))
"""

Once = Callable[[], Awaitable[Any]]


async def microseconds(once: Once, calls: int, at_once: int) -> float:
    async def client() -> None:
        for _ in range(calls // at_once):
            await once()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(at_once)))
    return (time.perf_counter() - begun) / calls * 1e6


async def compared(url: str, calls: int) -> None:
    api = ApiClient(url, name="server", secrets={"X-API-Key": "benchmark"}).for_call("0" * 32, lambda: 30.0)
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(headers={"X-API-Key": "benchmark"}, trust_env=False, limits=limits) as client:

        async def bare() -> Any:
            response = await client.get(f"{url}/workflows/7", params={"limit": 10})
            response.raise_for_status()
            return response.json()

        async def ours() -> Any:
            return await api.get("workflows", 7, params={"limit": 10}, operation="get workflow", resource="Workflow")

        for at_once in (1, AT_ONCE):
            await microseconds(bare, 200, at_once)
            await microseconds(ours, 200, at_once)
            # In turns, so that what else the machine does meets both.
            rounds = [
                (await microseconds(bare, calls, at_once), await microseconds(ours, calls, at_once))
                for _ in range(ROUNDS)
            ]
            theirs, own = (statistics.median(times) for times in zip(*rounds, strict=True))
            print(
                f"  {at_once:>2} at once   httpx {theirs:7.0f} µs   ours {own:7.0f} µs   {own / theirs:.2f}×",
                flush=True,
            )
    await api.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000, help="in each of five rounds")
    calls = parser.parse_args().calls
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(TEN_MB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stdin
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        print("A call, to an answer of 1 KB:")
        asyncio.run(compared(url, calls))
        if Path("/proc/self/status").exists():
            print("Reading 10 MB of JSON as Python values:")
            for name, how in (("httpx", "bare"), ("ours", "ours")):
                reading = [sys.executable, "-c", READER, how, url]
                ran = subprocess.run(reading, capture_output=True, text=True, check=True, cwd=CHECKOUT)
                grown, seconds = re.findall(r"[\d.]+", ran.stdout)
                print(f"  {name:<6} {float(grown):6.0f} MiB more at most   {float(seconds) * 1000:6.0f} ms", flush=True)
        server.stdin.close()


if __name__ == "__main__":
    main()
