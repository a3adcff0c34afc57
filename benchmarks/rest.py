"""What the REST door costs: a governed call beside an ungoverned ninja view and a bare ASGI echo.

    python benchmarks/rest.py [--seconds 3] [--rounds 3] [--tools 10 1000 10000]

All three stand on the same uvicorn, in processes of their own on this machine, and take turns within one run: the
ratios count, not the numbers. The ninja view has no middleware at all; it checks nothing and writes nothing down. The
hub checks key, scope and arguments, and journals every call before it answers. Rate limits are off. Then the list of
tools, by their number.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
CLIENTS = (1, 32)

NINJA_VIEW = """
import django
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="benchmark", ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
django.setup()

from django.core.asgi import get_asgi_application
from django.urls import path
from ninja import NinjaAPI, Schema

class Call(Schema):
    name: str
    parameters: dict

api = NinjaAPI()

@api.post("v1/tools/call")
async def call(request, body: Call):
    return {"success": True, "result": body.parameters}

urlpatterns = [path("", api.urls)]
application = get_asgi_application()
"""

BARE_ECHO = """
import json

async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    told = json.dumps({"success": True, "result": json.loads(body or b"null")}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(told)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})
"""

MANY_TOOLS = """
from toolhub import Hints, tool

def make(number):
    @tool(name=f"tool_{number:05}", category="many", tags=["many"], hints=Hints(read_only=True))
    def one(text: str, limit: int = 10) -> dict[str, str]:
        "Look something up and say what was found."
        return {"text": text}
    return one

for number in range(%d):
    globals()[f"tool_{number}"] = make(number)
"""


@dataclass
class Target:
    """A server, and what was measured of it: calls a second of each round, and milliseconds of every call."""

    name: str
    port: int
    request: bytes
    rates: dict[int, list[float]] = field(default_factory=dict)
    times: dict[int, list[float]] = field(default_factory=dict)

    def round(self, clients: int, seconds: float) -> None:
        asyncio.run(self._load(clients, seconds / 5))  # Warm by then.
        begun = time.perf_counter()
        times = asyncio.run(self._load(clients, seconds))
        self.rates.setdefault(clients, []).append(len(times) / (time.perf_counter() - begun))
        self.times.setdefault(clients, []).extend(times)

    async def _load(self, clients: int, seconds: float) -> list[float]:
        end = time.perf_counter() + seconds
        return [took for times in await asyncio.gather(*[self._client(end) for _ in range(clients)]) for took in times]

    async def _client(self, end: float) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        times = []
        while (begun := time.perf_counter()) < end:
            writer.write(self.request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"{self.name}: {head.decode()}")
            await read_body(reader, head.lower())
            times.append((time.perf_counter() - begun) * 1000)
        writer.close()
        await writer.wait_closed()
        return times


async def read_body(reader: asyncio.StreamReader, head: bytes) -> None:
    if b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))


def request(method: str, path: str, key: str = "", body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
    lines += ["Content-Type: application/json"] if content else []
    lines += [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join([*lines, "", ""]).encode() + content


@contextlib.contextmanager
def running(command: list[str], port: int, environment: dict[str, str], patience: float = 120) -> Iterator[None]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + patience
        while process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not start")
            time.sleep(0.05)
        time.sleep(0.5)  # The hub takes its port before it is ready; whoever connects waits.
        yield
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def hub(home: Path, **settings: str) -> Iterator[tuple[int, str]]:
    """A hub in a home of its own: its port, and a key."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    environment.pop("DATABASE_URL", None)
    environment |= {"TOOLHUB_HOME": str(home), "TOOLHUB_ENV_FILE": os.devnull, "PYTHONPATH": str(CHECKOUT)}
    environment |= {"LOG_LEVEL": "warn", "TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0", **settings}
    command = [sys.executable, "-m", "toolhub"]
    subprocess.run([*command, "synctools"], env=environment, check=True, capture_output=True)
    added = subprocess.run(
        [*command, "addkey", "benchmark"], env=environment, check=True, capture_output=True, text=True
    )
    port = free_port()
    with running([*command, "serve", "--port", str(port)], port, environment):
        yield port, added.stdout.split()[-1]


@contextlib.contextmanager
def plain(directory: Path, name: str, source: str) -> Iterator[int]:
    (directory / f"{name}.py").write_text(source)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"{name}:application", "--port", str(port), "--no-access-log"]
    with running([*command, "--log-level", "warning"], port, {**os.environ, "PYTHONPATH": str(directory)}):
        yield port


def measure_calls(directory: Path, seconds: float, rounds: int) -> None:
    call = {"name": "echo", "parameters": {"message": "hi"}}
    with (
        hub(directory / "home") as (hub_port, key),
        plain(directory, "ninja_view", NINJA_VIEW) as ninja_port,
        plain(directory, "bare_echo", BARE_ECHO) as bare_port,
    ):
        targets = [
            Target("hub", hub_port, request("POST", "/v1/tools/call", key, call)),
            Target("ninja view", ninja_port, request("POST", "/v1/tools/call", key, call)),
            Target("bare ASGI echo", bare_port, request("POST", "/v1/tools/call", key, call)),
            Target("hub: GET /health", hub_port, request("GET", "/health")),
        ]
        for clients in CLIENTS:
            for _ in range(rounds):
                for target in targets:
                    target.round(clients, seconds)
    for clients in CLIENTS:
        reference = statistics.median(targets[1].rates[clients])
        print(f"\n{clients} keep-alive client{'s' * (clients > 1)}")
        for target in targets:
            rate, middle = statistics.median(target.rates[clients]), statistics.median(target.times[clients])
            slow = statistics.quantiles(target.times[clients], n=100)[98]
            times = f"p50 {middle:7.2f} ms   p99 {slow:7.2f} ms"
            print(f"  {target.name:<18} {rate:8,.0f} /s   {times}   {rate / reference:5.2f} x ninja view")


def measure_lists(directory: Path, seconds: float, numbers: list[int]) -> None:
    print("\nGET /v1/tools?limit=50, one client")
    for number in numbers:
        tools = directory / f"tools-{number}"
        tools.mkdir()
        (tools / "many.py").write_text(MANY_TOOLS % number)
        with hub(directory / f"home-{number}", TOOLHUB_TOOLS_DIR=str(tools)) as (port, key):
            target = Target("list", port, request("GET", "/v1/tools?limit=50", key))
            target.round(1, seconds)
        rate, middle = target.rates[1][0], statistics.median(target.times[1])
        print(f"  {number:>6,} tools        {rate:8,.0f} /s   p50 {middle:7.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, nargs="*", default=[10, 1_000, 10_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure_calls(Path(directory), options.seconds, options.rounds)
        measure_lists(Path(directory), options.seconds, options.tools)


if __name__ == "__main__":
    main()
