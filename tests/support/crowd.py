"""Many sources outside at once: over HTTP in one process that misbehaves as it is told, and as small programs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.processes import Home

LONG_SECONDS: Final = 300
# What an agent needs to have the tools of all sources that were added here.
TOOLSET: Final = ("--toolset", "crowd")
GOOD: Final = "good"
# Refuses connections, never answers, answers late, sends what is no message, sends too much.
BAD: Final = ("dead", "hanging", "late", "garbage", "huge")

# Standard library only: a hundred of them start within seconds.
_ANSWERS: Final = '''
import json, os, sys, time

def tool(name, read_only):
    return {"name": name, "description": "A tool.", "annotations": {"readOnlyHint": read_only},
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "seconds": {"type": "number"}}}}

TOOLS = [tool("echo", True), tool("count", True), tool("work", False)]
counted = [0]

def answer(request):
    """The answer to a message; None for a notification."""
    if "id" not in request:
        return None
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "one of many", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        arguments = params.get("arguments") or {}
        words = arguments.get("text", "")
        if params["name"] == "count":
            counted[0] += 1
            words = f"{os.getpid()} {counted[0]}"
        result = {"content": [{"type": "text", "text": words}]}
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": "Method not found"}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
'''

_PROGRAM: Final = (
    _ANSWERS
    + """
log, start_seconds = sys.argv[1], float(sys.argv[2])

def note(what):
    with open(log, "a") as file:
        file.write(f"{what} {os.getpid()} {time.monotonic()}\\n")

note("begun")
time.sleep(start_seconds)
for line in sys.stdin.buffer:
    request = json.loads(line)
    if request.get("method") == "tools/call" and request["params"]["name"] == "work":
        note("working")
        time.sleep(request["params"]["arguments"].get("seconds", 0))
    if (message := answer(request)) is not None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\\n")
        sys.stdout.buffer.flush()
    if request.get("method") == "initialize":
        note("up")
"""
)

_SERVERS: Final = (
    _ANSWERS
    + """
import asyncio

JUNK = b"\\xff{[not json" * 87_382  # 1 MiB
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
STREAM = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nConnection: close\\r\\n\\r\\ndata: "

class Server:
    def __init__(self):
        self.mode, self.listening, self.port, self.turn = "good", None, 0, 0
        self.writers = set()

    async def listen(self):
        self.listening = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self.listening.sockets[0].getsockname()[1]

    async def become(self, mode):
        self.mode = mode
        if mode == "dead" and self.listening is not None:
            self.listening.close()
            self.listening = None
        elif mode != "dead" and self.listening is None:
            await self.listen()
        for writer in list(self.writers):
            writer.close()

    async def serve(self, reader, writer):
        self.writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().split("\\r\\n")
                length = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
                body = await reader.readexactly(int(*length or [0]))
                if not head[0].startswith("POST"):
                    writer.write(b"HTTP/1.1 405 Method Not Allowed\\r\\nContent-Length: 0\\r\\n\\r\\n")
                    continue
                await self.misbehave(writer)
                if (message := answer(json.loads(body))) is None:
                    writer.write(b"HTTP/1.1 202 Accepted\\r\\nContent-Length: 0\\r\\n\\r\\n")
                else:
                    content = json.dumps(message).encode()
                    writer.write(HEAD % len(content) + content)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def misbehave(self, writer):
        if self.mode == "hanging":
            await asyncio.sleep(3600)
        elif self.mode == "late":
            await asyncio.sleep(15)
        elif self.mode == "garbage":
            writer.write(HEAD % len(JUNK) + JUNK)
            await writer.drain()
            raise OSError
        elif self.mode == "huge":
            # 100 MiB, as one body and as one line of a stream.
            self.turn += 1
            writer.write(HEAD % (100 * 2**20) if self.turn % 2 else STREAM)
            for _ in range(100):
                writer.write(JUNK[:2**20].ljust(2**20))
                await writer.drain()
            raise OSError

