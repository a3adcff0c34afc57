"""What an MCP call costs: ToolHub with key, checks, limits and journal on, beside servers that do nothing but echo.

    python benchmarks/mcp.py [--fastmcp PYTHON] [--calls 2000] [--calls-only] [--transport stdio] [--era 2026-07-28]
    python benchmarks/mcp.py [--fastmcp PYTHON] [--starts 11] --starts-only
    python benchmarks/mcp.py --memory

Three tools: one that echoes, the same with a context, and one that asks an upstream on this machine. All servers get
the same requests from the same client in one run, taking turns. "SDK + commit" is the bare SDK that commits a row
before each answer, durably and in groups, as the hub does: the ceiling of everything that goes through the SDK. Server
and client run on a core each, where there are two. Compare within one run only; the processor time of the server per
call is the steadiest column. `--memory` instead calls ToolHub 100,000 times and opens 10,000 sessions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
TOOLS = 1000
PREFIX = "io.modelcontextprotocol/"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
TESTED = ("echo", "echo_with_context", "ask_upstream")
TICKS = os.sysconf("SC_CLK_TCK")
# Nothing asks these addresses: a list needs only that there is an account.
ACCOUNTS = {
    "N8N_URL": "http://127.0.0.1:1",
    "N8N_API_KEY": "unused",
    "REDMINE_HOST": "http://127.0.0.1:1",
    "REDMINE_API_KEY": "unused",
    "REDMINE_USER_ADMINISTRATION": "true",
}

# Answers every request with the same bytes.
UPSTREAM = """
import asyncio, json, sys
BODY = json.dumps([{"id": n, "name": f"Row {n}", "active": True} for n in range(20)]).encode()
HEAD = f"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: {len(BODY)}\\r\\n\\r\\n"
ANSWER = HEAD.encode() + BODY

