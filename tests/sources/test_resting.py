"""Packs that nobody has set up: a process that spares itself leaves them alone until somebody does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import eventually
from tools_app import governance, sources
from tools_app.catalog import catalog, connections
from tools_app.catalog.entry import Entry
from tools_app.models import ToolRecord
from tools_app.sources import sync
from tools_app.sources.registry import Origin
from tools_app.sources.watcher import Watcher

DECLARATION = """
from toolhub import ConnectionKind, Pack
pack = Pack("shop", connection=ConnectionKind("Shop", url_variable="SHOP_URL", secret_variable="SHOP_KEY", header="X"))
"""
TOOLS = '''
from shop import pack
from toolhub import Hints

@pack.tool(aliases=["view_order"], hints=Hints(read_only=True))
def get_order() -> str:
    """Get an order."""
    return "that of the shop"

@pack.prompt(tools=["get_order"])
def ask_for_order():
    """Ask for an order."""
'''
LOOKALIKE = '''
from toolhub import Hints, tool

@tool(hints=Hints(read_only=True))
def {name}() -> str:
    """Get an order."""
    return "that of somebody else"
'''
LACKING = "not configured: SHOP_URL, SHOP_KEY"


@pytest.fixture
def shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, transactional_db: None, request: Any
) -> Iterator[None]:
    """A hub that knows the pack of a shop, seen by a process that has just begun and spares itself."""
    package = tmp_path / "site" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(DECLARATION)
    (package / "orders.py").write_text(TOOLS)
    own = tmp_path / "own"
    own.mkdir()
    for name in getattr(request, "param", ()):
        (own / f"{name}.py").write_text(LOOKALIKE.format(name=name))
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    settings.TOOLHUB_PACKS = ("shop",)
    settings.TOOLHUB_TOOLS_DIR = own
    try:
        sync.sync(sources.whole())
        begin_anew()
        yield
    finally:
        leave()


def leave() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "toolhub_tools")]:
        del sys.modules[name]


def begin_anew() -> None:
    leave()
    sources.forget()
    catalog.forget()
    sources.spare()


def order() -> Entry:
    entry = catalog.current().find("get_order")
    assert entry is not None
    return entry


def answer() -> Any:
    tool = order().tool
    return tool.function() if tool is not None else None  # type: ignore[attr-defined]


def connect() -> None:
    governance.create_connection("main", "shop", url="https://shop.example", secret="key-1", actor="test")


pytestmark = pytest.mark.usefixtures("shop")


def test_one_without_an_account_is_not_loaded_and_says_what_it_lacks() -> None:
    assert (order().tool, order().refusal.reason) == (None, LACKING)  # type: ignore[union-attr]
    assert "shop.orders" not in sys.modules
    assert list(connections.kinds(sources.loaded())) == ["shop"]


def test_that_it_was_switched_off_still_comes_first() -> None:
    governance.set_enabled(["get_order"], False, actor="test")
    assert order().refusal.reason == "switched off by an operator"  # type: ignore[union-attr]


def test_one_with_an_account_of_the_environment_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", "https://shop.example")
    monkeypatch.setenv("SHOP_KEY", "key-1")
    assert order().callable


def test_an_account_that_is_set_up_later_wakes_it_and_its_prompts() -> None:
    assert not order().callable
    connect()
    assert order().callable
    assert order().tool.aliases == ("view_order",)  # type: ignore[union-attr]
    assert [offer.name for offer, _ in sources.loaded().offers] == ["ask_for_order"]
    assert sources.loaded().problems == []


def test_who_compares_all_there_is_with_the_records_has_all_of_it() -> None:
    assert sync.sync(sources.whole()).unchanged == 1


@pytest.mark.parametrize("shop", [["get_order"], ["view_order"]], indirect=True)
def test_nothing_takes_its_place_meanwhile_nor_afterwards() -> None:
    assert order().refusal.reason == LACKING  # type: ignore[union-attr]
    connect()
    assert answer() == "that of the shop"
    loaded = sources.loaded().get("get_order")
    assert loaded is not None
    assert loaded.origin is Origin.SHIPPED
    (problem,) = sources.loaded().problems
    assert "is already registered. The other one is at shop/orders.py" in problem.reason


@pytest.mark.parametrize("shop", [["get_order"]], indirect=True)
def test_what_has_its_name_meanwhile_is_not_written_down_for_it(tmp_path: Path) -> None:
    names = sync.names_of(sources.loaded().resting)
    assert names == {"get_order"}
    watcher = Watcher(look_seconds=0.01)
    watcher.start()
    try:
        (tmp_path / "own" / "other.py").write_text(LOOKALIKE.format(name="other"))
        assert eventually(lambda: ToolRecord.objects.filter(name="other").exists(), 10)
        (tmp_path / "own" / "get_order.py").unlink()
        assert eventually(lambda: "get_order" not in sources.loaded(), 10)
    finally:
        watcher.stop()
    record = ToolRecord.objects.get(name="get_order")
    assert (record.source, record.retired_at) == (Origin.SHIPPED, None)


def test_a_process_that_does_not_spare_itself_has_everything() -> None:
    sources.forget()
    assert "get_order" in sources.loaded()
