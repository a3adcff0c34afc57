"""What a forwarded call costs: ToolHub with key, checks, limits and journal on, beside the proxy of fastmcp, which only
forwards.

    python benchmarks/sources.py [--fastmcp PYTHON] [--calls 2000] [--rounds 4] [--era 2025-11-25] [--starts 5]

The server elsewhere echoes; it is a few lines of the standard library, over stdio and over HTTP. The client speaks HTTP
to all contenders, in one run, taking turns. "own echo" is a tool of the hub itself: the difference is what forwarding
adds. The starts compare `runmcp` of a hub with 20 sources with one that has none. Compare within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

# benchmarks/mcp.py: the folder of this script comes first.
from mcp import CHECKOUT, LEGACY, MODERN, Contender, Figures, Http, Process, Stdio, answering, call, measured, serving

SOURCES = 20
# Tools of the hub: its own, and those of the server elsewhere.
TOOLS = {"own": "echo", "stdio": "stdio_echo", "http": "http_echo"}

ECHO = """
import json, sys

TOOL = {"name": "echo", "description": "Echo.", "annotations": {"readOnlyHint": True},
    "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}}
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}

def answer(request):
    if "id" not in request:
        return None
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], **INFO}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["message"]}]}
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": "Method not found"}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
"""

OVER_STDIO = (
    ECHO
    + """
for line in sys.stdin.buffer:
    if (message := answer(json.loads(line))) is not None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\\n")
        sys.stdout.buffer.flush()
"""
)

OVER_HTTP = (
    ECHO
    + """
import asyncio

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().split("\\r\\n")
            length = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(*length or [0]))
            if not head[0].startswith("POST"):
                writer.write(b"HTTP/1.1 405 Method Not Allowed\\r\\nContent-Length: 0\\r\\n\\r\\n")
            elif (message := answer(json.loads(body))) is None:
                writer.write(b"HTTP/1.1 202 Accepted\\r\\nContent-Length: 0\\r\\n\\r\\n")
            else:
                content = json.dumps(message).encode()
                writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n")
                writer.write(f"Content-Length: {len(content)}\\r\\n\\r\\n".encode() + content)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""
)

PROXY = """
import asyncio, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, target = int(sys.argv[1]), sys.argv[2]

async def main():
    # One connection is kept: a proxy made from an address connects anew for each request, which takes 20 times as long.
    async with Client(target if target.startswith("http") else StdioTransport(sys.executable, [target])) as client:
        proxy = create_proxy(client, name="proxy")
        await proxy.run_async(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="ERROR")

asyncio.run(main())
"""


@contextmanager
def upstream(folder: Path) -> Iterator[tuple[Path, str]]:
    """The echo server: its file for stdio, and its URL."""
    over_stdio, over_http = folder / "over_stdio.py", folder / "over_http.py"
    over_stdio.write_text(OVER_STDIO)
    over_http.write_text(OVER_HTTP)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(over_http)], text=True, **pipes) as process:
        assert process.stdout is not None
        yield over_stdio, f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        assert process.stdin is not None
        process.stdin.close()


