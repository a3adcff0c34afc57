"""What the hub does with the arguments of a call before its tool runs: walks, JSON texts and time.

    python benchmarks/arguments.py [--calls N]

"Walks" counts how often Python code iterates over one nested object of the arguments, "JSON" how often it is written as
JSON; the conversion to the types of the tool's function is not counted. The journal writes nothing: its commit would
take longer than everything that is measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

counts: Counter[str] = Counter()
# Modules from which C code and Rust iterate: the encoder of JSON, and the conversion by pydantic.
_WORK = {"encoder.py": "JSON", "signatures.py": "conversions"}


class Observed(dict[str, Any]):
    """A nested object that counts who iterates over it."""

    def _count(self) -> None:
        counts[_WORK.get(Path(sys._getframe(2).f_code.co_filename).name, "walks")] += 1

    def items(self) -> Any:
        self._count()
        return super().items()

    def values(self) -> Any:
        self._count()
        return super().values()

    def keys(self) -> Any:
        self._count()
        return super().keys()


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """For each case, the tool and its arguments."""
    row = {"id": 4711, "subject": "a" * 40, "done": False, "ratio": 0.5}
    return {
        "echo": ("echoes", {"message": "hi"}),
        "a tool with a context": ("logs", {"message": "hi"}),
        "3 arguments": ("takes", {"name": "a name", "number": 3, "options": {"deep": True}}),
        "a secret": ("takes", {"name": "a name", "number": 3, "options": {"password": "secret"}}),
        "50 KB": ("takes", {"name": "x", "number": 3, "options": {"deep": True}, "rows": [dict(row)] * 600}),
        "1 MB": ("takes", {"name": "x", "number": 3, "options": {"deep": True}, "rows": [dict(row)] * 12_000}),
        "1 MB of text": ("takes", {"name": "x" * 1_000_000, "number": 3, "options": {"deep": True}}),
    }


def prepare() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from tools_app import sources
    from tools_app.sdk.context import Context
    from tools_app.sdk.decorator import tool
    from tools_app.sdk.hints import Hints
    from tools_app.sources import sync

    reads = Hints(read_only=True, open_world=False)

    @tool(hints=reads)
    async def echoes(message: str) -> dict[str, str]:
        """Return the message."""
        return {"message": message}

    async def logs(ctx: Context, message: str) -> dict[str, str]:
        """Return the message."""
        return {"message": message, "call": ctx.call_id}

    logs.__annotations__["ctx"] = Context
    logs_tool = tool(hints=reads)(logs)

    async def takes(name: str, number: int, options: dict[str, Any], rows: list[dict[str, Any]] = []) -> dict[str, int]:  # noqa: B006
        """Count rows."""
        return {"rows": len(rows)}

    call_command("migrate", verbosity=0)
    registry = sources.current().code.loaded()
    for one in (echoes, logs_tool, tool(hints=reads)(takes)):
        registry.add(one)
    sync.sync_source(sources.current().code, actor="benchmark")


async def measure(times: int) -> None:
    from tests.support import lag
    from tools_app import engine
    from tools_app.catalog import catalog
    from tools_app.journal.journal import Journal
    from tools_app.sdk.context import Caller

    async def written(journal: Journal, entry: Any) -> bool:
        return True

    Journal.write = written  # type: ignore[method-assign]
    caller = Caller("key", "key:1", "benchmark", frozenset({"tools:execute"}))
    engine.adopt_running_loop()
    await catalog.fresh()
    for case, (name, arguments) in cases().items():
        if "options" in arguments:
            counts.clear()
            observed = arguments | {"options": Observed(arguments["options"])}
            await engine.call(name, observed, caller, door="code")
        rounds = times if len(str(arguments)) < 10_000 else max(10, times // 50)
        samples = []
        for number in range(rounds + rounds // 10):
            begun = time.perf_counter()
            await engine.call(name, arguments, caller, door="code")
            if number >= rounds // 10:
                samples.append(time.perf_counter() - begun)
        walks = f"walks {counts['walks']}  JSON {counts['JSON']}" if "options" in arguments else ""
        median = statistics.median(samples)
        delays = []
        for _ in range(10):
            async with lag.measured() as lagging:
                await engine.call(name, arguments, caller, door="code")
            delays.append(lagging.seconds)
        delay = f"loop delayed {statistics.median(delays) * 1000:4.1f} ms"
        print(f"  {case:<24} {median * 1000:9.3f} ms   {1 / median:7,.0f} calls/s   {delay}   {walks}", flush=True)
    await engine.close(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        prepare()
        asyncio.run(measure(options.calls))
        return
    with tempfile.TemporaryDirectory() as home:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TOOLHUB_")}
        environment |= {"TOOLHUB_HOME": home, "LOG_LEVEL": "error", "TOOLHUB_RATE_CALLS": "1000000"}
        command = [sys.executable, __file__, "--here", "--calls", str(options.calls)]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
