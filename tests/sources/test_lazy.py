"""Nothing is imported before its first call: a process lists what is recorded, and records what has changed."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolhub.settings
from tests.support.state import find_sources_again, rebuild_catalog
from tools_app import engine, governance, sources
from tools_app.catalog import catalog, offers
from tools_app.catalog.listed import as_listed
from tools_app.models import Definition, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolDisabledError, ToolTimeoutError
from tools_app.sdk.hub_errors import DefinitionChangedError
from tools_app.sdk.offered import wire
from tools_app.sdk.spec import Kind
from tools_app.sources import sync

BEGINNING = """
import time
from pathlib import Path
from toolhub import Hints, Pack

with Path({log!r}).open("a") as log:
    log.write("imported\\n")
time.sleep({seconds})
pack = Pack("stock")
"""
TOOLS = '''
@pack.tool(hints=Hints(read_only=True))
def count_items(unit: str = "pieces") -> str:
    """Count the items {words}."""
    return "{words}"

@pack.tool(hints=Hints(read_only=True))
def list_items() -> str:
    """List the items."""
    return "{words}"

@pack.prompt(tools=["list_items"])
def ask_for_items():
    """Ask for items {words}."""
    return "{words}"
'''


class Stock:
    """A package with tools, and the processes that have it."""

    def __init__(self, site: Path) -> None:
        self._path = site / "stock.py"
        self._log = site / "imports.log"
        self._clock = 1_700_000_000

    def write(self, words: str, *, seconds: float = 0.0, more: str = "") -> None:
        text = BEGINNING.format(log=str(self._log), seconds=seconds) + TOOLS.replace("{words}", words) + more
        self._path.write_text(text)
        self._clock += 1
        os.utime(self._path, (self._clock, self._clock))

    def remove(self) -> None:
        self._path.unlink()

    def begin_process(self) -> None:
        """What was imported before counts no more."""
        sys.modules.pop("stock", None)
        importlib.invalidate_caches()
        asyncio.run(engine.close(2))
        find_sources_again()
        rebuild_catalog()
        self._log.unlink(missing_ok=True)

    @property
    def imports(self) -> int:
        return len(self._log.read_text().splitlines()) if self._log.exists() else 0


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, transactional_db: None) -> Iterator[Stock]:
    """Recorded, and seen by a process that has just begun."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    settings.TOOLHUB_PACKS = ("stock",)
    made = Stock(tmp_path)
    made.write("here")
    made.begin_process()
    sync.sync()
    made.begin_process()
    yield made
    sys.modules.pop("stock", None)


def call(caller: Caller, name: str = "count_items") -> Any:
    return engine.call_sync(name, {}, caller, door="code").answer.value


def listing() -> bytes:
    """Everything that agents get in lists, in its order."""
    snapshot = catalog.current()
    listed = offers.of(snapshot)
    prompts_and_resources = (*listed.prompts.values(), *listed.resources.values(), *listed.templates.values())
    tools = [as_listed(entry) for entry in snapshot.all]
    return json.dumps([tools, [wire(entry.spec) for entry in prompts_and_resources]], ensure_ascii=False).encode()


class TestListing:
    def test_imports_nothing(self, stock: Stock) -> None:
        names = [entry.name for entry in catalog.current().callable]
        assert names == ["count_items", "list_items"]
        assert list(offers.of(catalog.current()).prompts) == ["ask_for_items"]
        assert (stock.imports, "stock" in sys.modules) == (0, False)

    def test_has_the_bytes_and_order_of_a_process_that_has_imported_everything(
        self, settings: Any, transactional_db: None
    ) -> None:
        settings.TOOLHUB_PACKS = toolhub.settings.TOOLHUB_PACKS
        find_sources_again()
        sync.sync()
        before = listing()
        contents = sources.current().inspected()
        in_code = {(tool.spec.kind, tool.spec.key): tool.spec for tool in contents.tools}
        snapshot = catalog.current()
        for entry in (*snapshot.entries.values(), *snapshot.offers.values()):
            spec = in_code.pop((entry.spec.kind, entry.spec.key))
            assert json.dumps(entry.spec.body) == json.dumps(spec.body), entry.name
            assert entry.spec.hash == spec.hash
            if spec.kind is not Kind.TOOL:
                assert json.dumps(wire(entry.spec)) == json.dumps(wire(spec)), entry.name
            assert json.dumps(entry.spec.icon) == json.dumps(spec.icon), entry.name
        assert in_code == {}
        find_sources_again()
        rebuild_catalog()
        assert listing() == before