def hub(home: Path, over_stdio: Path | None, url: str, sources: int = 0) -> Contender:
    """A hub with the echo server as two sources, or with many, or none."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "LOG_LEVEL": "warn",
        "TMPDIR": str(home.parent),
        "TOOLHUB_HOME": str(home),
        "TOOLHUB_RATE_CALLS": "1000000",
        "TOOLHUB_KEY_RATE_CALLS": "1000000",
    }
    environment.pop("DATABASE_URL", None)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "toolhub", *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    run("synctools")
    added = []
    if over_stdio is not None:
        names = [f"source{number}" for number in range(sources)] or ["stdio"]
        for name in names:
            run("source", "add", name, "--command", sys.executable, str(over_stdio))
        if not sources:
            run("source", "add", "http", "--url", url, "--internal")
            names.append("http")
        for name in names:
            run("source", "on", name)
            run("source", "approve", name, "--enable", "--accept-hints")
        added = names
        # Agents reach tools of sources outside through a toolset only.
        made = f"governance.create_toolset('all', packs={names!r}, actor=governance.trusted('benchmark'))"
        run("shell", "--no-imports", "-c", f"from tools_app import governance; {made}")
    key = run("addkey", "benchmark", "--scope", "admin:*", "--scope", "tools:execute", "--scope", "tools:list").split()[
        -1
    ]
    toolhub = [sys.executable, "-m", "toolhub"]
    return Contender(
        f"ToolHub, {len(added)} sources",
        [*toolhub, "runmcp", *(["--toolset", "all"] if added else [])],
        [*toolhub, "serve", "--port", "{port}"],
        environment,
        {"authorization": f"Bearer {key}"},
    )


def proxies(folder: Path, fastmcp: str, targets: dict[str, str]) -> Iterator[tuple[str, Contender]]:
    file = folder / "proxy.py"
    file.write_text(PROXY)
    environment = {**os.environ, "TMPDIR": str(folder)}
    for transport, target in targets.items():
        yield transport, Contender("fastmcp proxy", [], [fastmcp, str(file), "{port}", target], environment)


async def calls_of(folder: Path, options: argparse.Namespace, over_stdio: Path, url: str) -> None:
    print(
        f"{options.calls} calls over HTTP, {options.era}: calls/s, median and 99th of 100 in ms, processor ms per call;"
        f" medians of {options.rounds} rounds"
    )
    print(f"{'':40}{'1 at once':>34}{'32 at once':>34}")
    rows: dict[tuple[str, str], list[list[Figures]]] = {}
    with ExitStack() as stack:
        ours = hub(folder / "home", over_stdio, url)
        running = stack.enter_context(serving(ours))
        turns = [("ToolHub", name, ours, running, tool) for name, tool in TOOLS.items()]
        if options.fastmcp:
            for name, proxy in proxies(folder, options.fastmcp, {"stdio": str(over_stdio), "http": url}):
                turns.append(("fastmcp proxy", name, proxy, stack.enter_context(serving(proxy)), "echo"))
        for _ in range(options.rounds):  # Taking turns, so that all meet the same machine.
            for who, name, contender, (process, port), tool in turns:
                client = Http(contender, options.era, port)
                await answering(client)
                row = [await figures(client, tool, process, options.calls // options.rounds, n) for n in (1, 32)]
                rows.setdefault((who, name), []).append(row)
                await client.close()
    shown = {key: [_median(column) for column in zip(*rounds, strict=True)] for key, rounds in rows.items()}
    for (who, name), row in shown.items():
        columns = "".join(f"{one.rate:10.0f} {one.p50:7.2f} {one.p99:7.2f} {one.cpu:7.3f}" for one in row)
        print(f"{who:16}{name + ' echo':24}{columns}  {_ratios(rows, name) if who == 'ToolHub' else ''}", flush=True)
    own, stdio, http = (shown["ToolHub", name][0].p50 for name in TOOLS)
    print(f"forwarding adds to a lone call: {stdio - own:.2f} ms over stdio, {http - own:.2f} ms over HTTP")


def _median(samples: Sequence[Figures]) -> Figures:
    return Figures(*(statistics.median(values) for values in zip(*map(astuple, samples), strict=True)))


def _ratios(rows: dict[tuple[str, str], list[list[Figures]]], name: str) -> str:
    """Calls per second, and processor time per call, against the proxy in the same round: medians, 1 and 32 at once."""
    if ("fastmcp proxy", name) not in rows:
        return ""
    pairs = list(zip(rows["ToolHub", name], rows["fastmcp proxy", name], strict=True))
    rates = [statistics.median(a[n].rate / b[n].rate for a, b in pairs) for n in (0, 1)]
    cpu = [statistics.median(a[n].cpu / b[n].cpu for a, b in pairs) for n in (0, 1)]
    return " ".join(f"{ratio:5.2f}×" for ratio in (*rates, *cpu))


async def figures(client: Http, tool: str, process: Process, calls: int, at_once: int) -> Figures:
    return await measured(call(client, tool), process, calls, at_once)


async def starts_of(folder: Path, times: int, over_stdio: Path) -> None:
    contenders = [hub(folder / "few", None, ""), hub(folder / "many", over_stdio, "", SOURCES)]
    samples: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(times):  # Taking turns, so that both meet the same machine.
        for contender in contenders:
            client = Stdio(contender, LEGACY)
            await client.open()
            await client.request("tools/list")
            samples[contender.name].append(time.perf_counter() - client.process.begun)
            await client.close()
    few, many = samples.values()
    ratio = statistics.median(b / a for a, b in zip(few, many, strict=True))
    print(f"\nfrom the start of runmcp to its first list, median of {times}, in ms:")
    for name, values in samples.items():
        print(f"{name:24}{statistics.median(values) * 1000:9.0f}")
    print(f"with {SOURCES} sources: {ratio:.2f}×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp", metavar="PYTHON", help="a Python with fastmcp 4")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--era", default=LEGACY, choices=(LEGACY, MODERN))
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with upstream(folder) as (over_stdio, url):
            if options.calls:
                asyncio.run(calls_of(folder, options, over_stdio, url))
            if options.starts:
                asyncio.run(starts_of(folder, options.starts, over_stdio))


if __name__ == "__main__":
    main()
