"""Whether the time that it takes to refuse a key tells something about it.

    python benchmarks/keys.py [--samples N]

In process and interleaved, each kind of wrong key against an unknown one: the difference of the means without the
slowest tenth, and Welch's t of those samples. Beyond ±4.5 they can be told apart; what else the machine does adds noise
to all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

LIMIT = 4.5


def prepared() -> dict[str, Callable[[], str]]:
    """Kinds of wrong keys, each well-formed; a call makes one."""
    from tools_app import governance, installation, secrets

    installation.require_ready(lambda line: None)
    _, good = governance.create_key("good", actor="benchmark")
    revoked, ended = governance.create_key("revoked", actor="benchmark")
    governance.revoke_key(revoked, actor="benchmark")
    prefix, secret = good[5:13], good[14:57]

    def with_secret(changed: str) -> str:
        return f"thub_{prefix}_{changed}{secrets._checksum(prefix + changed)}"

    first = with_secret(("a" if secret[0] != "a" else "b") + secret[1:])
    last = with_secret(secret[:-1] + ("a" if secret[-1] != "a" else "b"))
    return {
        "unknown": lambda: secrets.new_key()[0],
        "wrong first byte": lambda: first,
        "wrong last byte": lambda: last,
        "revoked": lambda: ended,
    }


async def measured(kinds: dict[str, Callable[[], str]], samples: int) -> dict[str, list[float]]:
    """Microseconds of each refusal."""
    from tools_app import access, engine
    from tools_app.errors import AuthenticationError

    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    order = list(kinds)
    for _ in range(samples):
        random.shuffle(order)
        for kind in order:
            presented = kinds[kind]()
            begun = time.perf_counter()
            try:
                await access.caller_of_key(presented)
            except AuthenticationError:
                times[kind].append((time.perf_counter() - begun) * 1e6)
    await engine.close(1)
    return times


def trimmed(samples: list[float]) -> list[float]:
    return sorted(samples)[: len(samples) * 9 // 10]


def welch(one: list[float], other: list[float]) -> float:
    spread = math.sqrt(statistics.variance(one) / len(one) + statistics.variance(other) / len(other))
    return (statistics.fmean(one) - statistics.fmean(other)) / spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000)
    samples = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(
            {"TOOLHUB_HOME": home, "TOOLHUB_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
        )
        import django

        django.setup()
        logging.disable(logging.CRITICAL)
        kinds = prepared()
        times = {kind: trimmed(found) for kind, found in asyncio.run(measured(kinds, samples)).items()}
    unknown = times["unknown"]
    print(f"{'unknown':18} {statistics.fmean(unknown):8.1f} µs")
    for kind, found in times.items():
        if kind != "unknown":
            difference, t = statistics.fmean(found) - statistics.fmean(unknown), welch(found, unknown)
            said = "told apart" if abs(t) >= LIMIT else "alike"
            print(f"{kind:18} {statistics.fmean(found):8.1f} µs  {difference:+6.2f} µs  t {t:+6.2f}  {said}")


if __name__ == "__main__":
    main()
