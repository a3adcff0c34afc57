"""What the engine adds to a call: checks, guards and the journal, against calling the tool's function directly.

    python benchmarks/engine.py [--postgres URL] [--calls N] [--profile]

One process for each database, so that neither meets the other's connections. The ratios of one run count, not the
milliseconds: the machine and its disk decide those. "No journal" is the same engine with a journal that writes nothing;
"one commit" is what the disk asks for a single row, without ToolHub.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

AT_ONCE = 32
Once = Callable[[], Awaitable[Any]]


async def lone(once: Once, times: int) -> list[float]:
    """Milliseconds of each call, one after the other."""
    for _ in range(50):
        await once()
    samples = []
    for _ in range(times):
        begun = time.perf_counter()
        await once()
        samples.append((time.perf_counter() - begun) * 1000)
    return samples


async def many(once: Once, times: int) -> tuple[float, list[float]]:
    """Calls a second with so many at once, and the milliseconds of each."""
    samples: list[float] = []

    async def client() -> None:
        for _ in range(times // AT_ONCE):
            begun = time.perf_counter()
            await once()
            samples.append((time.perf_counter() - begun) * 1000)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    samples.clear()
    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return len(samples) / (time.perf_counter() - begun), samples


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def shown(what: str, samples: list[float], rate: float | None = None) -> None:
    figures = f"p50 {statistics.median(samples):7.3f} ms   p99 {percentile(samples, 0.99):7.3f} ms"
    print(f"  {what:<46} {figures}{f'   {rate:8,.0f} calls/s' if rate else ''}", flush=True)


def prepared() -> None:
    """A hub on the database that the environment names, with the tools of this benchmark."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from tools_app import sources
    from tools_app.sdk.decorator import tool
    from tools_app.sdk.hints import Hints
    from tools_app.sources import sync

    @tool(hints=Hints(read_only=True, open_world=False))
    async def look(text: str = "") -> dict[str, str]:
        """Read something."""
        return {"text": text}

    @tool(hints=Hints(read_only=False, open_world=False))
    async def change(text: str = "") -> dict[str, str]:
        """Write something."""
        return {"text": text}

    @tool(hints=Hints(read_only=True))
    async def healthy(text: str = "") -> dict[str, str]:
        """Ask an upstream that is well."""
        return {"text": text}

    @tool(hints=Hints(read_only=True))
    async def hanging(text: str = "") -> dict[str, str]:
        """Ask an upstream that does not answer."""
        await asyncio.sleep(3600)
        return {"text": text}

    call_command("migrate", verbosity=0)
    registry = sources.current().code.loaded()
    for one in (look, change, healthy, hanging):
        registry.add(one)
    sync.sync_source(sources.current().code, actor="benchmark")


def calls(name: str) -> Once:
    from tools_app import engine
    from tools_app.sdk.context import Caller

    caller = Caller("key", "key:1", "benchmark", frozenset({"tools:execute"}))
    options = engine.Options(timeout_ms=120_000)
    return lambda: engine.call(name, {"text": "hi"}, caller, door="code", options=options)


async def in_engine(work: Coroutine[Any, Any, Any]) -> None:
    from tools_app import engine
    from tools_app.catalog import catalog

    engine.adopt_running_loop()
    try:
        await catalog.fresh()
        await work
    finally:
        await engine.close(1)


async def with_journal(times: int) -> None:
    shown("a read, alone", await lone(calls("look"), times))
    shown("a write, alone: two commits", await lone(calls("change"), times))
    for what, name in (("reads", "look"), ("writes", "change")):
        rate, samples = await many(calls(name), times * 4)
        shown(f"{what}, {AT_ONCE} at once", samples, rate)
    shown("a read of an upstream that is well", await lone(calls("healthy"), times))
    stuck = [asyncio.ensure_future(calls("hanging")()) for _ in range(60)]
    await asyncio.sleep(0.1)
    shown("… while 60 calls of another one hang", await lone(calls("healthy"), times))
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def without_journal(times: int) -> None:
    from tools_app.journal.journal import Journal

    async def written(journal: Journal, entry: Any) -> bool:
        return True

    Journal.write = written  # type: ignore[method-assign]
    shown("no journal: a read, alone", await lone(calls("look"), times))
    rate, samples = await many(calls("look"), times * 4)
    shown(f"no journal: reads, {AT_ONCE} at once", samples, rate)


def one_commit(times: int) -> list[float]:
    from django.db import connection
    from django.utils import timezone

    from tools_app.models import Call

    Call.objects.get_or_create(id="0", defaults={"door": "code", "status": "succeeded", "started_at": timezone.now()})
    samples = []
    for number in range(times):
        begun = time.perf_counter()
        Call.objects.filter(pk="0").update(count=number + 1)
        samples.append((time.perf_counter() - begun) * 1000)
    connection.close()
    return samples


def measure(times: int, *, profile: bool) -> None:
    prepared()
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(asyncio.run, in_engine(lone(calls("look"), times)))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        return
    shown("one commit of one row, without ToolHub", one_commit(times))
    asyncio.run(in_engine(with_journal(times)))
    asyncio.run(in_engine(without_journal(times)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL", help="a PostgreSQL database that may be filled with calls")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--profile", action="store_true", help="show where the time of lone reads goes")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        measure(options.calls, profile=options.profile)
        return
    databases = {"SQLite": ""} | ({"PostgreSQL": options.postgres} if options.postgres else {})
    for name, url in databases.items():
        print(name)
        with tempfile.TemporaryDirectory() as home:
            environment = {key: value for key, value in os.environ.items() if not key.startswith("TOOLHUB_")}
            # Limits are raised, not removed: counting them costs what it costs.
            environment |= {"TOOLHUB_HOME": home, "LOG_LEVEL": "error", "TOOLHUB_RATE_CALLS": "1000000"}
            environment.pop("DATABASE_URL", None)
            if url:
                environment["DATABASE_URL"] = url
            given = [sys.executable, __file__, "--here", "--calls", str(options.calls)]
            subprocess.run([*given, *(["--profile"] if options.profile else [])], env=environment, check=True)


if __name__ == "__main__":
    main()
