"""What traces cost: processor time of a call with all of them exported, beside a hub without traces.

    python benchmarks/traces.py [--pairs 30] [--calls 100] [--channel rest|http|stdio]

Two processes of the hub take turns with every call. One exports every span to a collector on this machine. Each tells
its processor time (getrusage) after every hundred calls: all of it, including that of the exporter.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.agents import Agent
from tests.support.collector import Collector
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, key_in

TOOLS = '''
import resource
from toolhub import Context, Hints, tool

@tool(hints=Hints(read_only=True))
async def repeat(message: str) -> str:
    """Repeat."""
    return message

@tool(hints=Hints(read_only=True))
async def used() -> float:
    """Processor time of this process, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
'''

Call = Callable[..., Any]


@contextlib.contextmanager
def calling(home: Home, channel: str) -> Iterator[Call]:
    """What calls a tool and returns its text."""
    if channel == "stdio":
        with Agent(home) as agent:
            agent.connect()
            yield lambda name, **arguments: agent.call(name, **arguments)["content"][0]["text"]
            agent.leave()
        return
    with home.serving() as server:
        key = key_in((home.path / "first-login.txt").read_text())
        if channel == "http":
            with HttpAgent(server.url, key, "2025-11-25") as client:
                client.connect()
                yield lambda name, **arguments: client.call(name, **arguments)["content"][0]["text"]
            return
        with httpx.Client(base_url=server.url, headers={"X-API-Key": key}, trust_env=False, timeout=60) as rest:

            def call(name: str, **arguments: Any) -> Any:
                return rest.post("/v1/tools/call", json={"name": name, "parameters": arguments}).json()["result"]

            yield call


def measure(channel: str, pairs: int, calls: int, folder: Path) -> None:
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "own.py").write_text(TOOLS)
    shared = {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), "TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"}
    with Collector() as collector:
        on = Home(folder / "on", {**shared, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        off = Home(folder / "off", shared)
        for home in (on, off):
            home.run("synctools")
        with calling(on, channel) as call_on, calling(off, channel) as call_off:
            sides = (call_off, call_on)
            used: list[tuple[float, ...]] = []
            for _ in range(pairs + 2):
                used.append(tuple(float(call("used")) for call in sides))
                for number in range(calls):
                    for call in sides if number % 2 else reversed(sides):
                        call("repeat", message="hello")
            used.append(tuple(float(call("used")) for call in sides))
    # The first two rounds warm up.
    spent = [(after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(used)][2:]
    ratios = [with_traces / without - 1 for without, with_traces in spent]
    without = statistics.median(one for one, _ in spent) / calls * 1e6
    extra = statistics.median(other - one for one, other in spent) / calls * 1e6
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"{channel:5} {without:6.0f} µs without, {extra:+.0f} µs with traces: median {statistics.median(ratios):+.1%}, "
        f"quartiles {low:+.1%} and {high:+.1%} ({pairs} pairs of {calls} calls, {len(collector.spans)} spans)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--channel", choices=["rest", "http", "stdio"], action="append")
    options = parser.parse_args()
    for channel in options.channel or ["rest", "http", "stdio"]:
        with tempfile.TemporaryDirectory() as folder:
            measure(channel, options.pairs, options.calls, Path(folder))


if __name__ == "__main__":
    main()