class Server(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(ANSWER)

async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

BARE = """
import asyncio, os, queue, sqlite3, sys, tempfile, threading, time, uuid
import anyio, httpx2, uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
NAMES = ["echo", "echo_with_context", "ask_upstream"] + [f"tool_{n}" for n in range(int(sys.argv[2]))]
MANY = [Tool(name=name, description="One of many.", input_schema=SCHEMA) for name in NAMES]

class Journal:
    def __init__(self):
        self.entries = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with tempfile.TemporaryDirectory(dir=os.environ["TMPDIR"]) as folder:
            database = sqlite3.connect(folder + "/journal.sqlite3", isolation_level=None)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE calls (id TEXT PRIMARY KEY, tool TEXT, started REAL, answer TEXT)")
            while True:
                batch = [self.entries.get()]
                while not self.entries.empty():
                    batch.append(self.entries.get())
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT INTO calls VALUES (?, ?, ?, ?)", [row for _, row in batch])
                database.execute("COMMIT")
                batch[0][0].get_loop().call_soon_threadsafe(self.wake, [future for future, _ in batch])

    def wake(self, futures):
        for future in futures:
            future.done() or future.set_result(None)

    async def write(self, tool, text):
        future = asyncio.get_running_loop().create_future()
        self.entries.put((future, (uuid.uuid4().hex, tool, time.time(), text)))
        await future

journal = Journal() if sys.argv[3:] == ["commit"] else None
client = httpx2.AsyncClient(trust_env=False)

async def list_tools(ctx, params):
    return ListToolsResult(tools=MANY)

async def call_tool(ctx, params):
    text = params.arguments["message"]
    if params.name == "ask_upstream":
        text = (await client.get(os.environ["MEASURED_URL"] + "/rows")).json()[0]["name"]
    if journal is not None:
        await journal.write(params.name, text)
    return CallToolResult(content=[TextContent(type="text", text=text)])

server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)

async def stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

if sys.argv[1] == "stdio":
    anyio.run(stdio)
else:
    uvicorn.run(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
"""

FASTMCP = """
import os, sys
import httpx2
from fastmcp import Context, FastMCP
server = FastMCP("echo")
client = httpx2.AsyncClient(trust_env=False)

@server.tool
async def echo(message: str) -> str:
    "Echo."
    return message

@server.tool
async def echo_with_context(ctx: Context, message: str) -> str:
    "Echo."
    return message

@server.tool
async def ask_upstream(ctx: Context, message: str) -> str:
    "Ask the upstream."
    return (await client.get(os.environ["MEASURED_URL"] + "/rows")).json()[0]["name"]

for n in range(int(sys.argv[2])):
    server.tool(echo, name=f"tool_{n}", description="One of many.")
if sys.argv[1] == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    server.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="error")
"""

# `echo` is a shipped tool.
MEASURED = """
from toolhub import ConnectionKind, Context, Hints, Pack
from toolhub import tool

@tool(hints=Hints(read_only=True))
async def echo_with_context(ctx: Context, message: str) -> str:
    "Echo."
    return message

kind = ConnectionKind("Measured", url_variable="MEASURED_URL", secret_variable="MEASURED_KEY", header="X-Key")
pack = Pack("measured", connection=kind)

@pack.tool(hints=Hints(read_only=True))
async def ask_upstream(ctx: Context, message: str) -> str:
    "Ask the upstream."
    rows = await ctx.http.get("rows", operation="list rows")
    return rows[0]["name"]
"""

MANY = f"""
from toolhub import Hints, Pack
pack = Pack("many")

async def one(message: str) -> str:
    "One of many."
    return message

for n in range({TOOLS}):
    pack.tool(name=f"tool_{{n}}", hints=Hints(read_only=True))(one)
"""


# ---- the servers


@dataclass
class Contender:
    """A server to be measured: how it is started, and how it is spoken to."""

    name: str
    stdio: list[str]
    http: list[str]
    environment: dict[str, str]
    headers: dict[str, str] = field(default_factory=dict)


def contenders(home: Path, fastmcp: str | None, tools: int, upstream: str = "") -> Iterator[Contender]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "LOG_LEVEL": "warn",
        "TMPDIR": str(home),
        "MEASURED_URL": upstream,
    }
    environment.pop("DATABASE_URL", None)
    ours = {
        **environment,
        "TOOLHUB_HOME": str(home / f"home-{tools}"),
        "TOOLHUB_RATE_CALLS": "1000000",
        "TOOLHUB_KEY_RATE_CALLS": "1000000",
        "TOOLHUB_MCP_SESSIONS": "1000",
    }
    if tools or upstream:
        folder = home / f"tools-{tools}"
        folder.mkdir()
        (folder / "tools.py").write_text(MANY if tools else MEASURED)
        ours |= {"TOOLHUB_TOOLS_DIR": str(folder), "MEASURED_KEY": "unused", "MEASURED_ALLOW_HTTP": "true"}
    toolhub = [sys.executable, "-m", "toolhub"]
    subprocess.run([*toolhub, "synctools"], env=ours, check=True, capture_output=True)
    made = subprocess.run([*toolhub, "addkey", "benchmark"], env=ours, check=True, capture_output=True, text=True)
    key = made.stdout.split()[-1]
    yield Contender(
        "ToolHub",
        [*toolhub, "runmcp"],
        [*toolhub, "serve", "--port", "{port}"],
        ours,
        {"authorization": f"Bearer {key}"},
    )
    for name, python, text, more in (
        ("bare SDK", sys.executable, BARE, []),
        ("SDK + commit", sys.executable, BARE, ["commit"]),
        ("fastmcp", fastmcp, FASTMCP, []),
    ):
        # Lists and starts have nothing to commit.
        if python is not None and (upstream or not more):
            file = home / f"{name.split()[0]}_server.py"
            file.write_text(text)
            stdio, http = ([python, str(file), transport, str(tools), *more] for transport in ("stdio", "{port}"))
            yield Contender(name, stdio, http, environment)


class Process:
    """A running server, and what it has used of the processor and of memory."""

    def __init__(self, command: list[str], environment: dict[str, str], **pipes: Any) -> None:
        self.begun = time.perf_counter()
        self.popen = subprocess.Popen(
            command, env=environment, stderr=subprocess.DEVNULL, preexec_fn=lambda: pin(0), **pipes
        )

    def cpu(self) -> float:
        used = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(used[11]) + int(used[12])) / TICKS

    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def end(self) -> None:
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(15)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core]})