class TestTheFirstCall:
    def test_imports_and_later_ones_do_not(self, stock: Stock, alice: Caller) -> None:
        assert [call(alice), call(alice, "list_items"), call(alice)] == ["here"] * 3
        assert stock.imports == 1

    def test_imports_once_for_all_that_come_at_the_same_time(self, stock: Stock, alice: Caller) -> None:
        stock.write("here", seconds=0.2)
        names = ["count_items", "list_items"] * 4

        async def calls() -> list[Any]:
            together = [engine.call(name, {}, alice, door="code") for name in names]
            return [result.answer.value for result in await asyncio.gather(*together)]

        assert asyncio.run(calls()) == ["here"] * 8
        assert stock.imports == 1

    def test_ends_in_time_and_the_import_serves_the_next(self, stock: Stock, alice: Caller) -> None:
        stock.write("here", seconds=0.6)
        governance.set_policy("count_items", {"timeout_ms": 200}, actor=governance.trusted("test"))
        with pytest.raises(ToolTimeoutError):
            call(alice)
        assert call(alice, "list_items") == "here"
        assert call(alice) == "here"
        assert stock.imports == 1

    def test_of_code_that_cannot_be_imported_gives_the_reason_to_operators_only(
        self, stock: Stock, alice: Caller, caplog: pytest.LogCaptureFixture
    ) -> None:
        stock.write("here", more="\nraise RuntimeError('no warehouse')\n")
        with pytest.raises(ToolDisabledError) as refused:
            call(alice)
        told = json.dumps([refused.value.message, refused.value.next_step, dict(refused.value.context)])
        assert "it could not be loaded" in told
        assert "warehouse" not in told
        assert "stock" not in told
        logged = [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR]
        assert any("count_items cannot be called" in line and "no warehouse" in line for line in logged)
        assert ToolRecord.objects.get(name="count_items").retired_at is None

    def test_of_code_that_is_another_version_runs_nothing_and_records_it(self, stock: Stock, alice: Caller) -> None:
        stock.write("there")
        assert catalog.current().entries["count_items"].description == "Count the items here."
        with pytest.raises(DefinitionChangedError):
            call(alice)
        assert catalog.current().entries["count_items"].description == "Count the items there."
        assert call(alice) == "there"
        assert stock.imports == 1

    def test_of_a_tool_that_is_gone_is_refused(self, stock: Stock, alice: Caller) -> None:
        stock.write("here")
        Path(stock._path).write_text("")
        with pytest.raises(ToolDisabledError) as refused:
            call(alice)
        assert refused.value.context["reason"] == "this process does not have it"


class TestRecordingChanges:
    def test_leaves_unchanged_files_alone(self, stock: Stock) -> None:
        assert str(sync.sync(changed_only=True)) == "nothing has changed"
        assert stock.imports == 0

    def test_records_changed_files(self, stock: Stock, alice: Caller) -> None:
        stock.write("there")
        assert sync.sync(changed_only=True).changed == ["count_items"]
        assert stock.imports == 1
        assert Definition.objects.filter(tool__name="count_items").count() == 2
        assert call(alice) == "there"
        stock.begin_process()
        assert str(sync.sync(changed_only=True)) == "nothing has changed"
        assert stock.imports == 0

    def test_retires_nothing_if_the_source_is_missing(self, stock: Stock) -> None:
        stock.remove()
        for _ in range(2):
            assert sync.sync().retired == []
        refusal = catalog.current().entries["list_items"].refusal
        assert refusal is not None
        assert refusal.reason == "it could not be loaded"
        assert "No module named 'stock'" in refusal.cure

    def test_looks_again_at_what_could_not_be_loaded(
        self, stock: Stock, alice: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stock.write("here", more="\nraise RuntimeError('no warehouse')\n")
        sync.sync(changed_only=True)
        refusal = catalog.current().entries["count_items"].refusal
        assert refusal is not None
        assert refusal.reason == "it could not be loaded"
        assert "no warehouse" in refusal.cure
        for seconds, imports in ((60.0, 0), (-1.0, 1)):
            monkeypatch.setattr(sync, "_RETRY_SECONDS", seconds)
            sync.sync()
            stock.begin_process()
            sync.sync(changed_only=True)
            assert stock.imports == imports


def test_an_import_that_never_ends_delays_neither_its_caller_nor_the_end_of_the_process() -> None:
    """In a process of its own: a thread that hangs would outlive this test."""
    code = """
import asyncio, threading
import django
django.setup()
from tools_app.sources.threads import in_thread

async def main():
    try:
        async with asyncio.timeout(0.2):
            await in_thread(threading.Event().wait)
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "gave up\n"), done.stderr
