"""What open event streams of the admin cost: the processor time of the hub, idle and while calls are made.

    python benchmarks/live.py [--streams 200] [--seconds 60] [--rate 20]

A hub as `toolhub serve` starts it, on SQLite, and clients that read their streams. The processor time is that of the
hub, from /proc, as a share of one core; the same without streams is measured first, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def read_stream(port: int, cookie: str, events: list[int]) -> None:
    from tools_app.admin.live import stream

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {stream.PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            events[0] += line.startswith(b"data: ")
    finally:
        writer.close()


async def call_often(url: str, key: str, rate: float, until: float) -> int:
    import httpx

    calls = 0
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        while time.monotonic() < until:
            begun = time.monotonic()
            (await client.post("/v1/tools/echo/call", json={"message": "hello"})).raise_for_status()
            calls += 1
            await asyncio.sleep(max(0.0, 1 / rate - (time.monotonic() - begun)))
    return calls


async def measured(server: Any, key: str, seconds: float, rate: float) -> float:
    before, begun = processor_seconds(server.process.pid), time.monotonic()
    if rate:
        await call_often(server.url, key, rate, begun + seconds)
    else:
        await asyncio.sleep(seconds)
    return (processor_seconds(server.process.pid) - before) / (time.monotonic() - begun)


async def compare(server: Any, key: str, cookies: list[str], seconds: float, rate: float) -> None:
    without = [await measured(server, key, seconds, calls) for calls in (0, rate)]
    events = [0]
    streams = [asyncio.create_task(read_stream(server.port, cookie, events)) for cookie in cookies]
    await asyncio.sleep(10)
    with_streams = [await measured(server, key, seconds, calls) for calls in (0, rate)]
    opened = sum(not stream.done() for stream in streams)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    for words, alone, together in zip(("idle", f"{rate:g} calls/s"), without, with_streams, strict=True):
        print(f"{words:>14}: {alone:6.1%} of a core without streams, {together:6.1%} with {opened}: "
              f"{together - alone:+.1%}")  # fmt: skip
    print(f"{events[0]:,} events were read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20)
    options = parser.parse_args()
    # Instead of this folder, whose mcp.py is not the SDK.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="toolhub.settings", TOOLHUB_HOME=f"{folder}/own")
        import django

        django.setup()
        import httpx

        from tests.support.admin import creation, sign_in
        from tests.support.processes import Home, key_in
        from tools_app.admin.live import stream

        place = Path(folder) / "hub"
        place.mkdir()
        home = Home(place)
        key = key_in(home.run("addkey", "benchmark", "--scope", "admin:*").stdout)
        users = -(-options.streams // stream.MOST_OF_SESSION)
        done = home.run("shell", "-c", creation(("vera", "viewer")))
        assert done.returncode == 0, done.stderr
        with home.serving(TOOLHUB_LOGIN_FAILURES="1000") as server:
            cookies = []
            for number in range(users):
                with httpx.Client(base_url=server.url, timeout=30) as client:
                    sign_in(client, "vera")
                    cookies += ["; ".join(f"{name}={value}" for name, value in client.cookies.items())]
                    cookies += cookies[-1:] * (stream.MOST_OF_SESSION - 1)
                time.sleep(1 if number % 50 == 49 else 0)
            asyncio.run(compare(server, key, cookies[: options.streams], options.seconds, options.rate))


if __name__ == "__main__":
    main()
