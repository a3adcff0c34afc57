"""A home whose supervisor is watched: after each test no process of it may be left, and no error in its log."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools_app.sdk.outside import Origin
from tools_app.upstream import children
from tools_app.upstream.children import runtime
from tools_app.upstream.children.client import Stream

SERVER: Final = str(Path(__file__).with_name("servers.py"))
PYTHON: Final = (sys.executable, "-I", "-S")
SECONDS: Final = 30.0
# Closed at the end of each test, within its event loop.
OPENED: Final[list[Client]] = []


@dataclass
class Den:
    """A hub's home with its supervisor."""

    home: Path
    # Everything that was started for it: its marker is in the environment of each.
    markers: set[str] = field(default_factory=set)

    @property
    def directory(self) -> Path:
        return self.home / runtime.NAME

    def start(self, **limits: float) -> None:
        """Start a supervisor with other limits than usual."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        runtime.start(self.directory, json.dumps({"tick": 0.05, **limits}))
        until(lambda: (self.directory / "socket").exists())

    def note(self) -> None:
        """Remember how the processes of the present supervisor can be recognised."""
        # A supervisor that ends removes it.
        with contextlib.suppress(FileNotFoundError):
            self.markers.add((self.directory / "marker").read_text())

    def processes(self) -> list[int]:
        """The guard, the supervisor, keepers, children and what they have started. No zombies."""
        self.note()
        marks = [str(self.directory).encode(), *(marker.encode() for marker in self.markers)]
        found = []
        for directory in Path("/proc").iterdir():
            if not directory.name.isdecimal() or int(directory.name) == os.getpid():
                continue
            try:
                seen = (directory / "cmdline").read_bytes() + (directory / "environ").read_bytes()
            except OSError:
                continue
            if any(mark in seen for mark in marks):
                found.append(int(directory.name))
        return found

    def supervisors(self) -> list[int]:
        """The processes that run the supervisor's program: guard, supervisor and keepers."""
        found = []
        for pid in self.processes():
            try:
                if str(self.directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return sorted(found)

    def is_free(self) -> bool:
        """Whether no supervisor holds the lock."""
        with (self.directory / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def errors(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "errors.log").read_text()
        return ""


def origin(*modes: str, name: str = "double", epoch: int = 1, **more: Any) -> Origin:
    """The test server in these modes."""
    command = more.pop("command", (*PYTHON, SERVER, *modes))
    return Origin(name, "mcp_stdio", epoch, command=command, **more)


class Client:
    """One stream, as a session of the hub uses it."""

    def __init__(self, stream: Stream) -> None:
        self.reader, self.writer = stream
        self._last = 0
        self.others: list[dict[str, Any]] = []
        self._answers: dict[Any, dict[str, Any]] = {}
        OPENED.append(self)

    def send(self, message: dict[str, Any]) -> None:
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params or {}})
        return self._last

    def begin(self, tool: str, **arguments: Any) -> int:
        meta = {"progressToken": f"token {self._last + 1}"}
        return self.ask("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})

    async def read(self) -> dict[str, Any] | None:
        """The next message; None at the end of the stream."""
        async with asyncio.timeout(SECONDS):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    async def answer(self, identifier: int) -> dict[str, Any]:
        while identifier not in self._answers:
            message = await self.read()
            assert message is not None, "the stream has ended"
            if "method" in message:
                self.others.append(message)
            else:
                self._answers[message["id"]] = message
        return self._answers.pop(identifier)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self.answer(self.ask(method, params))

    async def call(self, tool: str, **arguments: Any) -> str:
        answer = await self.answer(self.begin(tool, **arguments))
        assert "result" in answer, answer
        return str(answer["result"]["content"][0]["text"])

    async def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.call("state"))
        return found

    async def ended(self) -> None:
        """Wait for the end of the stream."""
        with contextlib.suppress(ConnectionError):  # it did not read all that was sent
            while await self.read() is not None:
                pass

    def close(self) -> None:
        self.writer.close()


async def opened(source: Origin, seconds: float = SECONDS, **environment: str) -> Client:
    return Client(await children.open_stream(source, environment, seconds=seconds))


def until(holds: Callable[[], Any], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


async def happens(holds: Callable[[], Any], seconds: float = SECONDS) -> None:
    await asyncio.to_thread(until, holds, seconds)


async def comes(holds: Callable[[], Awaitable[Any]], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stat(pid: int, name: str) -> str:
    """What /proc has of a process."""
    return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")


def parent(pid: int) -> int:
    return int(stat(pid, "stat").rpartition(")")[2].split()[1])


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


# A process of a hub of its own: opens streams as it is told, one line for each, and says what it got.
HUB: Final = """
import asyncio, json, os, sys
import django
os.environ |= {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_ENV_FILE": os.devnull}
os.environ["TOOLHUB_HOME"] = sys.argv[1]
django.setup()
from tests.upstream.children.support import opened, origin
async def main():
    clients = []
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        order = json.loads(line)
        if "modes" in order:
            clients.append(await opened(origin(*order["modes"], name=order["name"])))
            print(json.dumps("open"), flush=True)
        elif order.get("begin"):
            clients[-1].begin(order["begin"], **order["arguments"])
            await clients[-1].writer.drain()
            print(json.dumps("begun"), flush=True)
        else:
            print(json.dumps(await clients[-1].call(order["call"], **order["arguments"])), flush=True)
asyncio.run(main())
"""


class OtherHub:
    """Another process of the same hub."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HUB, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def tell(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def told(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def open(self, *modes: str, name: str = "double") -> None:
        self.tell(modes=modes, name=name)
        assert self.told() == "open"

    def call(self, tool: str, **arguments: Any) -> str:
        self.tell(call=tool, arguments=arguments)
        return str(self.told())

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def other_hubs(home: Path, count: int) -> Iterator[list[OtherHub]]:
    hubs = [OtherHub(home) for _ in range(count)]
    try:
        yield hubs
    finally:
        for one in hubs:
            if one.process.returncode is None:
                one.end()
