"""How long an answer of an upstream keeps others on the event loop waiting, and how long the call takes itself.

    python benchmarks/stalls.py [--rounds N]

Every answer is within the limits of size, depth and number of values, and made to be slow: an upstream that is broken
or hostile. Each is read and brought into the form in which callers get it, as a call does; the figures are the best of
a few rounds, as whatever else the machine does only adds to them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django  # noqa: E402

django.setup()

from benchmarks.search import snapshot  # noqa: E402
from tests.http.test_stalls import LARGE, hollow  # noqa: E402
from tests.support import lag  # noqa: E402
from tests.support.faultd import Faultd, Wire  # noqa: E402
from tools_app.engine import answers  # noqa: E402
from tools_app.http import ApiClient  # noqa: E402
from tools_app.sdk import heavy  # noqa: E402
from tools_app.sdk.decorator import tool  # noqa: E402
from tools_app.sdk.errors import ToolError  # noqa: E402
from tools_app.sdk.hints import Hints  # noqa: E402
from tools_app.sdk.runner import Returned  # noqa: E402


@tool(hints=Hints(read_only=True))
async def get_all() -> object:
    """Get everything."""


ENTRY = snapshot([get_all]).find("get_all")


async def once(url: str, name: str) -> tuple[float, float]:
    api = ApiClient(f"{url}/{name}", name="upstream", timeout=60)
    async with lag.measured() as lagging:
        began = time.perf_counter()
        with suppress(ToolError):
            data = await api.get("a", operation="get all")
            await heavy.by_size(data, answers.shaped, ENTRY, Returned(data))
        took = time.perf_counter() - began
    await api.close()
    return lagging.seconds, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    bodies = {name: make() for name, make in LARGE.items()}
    with Faultd() as upstream:

        def teach(name: str, body: bytes, *headers: str) -> None:
            async def answer(wire: Wire) -> None:
                await wire.answer(body, headers=headers)

            upstream.answer(name, answer)

        for name, body in bodies.items():
            teach(name, body)
        teach("nested gzip", hollow(2), "Content-Encoding: gzip, gzip, gzip")
        teach("gzip header", hollow(0), "Content-Encoding: gzip")
        for name in (*bodies, "nested gzip", "gzip header", "bomb:gzip"):
            figures = [asyncio.run(once(upstream.url, name.replace(" ", "%20"))) for _ in range(rounds)]
            held, took = (min(times) for times in zip(*figures, strict=True))
            size = f"{len(bodies[name]) / 1024 / 1024:4.1f} MiB" if name in bodies else ""
            times = f"others waited {held * 1000:5.0f} ms   of {took * 1000:6.0f} ms"
            print(f"  {name:<12} {size:>9}   {times}", flush=True)


if __name__ == "__main__":
    main()
