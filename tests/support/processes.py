"""Real processes of the hub, on a home of their own. Every one that a test starts is ended by it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Home:
    """A hub's home directory, and a way to run its commands."""

    path: Path
    extra: dict[str, str] = field(default_factory=dict)
    # Another one has other packages.
    interpreter: str = sys.executable
    # Seconds until a server has to answer, or a command to end.
    patience: float = 60

    @property
    def environment(self) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "TMPDIR", "COVERAGE_PROCESS_START")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "TOOLHUB_HOME": str(self.path),
            "TOOLHUB_ENV_FILE": os.devnull,
            "PYTHONPATH": str(CHECKOUT),
            **self.extra,
        }

    @property
    def database(self) -> Path:
        return self.path / "toolhub.sqlite3"

    def run(self, *arguments: str, stdin: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [self.interpreter, "-m", "toolhub", *arguments],
            input=stdin,
            env={**self.environment, **extra},
            cwd=CHECKOUT.anchor,
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the environment of the hub."""
        environment = {**self.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
        return subprocess.run(
            [self.interpreter, "-c", program],
            env=environment,
            cwd=CHECKOUT.anchor,
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a command that keeps running. The caller ends it."""
        return subprocess.Popen(
            [self.interpreter, "-m", "toolhub", *arguments],
            env={**self.environment, **extra},
            cwd=CHECKOUT.anchor,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextlib.contextmanager
    def serving(self, *arguments: str, **extra: str) -> Iterator[Server]:
        """A running server, ended with the block."""
        port = free_port()
        process = self.start("serve", "--port", str(port), *arguments, **extra)
        server = Server(process, port)
        try:
            server.wait(self.patience)
            yield server
        finally:
            server.end()


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for stream, lines in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            assert stream is not None
            reader = threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            reader.start()
            self.readers.append(reader)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self, seconds: float = 40) -> None:
        """Until it answers."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {''.join(self.errors)}")
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.url}/health", timeout=2)
                return
            time.sleep(0.05)
        raise AssertionError(f"the server does not answer: {''.join(self.errors)}")

    def end(self, number: int = signal.SIGTERM, seconds: float = 20) -> int:
        """Ask it to end; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for reader in self.readers:
                reader.join(5)
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""


def key_in(text: str) -> str:
    """The API key in a text."""
    found = re.search(r"thub_\w+", text)
    assert found is not None, text
    return found[0]
