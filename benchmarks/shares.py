"""How much slower others become beside one key that sends as much as it can of one kind of message.

    python benchmarks/shares.py [--seconds 2] [--rounds 5] [--kinds KIND …]

Starts a hub of its own on a free port. Windows with and without the noisy key take turns, so both meet the same
machine: the ratio of the medians is what counts. The processor time of the server for one message is measured
before, alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in

THREADS: Final = 4
ALONE: Final = 10
PAUSE: Final = 0.03
TOOLS: Final = '''
from typing import Any
from toolhub import tool, Hints

@tool(hints=Hints(read_only=True, open_world=False))
async def large_table(rows: int = 20_000) -> dict[str, Any]:
    """Return a large table."""
    return {"rows": [{"id": number, "name": f"row {number}", "text": "x" * 100} for number in range(rows)]}
''' + "".join(
    f'''
@tool(hints=Hints(read_only=True, open_world=False))
async def made_{number}(a: int = 1, b: str = "", c: list[str] | None = None) -> dict[str, Any]:
    """Do the made-up thing number {number} to orders, invoices and other records of the shop."""
    return {{"a": a}}
'''
    for number in range(200)
)

# Method, path, headers and body.
Noise = Callable[[HttpAgent], tuple[str, str, dict[str, str], bytes]]


def asked(method: str, params: dict[str, Any] | None = None) -> Noise:
    def made(agent: HttpAgent) -> tuple[str, str, dict[str, str], bytes]:
        message = agent.message(method, params)
        return "POST", "/mcp", agent.headers(message), json.dumps(message, separators=(",", ":")).encode()

    return made


def called(name: str, arguments: dict[str, Any]) -> Noise:
    return asked("tools/call", {"name": name, "arguments": arguments})


def over_rest(body: dict[str, Any]) -> Noise:
    content = json.dumps(body, separators=(",", ":")).encode()
    return lambda _: ("POST", "/v1/tools/call", {"Content-Type": "application/json"}, content)


def fetched(path: str) -> Noise:
    return lambda _: ("GET", path, {}, b"")


KINDS: Final[dict[str, Noise]] = {
    "small calls": called("echo", {"message": "hi"}),
    "tools/list of 200 tools": asked("tools/list"),
    "search_tools": called("search_tools", {"query": "list the invoices of an order"}),
    "85,000 unknown arguments": called("echo", {f"f{number}": 1 for number in range(85_000)}),
    "33,000 objects in an argument": called("echo", {"message": [{"a": {}}] * 33_000}),
    "300,000 values in an argument": called("echo", {"message": [1] * 300_000}),
    "the same over REST": over_rest({"name": "echo", "parameters": {"message": [1] * 300_000}}),
    "an answer of 3 MB": called("large_table", {}),
    "an answer of 3 MB, three fields": called("large_table", {"_fields": ["/rows/*/id"]}),
    "20 calls in one": called("call_many", {"calls": [{"name": "echo", "arguments": {"message": "hi"}}] * 20}),
    "REST: list of tools": fetched("/v1/tools"),
    "REST: OpenAPI document": fetched("/v1/openapi.json"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seconds", type=float, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--kinds", nargs="*", default=list(KINDS), metavar="KIND")
    options.add_argument("--noise", help=argparse.SUPPRESS)
    parsed = options.parse_args()
    if parsed.noise:
        make_noise(parsed.noise, os.environ["NOISE_URL"], os.environ["NOISE_KEY"])
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home", extra={"LOG_LEVEL": "error"}, patience=300)
        (tools := Path(folder) / "tools").mkdir()
        (tools / "shop.py").write_text(TOOLS)
        home.extra["TOOLHUB_TOOLS_DIR"] = str(tools)
        with home.serving() as server:
            other = key_in(home.run("addkey", "other").stdout)
            print(f"{'one key sends':<34}{'ms of CPU':>10}{'sent/min':>10}{'refused':>9}{'p50 of others':>20}")
            for number, kind in enumerate(parsed.kinds):
                # Keys of their own: what one has used up says nothing of the next.
                alone, noisy = (key_in(home.run("addkey", f"{name}-{number}").stdout) for name in ("alone", "noisy"))
                cost = cpu_of(server, kind, alone)
                with noise(server, noisy, kind) as turn:
                    ratios, counts = [], [0, 0]
                    for _ in range(parsed.rounds):
                        quiet = median(server, other, parsed.seconds)
                        turn()
                        ratios.append(median(server, other, parsed.seconds) / quiet)
                        counts = [count + added for count, added in zip(counts, turn(), strict=True)]
                        time.sleep(parsed.seconds / 4)
                minutes = parsed.rounds * parsed.seconds / 60
                sent, refused = (count / minutes for count in counts)
                shown = f"{statistics.median(ratios):.1f}x ({min(ratios):.1f}–{max(ratios):.1f})"
                print(f"{kind:<34}{cost:>10.1f}{sent:>10,.0f}{refused:>9,.0f}{shown:>20}", flush=True)


def cpu_of(server: Server, kind: str, key: str) -> float:
    """Milliseconds of processor time of the server for one message."""
    with HttpAgent(server.url, key) as agent:
        method, path, headers, content = KINDS[kind](agent)
        agent.http.request(method, path, headers=headers, content=content)
        begin = cpu(server)
        for _ in range(ALONE):
            agent.http.request(method, path, headers=headers, content=content)
        return 1000 * (cpu(server) - begin) / ALONE


def cpu(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median(server: Server, key: str, seconds: float) -> float:
    """Milliseconds of a small call over MCP, on a kept connection."""
    taken: list[float] = []
    with HttpAgent(server.url, key) as agent:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(taken) < 3:
            begun = time.perf_counter()
            agent.call("echo", message="hi")
            taken.append(1000 * (time.perf_counter() - begun))
            time.sleep(PAUSE)
    return statistics.median(taken)


@contextlib.contextmanager
def noise(server: Server, key: str, kind: str) -> Iterator[Callable[[], list[int]]]:
    """A process that sends, so that it takes no time of the client that is measured. Called, it begins or stops, and
    says how many messages were sent and refused since it began."""
    environment = {**os.environ, "NOISE_URL": server.url, "NOISE_KEY": key}
    command = [sys.executable, __file__, "--noise", kind]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        stdout.readline()

        def turn() -> list[int]:
            stdin.write("\n")
            stdin.flush()
            return json.loads(stdout.readline())  # type: ignore[no-any-return]

        yield turn
        stdin.close()


def make_noise(kind: str, url: str, key: str) -> None:
    counts, sending, ended = [0, 0], threading.Event(), False

    def repeat() -> None:
        with HttpAgent(url, key) as agent:
            method, path, headers, content = KINDS[kind](agent)
            while not ended:
                if not sending.wait(0.1):
                    continue
                response = agent.http.request(method, path, headers=headers, content=content)
                is_refused = response.status_code == 429
                counts[is_refused] += 1
                if is_refused:
                    time.sleep(PAUSE)

    threads = [threading.Thread(target=repeat) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for _ in sys.stdin:
        (sending.clear if sending.is_set() else sending.set)()
        print(json.dumps(counts), flush=True)
        counts[:] = [0, 0]
    ended = True


if __name__ == "__main__":
    main()
