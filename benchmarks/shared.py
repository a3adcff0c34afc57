"""How many calls several processes let through together, with their limits in one Redis.

    python benchmarks/shared.py [--processes 4] [--limit 1000] [--attempts 40]

Starts a redis-server, and processes that count as the engine does: as often as they can until the first refusal (the
burst), and then `--attempts` times a second together, until three minutes are over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


async def count(limit: int, pause: float, until: float) -> tuple[float, list[float]]:
    """The time of the first refusal, and those of all calls that the limit let through."""
    from tools_app.base import hub, shared
    from tools_app.engine.guards import Guards
    from tools_app.sdk.errors import RateLimitError
    from tools_app.sdk.policies import Rate

    shared.of_hub().stay(asyncio.get_running_loop())
    guards, allowed, refused = Guards(), [], until
    while time.time() < until:
        try:
            await guards.count("key:1", "echo", Rate(limit, 60))
            allowed.append(time.time())
        except RateLimitError:
            refused = min(refused, time.time())
        await asyncio.sleep(pause if refused < until else 0)
    await hub.current().aclose()
    return refused, allowed


def work(limit: int, pause: float, until: float) -> None:
    import django

    django.setup()
    print(json.dumps(asyncio.run(count(limit, pause, until))))


def report(processes: int, limit: int, empty: float, allowed: list[float]) -> None:
    begun = allowed[0]
    start = empty + 1
    minute = sum(start <= moment < start + 60 for moment in allowed)
    seconds = [sum(start + second <= moment < start + second + 1 for moment in allowed) for second in range(60)]
    first = sum(moment < begun + 60 for moment in allowed)
    print(f"{processes} processes, {limit:,} calls a minute:")
    print(f"  the bucket was empty after {empty - begun:.1f} s")
    print(f"  first minute: {first:,} calls (at most {2 * limit:,})")
    print(f"  a minute with an empty bucket: {minute:,} calls ({minute / limit - 1:+.1%})")
    print(f"  in a second of it: {min(seconds)} to {max(seconds)} calls ({limit / 60:.1f} on average)")


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    sys.path[0] = str(root)  # not the benchmarks, one of which is called mcp
    from tests.support import redis_server

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--limit", type=int, default=1_000)
    parser.add_argument("--attempts", type=int, default=40, help="a second, when the burst is over")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    pause = asked.processes / asked.attempts
    if asked.until is not None:
        work(asked.limit, pause, asked.until)
        return
    with tempfile.TemporaryDirectory() as folder, redis_server.running() as redis:
        environment = {
            **os.environ,
            "TOOLHUB_HOME": folder,
            "TOOLHUB_REDIS_URL": redis.url,
            "DJANGO_SETTINGS_MODULE": "toolhub.settings",
            "PYTHONPATH": str(root),
        }
        command = [sys.executable, __file__, *sys.argv[1:], "--until", str(time.time() + 180)]
        running = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(asked.processes)
        ]
        counted = [json.loads(process.communicate()[0]) for process in running]
    empty = min(refused for refused, _ in counted)
    report(asked.processes, asked.limit, empty, sorted(moment for _, moments in counted for moment in moments))


if __name__ == "__main__":
    main()