async def main():
    servers = [Server() for _ in range(int(sys.argv[1]))]
    for server in servers:
        await server.listen()
    print(json.dumps([server.port for server in servers]), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        for number, mode in json.loads(line).items():
            await servers[int(number)].become(mode)
        print("done", flush=True)

asyncio.run(main())
"""
)

_ADD: Final = """
import json
from tools_app import governance
from tools_app.models import Source

actor = governance.of_command()
sources = json.loads(input())
for name, where in sources.items():
    if isinstance(where, str):
        governance.add_source(name, kind=Source.Kind.MCP_HTTP, location=where, internal=True, actor=actor)
    else:
        governance.add_source(name, kind=Source.Kind.MCP_STDIO, command=where, actor=actor)
    governance.change_source(name, enabled=True, actor=actor)
    governance.describe_source(name, actor=actor)
    governance.approve_tools(name, enable=True, accept_hints=True, actor=actor)
governance.create_toolset("crowd", packs=list(sources), actor=actor)
"""


@dataclass
class Servers:
    """Servers over HTTP, all in one process."""

    process: subprocess.Popen[str]
    ports: Sequence[int]

    def urls(self) -> dict[str, str]:
        return {f"http{number}": f"http://127.0.0.1:{port}/mcp" for number, port in enumerate(self.ports)}

    def become(self, modes: Mapping[int, str]) -> None:
        """Change how some behave, also to who is connected."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(dict(modes)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def servers(folder: Path, number: int) -> Iterator[Servers]:
    file = folder / "servers.py"
    file.write_text(_SERVERS)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(file), str(number)], text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            yield Servers(process, json.loads(process.stdout.readline()))
        finally:
            process.kill()


@dataclass
class Programs:
    """Servers over stdio, and what they have noted."""

    file: Path
    log: Path
    start_seconds: float = 0.0

    @classmethod
    def of(cls, folder: Path, start_seconds: float = 0.0) -> Programs:
        made = cls(folder / "program.py", folder / "programs.log", start_seconds)
        made.file.write_text(_PROGRAM)
        made.log.touch()
        return made

    def commands(self, number: int) -> dict[str, list[str]]:
        # The number makes each command another one.
        words = [sys.executable, "-I", "-S", str(self.file), str(self.log), str(self.start_seconds)]
        return {f"child{one}": [*words, str(one)] for one in range(number)}

    def noted(self, what: str) -> list[tuple[int, float]]:
        """When, and in which process."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(int(pid), float(at)) for name, pid, at in lines if name == what]

    def most_at_once(self) -> int:
        """How many were starting at the same time."""
        up = dict(self.noted("up"))
        changes = [(at, 1) for _, at in self.noted("begun")]
        changes += [(up[pid], -1) for pid, _ in self.noted("begun") if pid in up]
        most = now = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most


def add(home: Home, sources: Mapping[str, str | Sequence[str]]) -> None:
    """Add sources, approve and switch on their tools, select them in a toolset: in one process, which is faster."""
    done = subprocess.run(
        [sys.executable, "-m", "toolhub", "shell", "-c", _ADD],
        input=json.dumps(dict(sources)) + "\n",
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the supervisor of the programs


def supervisor_processes(home: Home) -> list[int]:
    """Guard, supervisor and keepers of a hub."""
    found = []
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not directory.name.isdecimal():
                continue
            command = (directory / "cmdline").read_bytes()
            if b"supervisor import guard" in command and str(home.path).encode() in command:
                found.append(int(directory.name))
    return sorted(found)


def supervisor_of(home: Home) -> int:
    """The process between guard and keepers."""
    own = supervisor_processes(home)
    parents = {}
    for pid in own:
        with contextlib.suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    (found,) = {parent for pid, parent in parents.items() if parents.get(parent) in own}
    return found


def ended(home: Home) -> None:
    """Wait until the supervisor has ended, since no process of the hub is left."""
    until(lambda: not supervisor_processes(home))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)
