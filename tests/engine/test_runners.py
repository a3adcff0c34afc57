"""The code of a tool: found at the first call, and never another version than the one that agents see."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.state import find_sources_again
from tests.support.tools import Hub
from tools_app import engine, governance, sources
from tools_app.catalog import catalog, offers
from tools_app.models import Call, Definition, Source
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.errors import ToolDisabledError, ToolNotFoundError
from tools_app.sdk.hub_errors import DefinitionChangedError
from tools_app.sdk.spec import Kind
from tools_app.setup.toolregistry import ToolRegistry
from tools_app.sources import sync
from tools_app.sources.directory import FolderProvider
from tools_app.sources.python import PythonProvider
from tools_app.sources.registry import Registry
from tools_app.sources.sources import Sources

FILE = """
from toolhub import prompt, tool

@tool
def answer() -> int:
    \"\"\"Answer with {number}.\"\"\"
    return {number}

@prompt(title="Ask")
def ask() -> str:
    \"\"\"Ask for {number}.\"\"\"
    return "{number}"
"""


class Numbers:
    """A file of the tools directory with a tool and a prompt, both of which have a number."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, number: int) -> None:
        self._path.write_text(FILE.format(number=number))
        self._path.chmod(0o644)
        os.utime(self._path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.fixture
def numbers(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[Numbers]:
    settings.TOOLHUB_TOOLS_DIR = tmp_path
    file = Numbers(tmp_path / "numbers.py")
    file.write(1)
    find_sources_again()
    yield file
    sys.modules.pop("toolhub_tools.numbers", None)


def call(name: str, caller: Caller) -> Any:
    return engine.call_sync(name, {}, caller, door="code", options=engine.Options()).answer.value


def ask(caller: Caller) -> str:
    outcome = asyncio.run(engine.call("prompt:ask", {}, caller, door="code", kind=Kind.PROMPT))
    text: str = outcome.answer.value[0]["content"]["text"]
    return text


def in_another_process() -> None:
    """Record what the files say now, as another process would."""
    folder = Sources().folder
    assert folder is not None
    sync.sync_source(folder, actor="test")


def approve_everything() -> None:
    waiting = Definition.objects.filter(approved_at=None).values_list("pk", flat=True)
    governance.approve_definitions(list(waiting), actor=governance.trusted("user:olivia"))


def test_code_that_is_newer_than_the_record_is_recorded_instead_of_run(numbers: Numbers, alice: Caller) -> None:
    sync.sync()
    assert (call("answer", alice), ask(alice)) == (1, "1")
    numbers.write(2)
    find_sources_again()  # A new process: it has imported nothing yet.
    with pytest.raises(DefinitionChangedError, match=r"The definition of answer has changed; the call was not run"):
        call("answer", alice)
    assert Call.objects.get(code="DEFINITION_CHANGED").tool_name == "answer"
    entry = catalog.current().find("answer")
    assert entry is not None
    assert entry.description == "Answer with 2."
    assert (call("answer", alice), ask(alice)) == (2, "2")


def test_code_that_is_older_than_the_record_is_not_run(numbers: Numbers, alice: Caller) -> None:
    sync.sync()
    assert call("answer", alice) == 1
    numbers.write(2)
    in_another_process()
    for _ in range(2):
        with pytest.raises(DefinitionChangedError, match="This process has loaded another version of answer"):
            call("answer", alice)
    assert [sources.current().look() for _ in range(2)] == [False, True]
    assert (call("answer", alice), ask(alice)) == (2, "2")


def test_a_version_that_waits_for_approval_is_neither_listed_nor_run(
    numbers: Numbers, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_SOURCES_TO_APPROVE = ("file",)
    sync.sync()
    with pytest.raises(ToolDisabledError):
        call("answer", alice)
    assert "ask" not in offers.of(catalog.current().seen_by(alice)).prompts
    with pytest.raises(ToolNotFoundError):
        ask(alice)
    approve_everything()
    assert (call("answer", alice), ask(alice)) == (1, "1")
    numbers.write(2)
    in_another_process()
    view = catalog.current().seen_by(alice)
    entry = view.find("answer")
    assert entry is not None
    assert entry.callable
    assert entry.description == "Answer with 1."
    assert offers.of(view).prompts["ask"].spec.description == "Ask for 1."
    with pytest.raises(DefinitionChangedError, match="no operator has approved the new version"):
        call("answer", alice)
    with pytest.raises(DefinitionChangedError, match="no operator has approved the new version"):
        ask(alice)
    numbers.write(1)
    find_sources_again()
    sync.sync()
    assert (call("answer", alice), ask(alice)) == (1, "1"), "the approved version is back"


def test_runs_the_implementation_that_replaced_one_with_the_same_definition(hub: Hub, alice: Caller) -> None:
    metadata = {"name": "answer", "description": "Answer."}
    registry = ToolRegistry()
    registry.register(metadata, lambda arguments: 1)
    assert call("answer", alice) == 1
    registry.register(metadata, lambda arguments: 2, overwrite=True)
    assert call("answer", alice) == 2
    registry.unregister("answer")
    registry.register(metadata, lambda arguments: 3)
    assert call("answer", alice) == 3


class SlowProvider(PythonProvider):
    """A source whose import ends when a test wants it to."""

    def __init__(self, content: FunctionTool) -> None:
        super().__init__("slow", Source.Kind.PLUGIN, "")
        self._content = content
        self.release = threading.Event()

    def fill(self, registry: Registry) -> None:
        assert self.release.wait(10)
        registry.add(self._content)


@pytest.mark.anyio
async def test_a_definition_that_changes_during_the_import_gets_no_older_code(hub: Hub) -> None:
    def declared(description: str) -> FunctionTool:
        return tool(name="slow_tool", description=description)(lambda: 1)

    older, newer = declared("Old."), declared("New.")
    provider = SlowProvider(older)
    here = Sources([provider])
    finding = [asyncio.create_task(here.runner("slow", one.spec)) for one in (older, newer)]
    await asyncio.sleep(0.05)
    provider.release.set()
    runner, error = await asyncio.gather(*finding, return_exceptions=True)
    assert isinstance(error, DefinitionChangedError)
    assert await here.runner("slow", older.spec) is runner
    with pytest.raises(DefinitionChangedError):
        await here.runner("slow", newer.spec)


def test_two_installations_do_not_record_over_each_other(numbers: Numbers, alice: Caller) -> None:
    """The one that started last decides; the other says that it has to be restarted."""
    sync.sync()
    assert call("answer", alice) == 1
    # Another installation, with other code, describes the same source.
    numbers.write(2)
    other = FolderProvider(sources.current().providers["folder"].folder)  # type: ignore[attr-defined]
    sync.sync_source(other, actor="other")
    numbers.write(1)
    for _ in range(2):
        with pytest.raises(DefinitionChangedError, match="This process has loaded another version"):
            call("answer", alice)
    assert "Answer with 2." in Definition.objects.get(current_for__name="answer").body["description"]