# ---- the client: bare messages, so that it costs little


def message(number: int, method: str, era: str, **params: Any) -> dict[str, Any]:
    if era == MODERN:
        params["_meta"] = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def hello() -> dict[str, Any]:
    client = {"name": "benchmark", "version": "1"}
    return message(0, "initialize", LEGACY, protocolVersion=LEGACY, capabilities={}, clientInfo=client)


INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Stdio:
    def __init__(self, contender: Contender, era: str) -> None:
        self.process = Process(contender.stdio, contender.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.era = era
        self.numbers = 0
        self.waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def open(self) -> float:
        """Seconds from the start of the process to its first answer."""
        loop = asyncio.get_running_loop()
        assert self.process.popen.stdin is not None
        assert self.process.popen.stdout is not None
        self.reader = asyncio.StreamReader(limit=2**25)
        protocol = asyncio.StreamReaderProtocol(self.reader)
        await loop.connect_read_pipe(lambda: protocol, self.process.popen.stdout)
        self.out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.process.popen.stdin)
        self.listening = asyncio.create_task(self.listen())
        if self.era == LEGACY:
            await self.send(hello())
        else:
            await self.send(message(0, "server/discover", MODERN))
        took = time.perf_counter() - self.process.begun
        if self.era == LEGACY:
            self.out.write(json.dumps(INITIALIZED).encode() + b"\n")
        return took

    async def listen(self) -> None:
        while line := await self.reader.readline():
            said = json.loads(line)
            if (future := self.waiting.pop(said.get("id"), None)) is not None and not future.done():
                future.set_result(said)

    async def send(self, request: dict[str, Any]) -> dict[str, Any]:
        future = self.waiting[request["id"]] = asyncio.get_running_loop().create_future()
        self.out.write(json.dumps(request).encode() + b"\n")
        return checked(await asyncio.wait_for(future, 60))

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.numbers += 1
        return await self.send(message(self.numbers, method, self.era, **params))

    async def close(self) -> None:
        self.out.close()
        await asyncio.to_thread(self.process.popen.wait, 10)
        self.listening.cancel()


class Http:
    """As many connections as there are requests at once."""

    def __init__(self, contender: Contender, era: str, port: int) -> None:
        self.contender = contender
        self.era = era
        self.port = port
        self.numbers = 0
        self.session: str | None = None
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self) -> None:
        if self.era == LEGACY:
            self.session = None
            _, headers = await self.send(hello())
            self.session = headers["mcp-session-id"]
            await self.send(INITIALIZED)

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.numbers += 1
        answer, _ = await self.send(message(self.numbers, method, self.era, **params))
        return answer

    async def send(self, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(request).encode()
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
            "mcp-protocol-version": self.era,
            **self.contender.headers,
        }
        if self.era == MODERN:
            headers["mcp-method"] = request["method"]
            if "name" in request["params"]:
                headers["mcp-name"] = request["params"]["name"]
        elif self.session is not None:
            headers["mcp-session-id"] = self.session
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        status, answered, content = await response(reader)
        self.idle.append((reader, writer))
        if status == 202:
            return {}, answered
        if answered.get("content-type", "").startswith("text/event-stream"):
            content = next(line[6:] for line in content.splitlines() if line.startswith(b"data: {"))
        return checked(json.loads(content)), answered

    async def close(self) -> None:
        for _, writer in self.idle:
            writer.close()
        self.idle.clear()


async def response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    if headers.get("transfer-encoding") != "chunked":
        return int(head[0].split()[1]), headers, await reader.readexactly(int(headers.get("content-length", 0)))
    content = b""
    while size := int(await reader.readline(), 16):
        content += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return int(head[0].split()[1]), headers, content


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer or answer["result"].get("isError"):
        raise RuntimeError(answer)
    return answer


