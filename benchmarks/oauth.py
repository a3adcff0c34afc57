"""Whether calls through an OAuth connection wait for each other: eight at once against one, at a source of 0.3 s.

    python benchmarks/oauth.py [--rounds 9]

The hub is in this process, with journal; the source and its authorization server are threads of it. Provider code that
holds a lock during each request takes eight times as long for eight calls. Compare within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

AT_ONCE = 8
DELAY = 0.3


def prepare() -> None:
    # Instead of this folder, whose mcp.py is not the SDK.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    os.environ["LOG_LEVEL"] = "error"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


async def measured(rounds: int) -> dict[int, float]:
    """The median time of one round, by the number of calls in it."""
    from tests.connections.conftest import caller
    from tools_app import engine

    async def together(number: int) -> float:
        begun = time.perf_counter()
        calls = (engine.call("acme_look", {"text": str(one)}, caller("ann"), door="code") for one in range(number))
        await asyncio.gather(*calls)
        return time.perf_counter() - begun

    await together(AT_ONCE)
    seconds: dict[int, list[float]] = {1: [], AT_ONCE: []}
    for _ in range(rounds):
        for number, times in seconds.items():
            times.append(await together(number))
    await engine.close(5)
    return {number: statistics.median(times) for number, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLHUB_HOME"] = home
        prepare()
        from tests.oauth.conftest import ACTOR, by_person, protect, sign_in
        from tests.support import mcp_upstream, oauth_server
        from tools_app import governance, sources
        from tools_app.models import Definition, Source, SourceStatus, ToolRecord

        with oauth_server.running() as oauth, mcp_upstream.running([mcp_upstream.tool("look")]) as upstream:
            row = Source.objects.create(
                name="acme", prefix="acme", kind="mcp_http", location=upstream.url, internal=True
            )
            SourceStatus.objects.create(source=row)
            sources.current().describe("acme", actor="benchmark")
            governance.approve_definitions([one.pk for one in Definition.objects.open()], actor=ACTOR)
            ToolRecord.everything.filter(pack="acme").update(enabled=True, hint_read_only=True)
            protect(upstream, oauth)
            by_person()
            sign_in(oauth)
            upstream.behave("look", delay=DELAY)
            seconds = asyncio.run(measured(rounds))
    print(f"one call: {seconds[1]:.3f} s")
    print(f"{AT_ONCE} at once: {seconds[AT_ONCE]:.3f} s, {seconds[AT_ONCE] / seconds[1]:.2f} times one")


if __name__ == "__main__":
    main()
