"""What the supervisor of child processes costs: its start, a call through it, and the memory of its processes.

    python benchmarks/children.py [--calls N]

The hop is the difference between a round trip over the pipes of a server and one through the supervisor, with the same
client, in turns. The server is twenty lines of the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from django.conf import settings  # noqa: E402

HOME = tempfile.mkdtemp(prefix="th-")
settings.configure(SECRET_KEY="benchmark" * 6, TOOLHUB_HOME=HOME, INSTALLED_APPS=[], TOOLHUB_VERSION="0")

from tools_app.base import hub  # noqa: E402
from tools_app.sdk.outside import Origin  # noqa: E402
from tools_app.upstream import children  # noqa: E402
from tools_app.upstream.children import client as children_client  # noqa: E402
from tools_app.upstream.children import runtime  # noqa: E402

SERVER = """
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        method = message["method"]
        if method == "tools/call":
            result = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
        else:
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\\n")
        sys.stdout.flush()
"""
COMMAND = (sys.executable, "-I", "-S", "-c", SERVER)
ROUNDS = 7
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def trips(stream: Stream, calls: int, at_once: int, text: str) -> list[float]:
    """Seconds of each round trip."""
    reader, writer = stream
    begun: dict[int, float] = {}
    taken: list[float] = []
    sent = 0
    while len(taken) < calls:
        while len(begun) < at_once and sent < calls:
            sent += 1
            params: dict[str, Any] = {"name": "echo", "arguments": {"text": text}, "_meta": {"progressToken": sent}}
            message = {"jsonrpc": "2.0", "id": sent, "method": "tools/call", "params": params}
            begun[sent] = time.perf_counter()
            writer.write(json.dumps(message).encode() + b"\n")
        answer = json.loads(await reader.readline())
        taken.append(time.perf_counter() - begun.pop(answer["id"]))
    return taken


async def compare(direct: Stream, through: Stream, calls: int) -> None:
    for name, at_once, size in (("20 bytes", 1, 20), ("20 bytes", 32, 20), ("100 kB", 1, 100_000)):
        count = calls if size < 1_000 else calls // 10
        times: dict[str, list[float]] = {"direct": [], "through": []}
        rates: dict[str, list[float]] = {"direct": [], "through": []}
        for _ in range(ROUNDS):
            for how, stream in (("direct", direct), ("through", through)):
                started = time.perf_counter()
                times[how] += await trips(stream, count, at_once, "x" * size)
                rates[how].append(count / (time.perf_counter() - started))
        p50 = {how: statistics.median(taken) * 1000 for how, taken in times.items()}
        p95 = {how: statistics.quantiles(taken, n=20)[18] * 1000 for how, taken in times.items()}
        rate = {how: statistics.median(found) for how, found in rates.items()}
        print(
            f"  {name:>8}, {at_once:>2} at once   pipe {p50['direct']:.3f} ms, p95 {p95['direct']:.3f}, "
            f"{rate['direct']:,.0f}/s   through {p50['through']:.3f} ms, p95 {p95['through']:.3f}, "
            f"{rate['through']:,.0f}/s   hop {p50['through'] - p50['direct']:.3f} ms",
            flush=True,
        )


def memory(pid: int) -> tuple[float, float]:
    """Resident and private memory of a process, in MiB."""
    rows = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    sizes = {row[0]: int(row[1]) / 1024 for row in rows if len(row) == 3 and row[2] == "kB"}
    return sizes["Rss:"], sizes["Private_Clean:"] + sizes["Private_Dirty:"]


def processes(directory: Path) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return sorted(pid for pid in pids if _runs_in(pid, directory))


def _runs_in(pid: int, directory: Path) -> bool:
    try:
        return str(directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def main(calls: int) -> None:
    origin = Origin("bench", "mcp_stdio", 1, command=COMMAND)
    directory = runtime.directory()
    begun = time.perf_counter()
    await asyncio.to_thread(hub.part(children_client.Attendance).begin, directory)
    print(f"start of the supervisor, until it answers   {(time.perf_counter() - begun) * 1000:.0f} ms")
    begun = time.perf_counter()
    through = await children.open_stream(origin, {}, seconds=30)
    print(f"start of a child, until its session begins  {(time.perf_counter() - begun) * 1000:.0f} ms")
    begun = time.perf_counter()
    more = await children.open_stream(origin, {}, seconds=30)
    print(f"another stream with it                      {(time.perf_counter() - begun) * 1000:.1f} ms")
    more[1].close()
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipes, stdout=pipes, limit=2**24)
    assert process.stdin
    assert process.stdout
    for stream in ((process.stdout, process.stdin), through):
        await trips(stream, 200, 1, "x")
    await compare((process.stdout, process.stdin), through, calls)
    for name, pid in zip(("guard", "supervisor", "keeper"), processes(directory), strict=False):
        resident, private = memory(pid)
        print(f"{name:<12} {resident:5.1f} MiB, {private:4.1f} of its own")
    process.stdin.close()
    await process.wait()
    through[1].close()
    await children.stop_all()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000, help="in each of seven rounds")
    try:
        asyncio.run(main(parser.parse_args().calls))
    finally:
        hub.current().close()
        end = time.monotonic() + 10
        while processes(Path(HOME)) and time.monotonic() < end:
            time.sleep(0.05)
        for root, directories, files in os.walk(HOME, topdown=False):
            for file in files:
                Path(root, file).unlink(missing_ok=True)
            for found in directories:
                Path(root, found).rmdir()
        Path(HOME).rmdir()