@contextmanager
def serving(contender: Contender) -> Iterator[tuple[Process, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [part.format(port=port) for part in contender.http]
    process = Process(command, contender.environment, stdout=subprocess.DEVNULL)
    try:
        yield process, port
    finally:
        process.end()


async def answering(client: Http) -> None:
    for _ in range(300):
        try:
            await client.open()
            await client.request("tools/call", name="echo", arguments={"message": "hi"})
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{client.contender.name} does not answer")


# ---- the measurements


@dataclass
class Figures:
    rate: float
    p50: float
    p99: float
    cpu: float


async def measured(request: Callable[[], Awaitable[Any]], process: Process, calls: int, at_once: int) -> Figures:
    for _ in range(50):
        await request()
    samples: list[float] = []
    left = iter(range(calls))

    async def one_after_another() -> None:
        for _ in left:
            begun = time.perf_counter()
            await request()
            samples.append((time.perf_counter() - begun) * 1000)

    cpu, begun = process.cpu(), time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(at_once)))
    took, used = time.perf_counter() - begun, process.cpu() - cpu
    samples.sort()
    return Figures(calls / took, statistics.median(samples), samples[int(calls * 0.99) - 1], used / calls * 1000)


def call(client: Stdio | Http, tool: str) -> Callable[[], Awaitable[Any]]:
    return lambda: client.request("tools/call", name=tool, arguments={"message": "hi"})


