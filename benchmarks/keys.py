"""Whether the time that it takes to refuse a key tells something about it.

    python benchmarks/keys.py [--samples N]

In process and interleaved, each kind of wrong key against an unknown one: the difference of the means without the
slowest tenth, and Welch's t of those samples. Below 5 µs or a t of 4.5 nobody tells them apart, least of all through a
network; what else the machine does adds noise to all of them.
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
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

SMALLEST_T, SMALLEST_MICROSECONDS = 4.5, 5.0


def prepared() -> dict[str, str]:
    """A wrong key of each kind, all of them well-formed."""
    from tools_app import governance
    from tools_app.base import secrets
    from tools_app.setup import installation

    installation.require_ready(lambda line: None)
    _, good = governance.create_key("good", actor=governance.trusted("benchmark"))
    revoked, ended = governance.create_key("revoked", actor=governance.trusted("benchmark"))
    governance.revoke_key(revoked, actor=governance.trusted("benchmark"))
    prefix, secret = good[5:13], good[14:57]

    def with_secret(changed: str) -> str:
        return f"thub_{prefix}_{changed}{secrets._checksum(prefix + changed)}"

    first = with_secret(("a" if secret[0] != "a" else "b") + secret[1:])
    last = with_secret(secret[:-1] + ("a" if secret[-1] != "a" else "b"))
    return {
        "unknown": secrets.new_key()[0],
        "wrong first byte": first,
        "wrong last byte": last,
        "revoked": ended,
    }


async def measured(keys: dict[str, str], samples: int) -> dict[str, list[float]]:
    """Microseconds of each refusal."""
    from tools_app import engine
    from tools_app.access import access
    from tools_app.sdk.errors import AuthenticationError

    times: dict[str, list[float]] = {kind: [] for kind in keys}
    order = list(keys)
    for _ in range(samples):
        random.shuffle(order)
        for kind in order:
            begun = time.perf_counter()
            try:
                await access.caller_of_key(keys[kind])
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
        keys = prepared()
        times = {kind: trimmed(found) for kind, found in asyncio.run(measured(keys, samples)).items()}
    unknown = times["unknown"]
    print(f"{'unknown':18} {statistics.fmean(unknown):8.1f} µs")
    for kind, found in times.items():
        if kind != "unknown":
            difference, t = statistics.fmean(found) - statistics.fmean(unknown), welch(found, unknown)
            apart = abs(t) >= SMALLEST_T and abs(difference) >= SMALLEST_MICROSECONDS
            said = "told apart" if apart else "alike"
            print(f"{kind:18} {statistics.fmean(found):8.1f} µs  {difference:+6.2f} µs  t {t:+6.2f}  {said}")


if __name__ == "__main__":
    main()
