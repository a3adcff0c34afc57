"""What others wait for beside a client that sends what is within the limits and costs most.

    python benchmarks/attacks.py [--seconds 7]

Starts a hub of its own on a free port. Figures to compare are the ratios to the same client alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.processes import Home, Server, key_in

IDLE = 200
SMALL = {"name": "echo", "parameters": {"message": "hi"}}
LARGE = {
    "85,000 unknown fields": {**SMALL, **{f"f{number}": 1 for number in range(85_000)}},
    "85,000 unknown arguments": {"name": "echo", "parameters": {f"f{number}": 1 for number in range(85_000)}},
    "99,000 values in an argument": {"name": "echo", "parameters": {"message": [1] * 99_000}},
    "33,000 objects in an argument": {"name": "echo", "parameters": {"message": [{"a": {}}] * 33_000}},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seconds", type=float, default=7)
    seconds = options.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        with home.serving() as server:
            attacker, other = (key_in(home.run("addkey", name).stdout) for name in ("attacker", "other"))
            alone = median(server, other, seconds)
            print(f"alone: p50 {alone:.1f} ms")
            for name, body in LARGE.items():
                content = json.dumps(body, separators=(",", ":")).encode()
                with repeated(lambda content=content: send(server, attacker, content)):  # type: ignore[misc]
                    print(f"beside {name}, {len(content):,} bytes: {median(server, other, seconds) / alone:.1f}x")
            with idle(server):
                answered = [send(server, other, json.dumps(SMALL).encode()) for _ in range(100)]
                print(f"beside {IDLE} idle connections: {answered.count(200)} of 100 answered")


def send(server: Server, key: str, content: bytes) -> int:
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    return httpx.post(
        f"{server.url}/v1/tools/call", content=content, headers=headers, trust_env=False, timeout=60
    ).status_code


def median(server: Server, key: str, seconds: float) -> float:
    """Milliseconds of a small call on a kept connection."""
    taken = []
    with httpx.Client(headers={"X-API-Key": key}, trust_env=False, timeout=60) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            client.post(f"{server.url}/v1/tools/call", json=SMALL)
            taken.append(1000 * (time.perf_counter() - begun))
            time.sleep(0.03)
    return statistics.median(taken)


@contextlib.contextmanager
def repeated(work: Callable[[], Any]) -> Iterator[None]:
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def idle(server: Server) -> Iterator[None]:
    """Connections that announce a body and send none."""
    head = b"POST /v1/tools/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    with contextlib.ExitStack() as opened:
        for _ in range(IDLE):
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port))).sendall(head)
        yield


if __name__ == "__main__":
    main()
