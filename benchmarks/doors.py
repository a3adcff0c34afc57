"""How long a call takes through each door, and how long an agent waits for `runmcp`.

    python benchmarks/doors.py [--fastmcp PYTHON]

Everything runs on this machine, against a hub in a throw-away home with key, checks and journal on. With an
interpreter that has fastmcp installed, its stdio server with the same echo tool is measured in the same run; the ratio
is what counts, not the milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

FASTMCP_SERVER = """
from fastmcp import FastMCP
server = FastMCP("echo")

@server.tool
async def echo(message: str) -> dict[str, str]:
    "Echo."
    return {"message": message}

server.run(transport="stdio", show_banner=False)
"""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


class Stdio:
    """A server over stdio, spoken to without any client library."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.last_id = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, number: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message
        raise RuntimeError("the server ended")

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.answer(self.last_id)

    def open(self) -> float:
        """Milliseconds from the start of the process to the answer to `initialize`."""
        self.send(INITIALIZE)
        self.answer(0)
        took = time.perf_counter() - self.begun
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return took * 1000

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


def startup(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    server = Stdio(command, environment)
    initialized = server.open()
    server.request("tools/list")
    listed = (time.perf_counter() - server.begun) * 1000
    server.close()
    return initialized, listed


def timed(once: Callable[[], Any], times: int) -> list[float]:
    for _ in range(max(5, times // 10)):
        once()
    samples = []
    for _ in range(times):
        begun = time.perf_counter()
        once()
        samples.append((time.perf_counter() - begun) * 1000)
    return samples


def shown(what: str, samples: list[float]) -> None:
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{what:<44} p50 {statistics.median(ordered):8.2f} ms   p99 {p99:8.2f} ms")


def stdio_calls(command: list[str], environment: dict[str, str], times: int) -> list[float]:
    server = Stdio(command, environment)
    server.open()
    samples = timed(lambda: server.request("tools/call", name="echo", arguments={"message": "hi"}), times)
    server.close()
    return samples


def rest_calls(environment: dict[str, str], times: int) -> list[float]:
    import httpx

    port = 38_123
    server = subprocess.Popen(
        [sys.executable, "-m", "toolhub", "serve", "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        key = hub(environment, "addkey", f"benchmark-{os.getpid()}").strip().splitlines()[-1]
        with httpx.Client(headers={"Authorization": f"Bearer {key}"}) as client:
            url = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    client.get(f"{url}/health")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            body = {"name": "echo", "parameters": {"message": "hi"}}
            return timed(lambda: client.post(f"{url}/v1/tools/call", json=body).raise_for_status(), times)
    finally:
        server.terminate()
        server.wait(15)


def hub(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolhub", *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def engine_calls(times: int) -> tuple[list[float], list[float]]:
    """In process: the engine, and the tool's function alone."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from tools_app import engine
    from tools_app.access import access
    from tools_app.packs.builtin import echo

    caller = access.caller_of_process()

    async def measure() -> tuple[list[float], list[float]]:
        engine.adopt_running_loop()
        governed, bare = [], []
        for number in range(times + 50):
            begun = time.perf_counter()
            await engine.call("echo", {"message": "hi"}, caller, door="code")
            middle = time.perf_counter()
            await echo("hi")
            if number >= 50:
                governed.append((middle - begun) * 1000)
                bare.append((time.perf_counter() - middle) * 1000)
        await engine.close()
        return governed, bare

    return asyncio.run(measure())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with fastmcp installed")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--starts", type=int, default=11)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        environment = {**os.environ, "TOOLHUB_HOME": str(home / "home"), "PYTHONPATH": str(CHECKOUT)}
        environment.pop("DATABASE_URL", None)
        environment["LOG_LEVEL"] = "warn"
        os.environ.update(environment)
        hub(environment, "synctools")
        ours = [sys.executable, "-m", "toolhub", "runmcp"]
        theirs: list[str] = []
        if options.fastmcp:
            (home / "fast.py").write_text(FASTMCP_SERVER)
            theirs = [options.fastmcp, str(home / "fast.py")]

        starts: dict[str, list[tuple[float, float]]] = {"runmcp": [], "fastmcp": []}
        for _ in range(options.starts):  # Taking turns, so that both meet the same machine.
            starts["runmcp"].append(startup(ours, environment))
            if theirs:
                starts["fastmcp"].append(startup(theirs, environment))
        for name, samples in starts.items():
            if samples:
                shown(f"{name}: process start to initialize answered", [sample[0] for sample in samples])
                shown(f"{name}: process start to first tools/list", [sample[1] for sample in samples])

        shown("echo over MCP stdio", stdio_calls(ours, environment, options.calls))
        if theirs:
            shown("echo over MCP stdio, fastmcp, ungoverned", stdio_calls(theirs, environment, options.calls))
        shown("echo over REST", rest_calls(environment, options.calls))
        shown(
            "echo by command (one process a call)",
            timed(lambda: hub(environment, "calltool", "echo", '{"message": "hi"}'), 7),
        )
        governed, bare = engine_calls(options.calls)
        shown("echo by engine.call, in process", governed)
        shown("echo's function alone", bare)


if __name__ == "__main__":
    main()