@contextmanager
def loopback() -> Iterator[str]:
    """The URL of an upstream on this machine."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", UPSTREAM], text=True, **pipes) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        assert process.stdin is not None
        process.stdin.close()


async def calls_of(servers: list[Contender], options: argparse.Namespace) -> None:
    print(f"\n{options.calls} calls: calls/s, median and 99th of 100 in ms, processor ms of the server per call")
    print(f"{'':46}{'1 at once':>34}{'32 at once':>34}")
    for transport in options.transport or ("stdio", "http"):
        for era in options.era or (LEGACY, MODERN):
            rows: dict[tuple[str, str], list[Figures]] = {}
            for contender in servers:
                rows |= await figures_of(contender, transport, era, options.calls)
            for (tool, name), figures in sorted(rows.items(), key=lambda row: TESTED.index(row[0][0])):
                columns = "".join(f"{one.rate:10.0f} {one.p50:7.2f} {one.p99:7.2f} {one.cpu:7.3f}" for one in figures)
                print(f"{transport:6}{era:12}{tool:20}{name:14}{columns}{ratio(rows, tool, name)}", flush=True)


def ratio(rows: dict[tuple[str, str], list[Figures]], tool: str, name: str) -> str:
    """The rates, compared with those of fastmcp."""
    if name == "fastmcp" or (tool, "fastmcp") not in rows:
        return ""
    pairs = zip(rows[tool, name], rows[tool, "fastmcp"], strict=True)
    return "  " + " ".join(f"{own.rate / other.rate:5.2f}×" for own, other in pairs)


async def figures_of(
    contender: Contender, transport: str, era: str, calls: int
) -> dict[tuple[str, str], list[Figures]]:
    async def rows(client: Stdio | Http, process: Process) -> dict[tuple[str, str], list[Figures]]:
        return {
            (tool, contender.name): [await measured(call(client, tool), process, calls, n) for n in (1, 32)]
            for tool in TESTED
        }

    if transport == "stdio":
        stdio = Stdio(contender, era)
        await stdio.open()
        figures = await rows(stdio, stdio.process)
        await stdio.close()
    else:
        with serving(contender) as (process, port):
            http = Http(contender, era, port)
            await answering(http)
            figures = await rows(http, process)
            await http.close()
    return figures


async def lists_of(found: list[Contender]) -> None:
    print(f"\ntools/list of {TOOLS} tools: median ms, processor ms of the server")
    for contender in found:
        for era in (LEGACY, MODERN):
            client = Stdio(contender, era)
            await client.open()
            one = await measured(lambda: client.request("tools/list"), client.process, 60, 1)  # noqa: B023 - called here
            await client.close()
            print(f"stdio {era:12}{contender.name:16}{one.p50:9.2f} {one.cpu:8.2f}", flush=True)
        with serving(contender) as (_, port):
            http = Http(contender, MODERN, port)
            await answering(http)
            samples = []
            for _ in range(60):
                begun = time.perf_counter()
                await http.request("tools/list")
                samples.append((time.perf_counter() - begun) * 1000)
            await http.close()
            print(f"http  {MODERN:12}{contender.name:16}{statistics.median(samples):9.2f}", flush=True)


def hubs_with_packs(home: Path) -> Iterator[Contender]:
    """Two more hubs: all shipped packs have an account; no pack at all."""
    folder = home / "settings"
    folder.mkdir()
    (folder / "no_packs.py").write_text("from toolhub.settings import *\n\nTOOLHUB_PACKS = ()\n")
    path = os.pathsep.join((str(CHECKOUT), str(folder)))
    for name, own in (
        ("all packs", ACCOUNTS),
        ("no packs", {"DJANGO_SETTINGS_MODULE": "no_packs", "PYTHONPATH": path}),
    ):
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "LOG_LEVEL": "warn", **own}
        environment.pop("DATABASE_URL", None)
        environment["TOOLHUB_HOME"] = str(home / name.replace(" ", "-"))
        toolhub = [sys.executable, "-m", "toolhub"]
        subprocess.run([*toolhub, "synctools"], env=environment, check=True, capture_output=True)
        yield Contender(f"… {name}", [*toolhub, "runmcp"], [], environment)


async def starts_of(found: list[Contender], times: int) -> None:
    print(f"\nfrom the start of the process, median of {times}: ms to initialize, ms to the first list, its bytes")
    samples: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in found}
    sizes: dict[str, int] = {}
    for _ in range(times):  # Taking turns, so that all meet the same machine.
        for contender in found:
            client = Stdio(contender, LEGACY)
            opened = await client.open()
            listed = await client.request("tools/list")
            samples[contender.name].append((opened, time.perf_counter() - client.process.begun))
            sizes[contender.name] = len(json.dumps(listed))
            await client.close()
    for name, pairs in samples.items():
        middles = [statistics.median(values) * 1000 for values in zip(*pairs, strict=True)]
        print(f"{name:16}{middles[0]:9.0f} {middles[1]:9.0f} {sizes[name]:9}{against(samples, name, 'fastmcp')}")


def against(samples: dict[str, list[tuple[float, float]]], name: str, other: str) -> str:
    """The ratio of the times to the first list: the median over the rounds, each on the same machine load."""
    if other not in samples or other == name:
        return ""
    pairs = zip(samples[name], samples[other], strict=True)
    return f"   {statistics.median(own[1] / others[1] for own, others in pairs):.2f}× {other}"


async def memory_of(contender: Contender, calls: int, sessions: int) -> None:
    print("\nresident memory of ToolHub in MB")
    client = Stdio(contender, LEGACY)
    await client.open()
    for round_ in range(11):
        if round_:
            await measured(call(client, "echo"), client.process, calls // 10, 32)
        print(f"stdio, after {round_ * calls // 10:7} calls     {client.process.megabytes():7.1f}", flush=True)
    await client.close()
    with serving(contender) as (process, port):
        http = Http(contender, LEGACY, port)
        await answering(http)
        for round_ in range(11):
            for _ in range(sessions // 10 if round_ else 0):
                await http.open()
            print(f"http, after {round_ * sessions // 10:7} sessions   {process.megabytes():7.1f}", flush=True)
        await http.close()


async def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "calls").mkdir()
        if options.memory:
            await memory_of(next(contenders(home, None, 0)), 100_000, 10_000)
            return
        if not options.calls_only:
            servers = [*contenders(home, options.fastmcp, 0), *hubs_with_packs(home)]
            await starts_of(servers, options.starts)
        if options.starts_only:
            return
        with loopback() as upstream:
            await calls_of(list(contenders(home / "calls", options.fastmcp, 0, upstream)), options)
        if not options.calls_only:
            await lists_of(list(contenders(home, options.fastmcp, TOOLS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with fastmcp installed")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--starts", type=int, default=11)
    parser.add_argument("--starts-only", action="store_true")
    parser.add_argument("--calls-only", action="store_true")
    parser.add_argument("--transport", choices=["stdio", "http"], action="append")
    parser.add_argument("--era", choices=[LEGACY, MODERN], action="append")
    parser.add_argument("--memory", action="store_true")
    pin(-1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
