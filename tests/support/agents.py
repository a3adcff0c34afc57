"""An agent that speaks MCP in bare lines: it can send anything, and sees everything that comes back."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.processes import CHECKOUT, Home

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
# Seconds to wait for what should come at once: it ends a test that hangs, and fails none because the machine is busy.
PATIENCE = 30.0


class Agent:
    """A running `toolhub runmcp` and the only client it has. Ended with the block."""

    def __init__(
        self, home: Home, era: str = LEGACY, *, arguments: Sequence[str] = (), reading: bool = True, **extra: str
    ) -> None:
        self.era = era
        self.seen: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self._last_id = 0
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 – closed with the block
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [home.interpreter, "-m", "toolhub", "runmcp", *arguments],
            env={**home.environment, **extra},
            cwd=CHECKOUT.anchor,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        if self._reader.is_alive():
            self._reader.join(5)
        for stream in (self.stdin, self.stdout, self._errors):
            stream.close()

    # ---- out

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def line(self, method: str, params: dict[str, Any] | None = None, request_id: int | str | None = None) -> bytes:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        if request_id is not None:
            message["id"] = request_id
            if self.era == MODERN:
                message["params"]["_meta"] = {
                    f"{PREFIX}protocolVersion": MODERN,
                    f"{PREFIX}clientCapabilities": {},
                    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
                }
        return json.dumps(message).encode() + b"\n"

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; returns its id."""
        self._last_id += 1
        self.write(self.line(method, params, self._last_id))
        return self._last_id

    def ask_tool(self, name: str, /, **arguments: Any) -> int:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.write(self.line(method, params))

    # ---- in

    def next(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next message of any kind."""
        line = self._lines.get(timeout=seconds)
        self.raw.append(line)
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        self.seen.append(message)
        return message

    def answer(self, request_id: int | str | None, seconds: float = PATIENCE) -> dict[str, Any]:
        """The answer to a request; what comes before it stays in `seen`."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self.next(left)
            if "method" not in message and message["id"] == request_id:
                return message
        raise AssertionError(f"no answer to {request_id!r}")

    def result(self, request_id: int, seconds: float = PATIENCE) -> dict[str, Any]:
        answer = self.answer(request_id, seconds)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def told(self, method: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next notification of that kind."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self.next(left)
            if message.get("method") == method:
                return message
        raise AssertionError(f"no {method}")

    def silent(self, seconds: float) -> bool:
        """Whether nothing comes for a while."""
        try:
            self.next(seconds)
        except queue.Empty:
            return True
        return False

    # ---- whole exchanges

    def greet(self) -> int:
        """Begin; returns the id of the request."""
        if self.era == MODERN:
            return self.ask("server/discover")
        client = {"protocolVersion": self.era, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        return self.ask("initialize", client)

    def connect(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The handshake, or what is in its place."""
        result = self.result(self.greet(), seconds)
        if self.era != MODERN:
            self.notify("notifications/initialized")
        return result

    def tools(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = self.result(self.ask("tools/list"))["tools"]
        return tools

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.result(self.ask_tool(name, **arguments))

    def leave(self) -> tuple[int, float]:
        """Close stdin; returns the exit code and how many seconds it took."""
        begun = time.monotonic()
        self.stdin.close()
        return self.process.wait(10), time.monotonic() - begun

    def signalled(self, number: signal.Signals) -> tuple[int, float]:
        begun = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(10), time.monotonic() - begun

    def errors(self) -> str:
        """Everything on stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode()

    def rest(self) -> list[dict[str, Any]]:
        """What came after the last message that was read, up to the end."""
        self._reader.join(5)
        while not self._lines.empty():
            self.next(0)
        return self.seen

    def _read(self) -> None:
        for line in self.stdout:
            self._lines.put(line)


def copy_of(template: Home, path: Path) -> Home:
    """A home of one's own, ready from the start."""
    shutil.copytree(template.path, path)
    return Home(path, dict(template.extra))
