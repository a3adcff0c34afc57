"""Two hubs in one process: each with its own tools, calls, threads and limits."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.tools import blocking_tool, eventually
from tools_app import engine, sources
from tools_app.access import limits
from tools_app.base.hub import Hub
from tools_app.catalog import catalog
from tools_app.engine.process import Engine
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.errors import ToolDisabledError
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import ShuttingDownError
from tools_app.sources import sync
from tools_app.sources.watcher import Watcher

NAMES = ("east", "west")
READS = Hints(read_only=True)
GREET = '''
from _hub_words import WORD
from toolhub import Hints, tool

@tool(hints=Hints(read_only=True))
def greet() -> str:
    """Say where this is."""
    return WORD
'''


class Place:
    """A hub with a tools directory of its own."""

    def __init__(self, name: str, folder: Path, settings: Any) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(mode=0o755)
        self.write("greet.py", GREET)
        self.write("_hub_words.py", f"WORD = {name!r}\n")
        self.hub = Hub()
        settings.TOOLHUB_TOOLS_DIR = folder
        with self.hub.active():
            sources.current()

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.write_text(text)
        path.chmod(0o644)

    def add(self, declared: FunctionTool) -> None:
        with self.hub.active():
            tools.Hub().add(declared)

    def call(self, name: str, caller: Caller) -> Any:
        with self.hub.active():
            return engine.call_sync(name, {}, caller, door="code").answer.value

    def greeting(self) -> str:
        """What the code says, without the engine."""
        with self.hub.active():
            loaded = sources.current().loaded("greet")
        assert loaded is not None
        word: str = loaded.declared.run(None, {})  # type: ignore[union-attr, arg-type]
        return word


@pytest.fixture
def places(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[list[Place]]:
    settings.TOOLHUB_PACKS = ()
    made = [Place(name, tmp_path / name, settings) for name in NAMES]
    settings.TOOLHUB_TOOLS_DIR = None
    yield made
    for place in made:
        place.hub.close()


def meeting(name: str, barrier: threading.Barrier) -> FunctionTool:
    """A tool that returns only while the one of the other hub runs."""

    def run() -> int:
        """Wait for the other hub."""
        barrier.wait(10)
        return os.getpid()

    return tool(name=name, hints=READS)(run)


def test_calls_run_in_both_at_once_and_each_has_its_own_tools(places: list[Place], alice: Caller) -> None:
    barrier = threading.Barrier(2)
    for place in places:
        place.add(meeting(f"meet_{place.name}", barrier))
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda place: place.call(f"meet_{place.name}", alice), places))
    assert answers == [os.getpid()] * 2
    east, west = places
    for place, other in ((east, west), (west, east)):
        with pytest.raises(ToolDisabledError) as error:
            place.call(f"meet_{other.name}", alice)
        assert error.value.context["reason"] == "this process does not have it"
        with place.hub.active():
            names = [entry.name for entry in catalog.current().callable]
        assert names == [f"meet_{place.name}"]
    assert sorted(Call.objects.values_list("status", flat=True)) == ["refused", "refused", "succeeded", "succeeded"]


def test_files_of_the_same_name_are_those_of_each_directory(places: list[Place], alice: Caller) -> None:
    east, west = places
    assert [place.greeting() for place in places] == list(NAMES)
    with east.hub.active():
        folder = sources.current().folder
        assert folder is not None
        sync.sync_source(folder, actor="test")
    # One definition, recorded once; each hub runs the code of its own directory.
    assert [place.call("greet", alice) for place in places] == list(NAMES)
    west.hub.close()
    east.write("greet.py", GREET + "\n")
    assert [folder.look(), folder.look()] == [False, True]
    assert east.greeting() == "east"


def test_a_watcher_reloads_the_directory_of_its_hub(places: list[Place]) -> None:
    east, west = places
    assert [place.greeting() for place in places] == list(NAMES)
    with east.hub.active():
        watcher = Watcher(look_seconds=0.01)
    watcher.start()
    try:
        for place in places:
            place.write("_hub_words.py", f"WORD = 'new in the {place.name}'\n")
        assert eventually(lambda: east.greeting() == "new in the east")
    finally:
        watcher.stop()
    assert west.greeting() == "west", "it has no watcher"


def test_requests_count_for_their_hub(places: list[Place], settings: Any) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 5
    counted = []
    for place in (*places, places[0]):
        with place.hub.active():
            standing = asyncio.run(limits.count_stranger("192.0.2.1"))
        assert standing is not None
        counted.append(standing.remaining)
    assert counted == [4, 4, 3]


def test_closing_one_leaves_nothing_of_it_and_the_other_works(places: list[Place], alice: Caller) -> None:
    east, west = places
    before = set(threading.enumerate())

    def answer() -> str:
        """Answer."""
        return "here"

    loops = {}
    threads: dict[str, set[threading.Thread]] = {}
    for place in places:
        place.add(tool(name=f"answer_{place.name}", hints=READS)(answer))
        assert place.call(f"answer_{place.name}", alice) == "here"
        loops[place.name] = place.hub.part(Engine).loop
        threads[place.name] = set(threading.enumerate()) - before
        before |= threads[place.name]
        names = {thread.name for thread in threads[place.name]}
        assert {"toolhub-engine", "toolhub-journal", "toolhub-tool-1"} <= names

    def has_left(place: Place) -> bool:
        loop = loops[place.name]
        assert loop is not None
        return not threads[place.name] & set(threading.enumerate()) and loop.is_closed() and not asyncio.all_tasks(loop)

    east.hub.close()
    assert eventually(lambda: has_left(east))
    with pytest.raises(RuntimeError, match="this hub is closed"):
        east.call("answer_east", alice)
    assert west.call("answer_west", alice) == "here"
    west.hub.close()
    assert eventually(lambda: has_left(west))


def test_a_hub_that_closes_ends_its_calls_and_starts_none(places: list[Place], alice: Caller) -> None:
    east = places[0]
    before = set(threading.enumerate())
    release, started = threading.Event(), threading.Event()
    east.add(blocking_tool("block", release, started))
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(east.call, "block", alice)
        assert started.wait(10)
        closing = threads.submit(east.hub.close)
        assert eventually(lambda: east.hub.part(Engine).loop is None)
        with pytest.raises(ShuttingDownError):
            east.call("block", alice)
        release.set()
        assert running.result(10) == "released"
        closing.result(10)
    assert eventually(lambda: set(threading.enumerate()) <= before)


def test_two_can_share_an_event_loop(places: list[Place], alice: Caller) -> None:
    meet = asyncio.Barrier(2)

    def partner(name: str) -> FunctionTool:
        async def run() -> str:
            """Wait for the other hub."""
            async with asyncio.timeout(10):
                await meet.wait()
            return name

        return tool(name=f"meet_{name}", hints=READS)(run)

    for place in places:
        place.add(partner(place.name))

    async def run(place: Place) -> Any:
        with place.hub.active():
            engine.adopt_running_loop()
            result = await engine.call(f"meet_{place.name}", {}, alice, door="code")
        await place.hub.aclose()
        return result.answer.value

    async def both() -> Any:
        answers = await asyncio.gather(*map(run, places))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return answers

    assert asyncio.run(both()) == list(NAMES)
