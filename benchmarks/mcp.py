"""What an MCP call costs: ToolHub with key, checks, limits and journal on, beside servers that do nothing but echo.

    python benchmarks/mcp.py [--fastmcp PYTHON] [--calls 2000] [--starts 11] [--memory]

All servers, the bare SDK's and fastmcp's among them, get the same requests from the same client in one run, taking
turns. Server and client run on a core each, where there are two. Compare within one run only; the processor time of
the server per call is the steadiest column. `--memory` instead calls ToolHub 100,000 times and opens 10,000 sessions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
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
PORT = 38_200
TOOLS = 1000
PREFIX = "io.modelcontextprotocol/"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
TICKS = os.sysconf("SC_CLK_TCK")

BARE = """
import sys
import anyio, uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
MANY = [Tool(name="echo", description="Echo.", input_schema=SCHEMA)]
MANY += [Tool(name=f"tool_{n}", description="One of many.", input_schema=SCHEMA) for n in range(int(sys.argv[2]))]

async def list_tools(ctx, params):
    return ListToolsResult(tools=MANY)

async def call_tool(ctx, params):
    return CallToolResult(content=[TextContent(type="text", text=params.arguments["message"])])

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
import sys
from fastmcp import FastMCP
server = FastMCP("echo")

async def echo(message: str) -> str:
    "Echo."
    return message

server.tool(echo)
for n in range(int(sys.argv[2])):
    server.tool(echo, name=f"tool_{n}", description="One of many.")
if sys.argv[1] == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    server.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="error")
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


def contenders(home: Path, fastmcp: str | None, tools: int) -> Iterator[Contender]:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "LOG_LEVEL": "warn"}
    environment.pop("DATABASE_URL", None)
    ours = {
        **environment,
        "TOOLHUB_HOME": str(home / f"home-{tools}"),
        "TOOLHUB_RATE_CALLS": "1000000",
        "TOOLHUB_KEY_RATE_CALLS": "1000000",
        "TOOLHUB_MCP_SESSIONS": "1000",
    }
    if tools:
        (home / "many").mkdir(exist_ok=True)
        (home / "many" / "many.py").write_text(MANY)
        ours["TOOLHUB_TOOLS_DIR"] = str(home / "many")
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
    for name, python, text in (("bare SDK", sys.executable, BARE), ("fastmcp", fastmcp, FASTMCP)):
        if python is not None:
            file = home / f"{name.split()[0]}_server.py"
            file.write_text(text)
            yield Contender(
                name, [python, str(file), "stdio", str(tools)], [python, str(file), "{port}", str(tools)], environment
            )


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
def serving(contender: Contender, port: int) -> Iterator[Process]:
    command = [part.format(port=port) for part in contender.http]
    process = Process(command, contender.environment, stdout=subprocess.DEVNULL)
    try:
        yield process
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


def echo(client: Stdio | Http) -> Callable[[], Awaitable[Any]]:
    return lambda: client.request("tools/call", name="echo", arguments={"message": "hi"})


async def calls_of(found: list[Contender], calls: int) -> None:
    print(f"\ntools/call echo, {calls} calls: calls/s, median and 99th of 100 in ms, processor ms of the server a call")
    print(f"{'':34}{'1 at once':>34}{'32 at once':>34}")
    for transport in ("stdio", "http"):
        for era in (LEGACY, MODERN):
            for number, contender in enumerate(found):
                await one_row(contender, transport, era, PORT + number, calls)


async def one_row(contender: Contender, transport: str, era: str, port: int, calls: int) -> None:
    if transport == "stdio":
        client = Stdio(contender, era)
        await client.open()
        row = [await measured(echo(client), client.process, calls, at_once) for at_once in (1, 32)]
        await client.close()
    else:
        with serving(contender, port) as process:
            http = Http(contender, era, port)
            await answering(http)
            row = [await measured(echo(http), process, calls, at_once) for at_once in (1, 32)]
            await http.close()
    told = "".join(f"{one.rate:10.0f} {one.p50:7.2f} {one.p99:7.2f} {one.cpu:7.3f}" for one in row)
    print(f"{transport:6}{era:12}{contender.name:16}{told}", flush=True)


async def lists_of(found: list[Contender]) -> None:
    print(f"\ntools/list of {TOOLS} tools: median ms, processor ms of the server")
    for number, contender in enumerate(found):
        for era in (LEGACY, MODERN):
            client = Stdio(contender, era)
            await client.open()
            one = await measured(lambda: client.request("tools/list"), client.process, 60, 1)  # noqa: B023 - called here
            await client.close()
            print(f"stdio {era:12}{contender.name:16}{one.p50:9.2f} {one.cpu:8.2f}", flush=True)
        with serving(contender, PORT + number):
            http = Http(contender, MODERN, PORT + number)
            await answering(http)
            samples = []
            for _ in range(60):
                begun = time.perf_counter()
                await http.request("tools/list")
                samples.append((time.perf_counter() - begun) * 1000)
            await http.close()
            print(f"http  {MODERN:12}{contender.name:16}{statistics.median(samples):9.2f}", flush=True)


async def starts_of(found: list[Contender], times: int) -> None:
    print(f"\nfrom the start of the process, median of {times}: ms to initialize, ms to the first list")
    samples: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in found}
    for _ in range(times):  # Taking turns, so that all meet the same machine.
        for contender in found:
            client = Stdio(contender, LEGACY)
            opened = await client.open()
            await client.request("tools/list")
            samples[contender.name].append((opened, time.perf_counter() - client.process.begun))
            await client.close()
    for name, pairs in samples.items():
        middles = [statistics.median(values) * 1000 for values in zip(*pairs, strict=True)]
        print(f"{name:16}{middles[0]:9.0f} {middles[1]:9.0f}")


async def memory_of(contender: Contender, calls: int, sessions: int) -> None:
    print("\nresident memory of ToolHub in MB")
    client = Stdio(contender, LEGACY)
    await client.open()
    for round_ in range(11):
        if round_:
            await measured(echo(client), client.process, calls // 10, 32)
        print(f"stdio, after {round_ * calls // 10:7} calls     {client.process.megabytes():7.1f}", flush=True)
    await client.close()
    with serving(contender, PORT) as process:
        http = Http(contender, LEGACY, PORT)
        await answering(http)
        for round_ in range(11):
            for _ in range(sessions // 10 if round_ else 0):
                await http.open()
            print(f"http, after {round_ * sessions // 10:7} sessions   {process.megabytes():7.1f}", flush=True)
        await http.close()


async def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if options.memory:
            await memory_of(next(contenders(home, None, 0)), 100_000, 10_000)
            return
        found = list(contenders(home, options.fastmcp, 0))
        await starts_of(found, options.starts)
        await calls_of(found, options.calls)
        await lists_of(list(contenders(home, options.fastmcp, TOOLS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with fastmcp installed")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--starts", type=int, default=11)
    parser.add_argument("--memory", action="store_true")
    pin(-1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
