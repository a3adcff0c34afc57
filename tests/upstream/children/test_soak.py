"""Many lives of children, and many deaths of hub and supervisor: at the end, no process is left.

TOOLHUB_TEST_SOAK multiplies the cycles; `make test-soak-sources` runs five times as many.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.upstream.children.support import (
    PYTHON,
    SERVER,
    Client,
    Den,
    OtherHub,
    happens,
    is_alive,
    opened,
    origin,
    other_hubs,
    pids,
)
from tools_app.sdk.outside import Origin
from tools_app.upstream import children

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.usefixtures("streams_closed")]
TIMES: Final = int(os.environ.get("TOOLHUB_TEST_SOAK", "1"))
MEGABYTE: Final = 1024 * 1024


def rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def sources(grandchildren: Path) -> list[Origin]:
    deaf = (*PYTHON, SERVER, "ignores", f"grandchild:{grandchildren}")
    return [
        origin(name="plain"),
        origin("modern", name="modern"),
        origin(f"grandchild:{grandchildren}", name="parent"),
        origin(name="own", per_session=True),
        origin(name="shell", command=("sh", "-c", '"$@"; true', "sh", *PYTHON, SERVER)),
        origin(name="deaf", command=("sh", "-c", '"$@"; true', "sh", *deaf)),
    ]


async def live(source: Origin, how: str) -> None:
    """One life of a child, ended in one way."""
    if how == "timeout":
        with contextlib.suppress(children.NotUpYet, children.CannotStart):
            (await opened(source, 0.005)).close()
        return
    try:
        client = await opened(source)
    except children.CannotStart:  # killed a moment ago: its next attempt is some seconds away
        await children.stop(source.name)
        client = await opened(source)
    with contextlib.suppress(AssertionError, ConnectionError):  # others end it, too
        assert await client.call("echo", text="x") == "x"
        if how == "leave":
            client.begin("slow", seconds=60)
            await client.writer.drain()
        elif how == "kill":
            await _kill(client)
        elif how == "crash":
            client.begin("die")
            await client.ended()
        elif how == "reload":
            await children.stop(source.name)
    client.close()


async def _kill(client: Client) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill((await client.state())["pid"], signal.SIGKILL)
    await client.ended()


async def test_no_process_survives_many_lives(bare_den: Den, tmp_path: Path) -> None:
    bare_den.start(first_pause=0.01, longest_pause=0.05)
    found = sources(tmp_path / "grandchildren")
    chance = random.Random(7)
    ways = ["leave", "kill", "crash", "reload", "timeout"]
    before = [0.0, 0.0]
    for number in range(200 * TIMES // 4):
        if number == 10:
            before = [rss(os.getpid()), rss(bare_den.supervisors()[1])]
        chosen = [(source, chance.choice(ways)) for source in chance.sample(found, 4)]
        await asyncio.gather(*(live(source, how) for source, how in chosen))
    after = [rss(os.getpid()), rss(bare_den.supervisors()[1])]
    assert all(late - early <= 10 for early, late in zip(before, after, strict=True)), (before, after)
    await children.stop_all()
    assert len(bare_den.supervisors()) == 2, "guard and supervisor"
    assert not any(map(is_alive, pids(tmp_path / "grandchildren")))


def open_all(hub: OtherHub, found: list[str], grandchildren: Path) -> None:
    for name in found:
        hub.open("ignores", f"grandchild:{grandchildren}", name=name)
    hub.tell(begin="slow", arguments={"seconds": 60})
    assert hub.told() == "begun"


async def test_no_process_survives_the_death_of_hub_or_supervisor(bare_den: Den, tmp_path: Path) -> None:
    grandchildren = tmp_path / "grandchildren"
    names = [f"s{number}" for number in range(4)]
    for _ in range(20 * TIMES):
        with other_hubs(bare_den.home, 1) as (hub,):
            await asyncio.to_thread(open_all, hub, names, grandchildren)
            before = bare_den.processes()
            assert len(before) >= 2 + 3 * len(names)
            os.kill(bare_den.supervisors()[1], signal.SIGKILL)
            await happens(lambda: not any(map(is_alive, pids(grandchildren))), 10)
            # The next call starts another; then the hub dies.
            await asyncio.to_thread(open_all, hub, names, grandchildren)
            hub.end(signal.SIGKILL)
    await happens(lambda: not bare_den.processes(), 15)
    assert not any(map(is_alive, pids(grandchildren)))
    assert len(pids(grandchildren)) >= 2 * len(names)
