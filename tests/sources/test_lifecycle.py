"""Packs that open something when they start, and close it when the process ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.tools import Hub
from tools_app import engine, sources
from tools_app.catalog import catalog
from tools_app.models import SourceStatus
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolDisabledError
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack
from tools_app.sources import sync

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pack(hub: Hub) -> Pack:
    pack = Pack("pool")

    @pack.tool(hints=Hints(read_only=True))
    def ask_pool() -> str:
        """Ask the pool."""
        return "answered"

    code = sources.current().code.loaded()
    code.packs.append(pack)
    hub.add(*pack.tools)
    return pack


def call(caller: Caller) -> Any:
    return engine.call_sync("ask_pool", {}, caller, door="rest").answer.value


def test_hooks_run_once_around_all_calls(pack: Pack, alice: Caller) -> None:
    events: list[str] = []

    @pack.on_start
    async def open_pool() -> None:
        await asyncio.sleep(0)
        events.append("open")

    @pack.on_start
    def warm_up() -> None:
        events.append("warm up")

    @pack.on_stop
    async def close_pool() -> None:
        events.append("close")

    assert events == [], "nothing starts before it is needed"
    assert call(alice) == call(alice) == "answered"
    assert events == ["open", "warm up"]
    asyncio.run(engine.close())
    assert events == ["open", "warm up", "close"]


def test_a_failing_start_makes_the_source_unavailable_until_it_works(pack: Pack, alice: Caller) -> None:
    failures = [OSError("token=abcdefgh12345678 is refused")]

    @pack.on_start
    def open_pool() -> None:
        if failures:
            raise failures.pop()

    with pytest.raises(ToolDisabledError) as caught:
        call(alice)
    assert "could not be started" in str(caught.value.as_dict())
    assert "refused" not in str(caught.value.as_dict())
    status = SourceStatus.objects.get(source__name="code")
    assert (status.availability, status.failures) == ("down", 1)
    assert status.error.startswith("the pack pool cannot be started: OSError:")
    assert "abcdefgh12345678" not in status.error
    assert status.since is not None
    entry = catalog.current().find("ask_pool")
    assert entry is not None
    assert entry.refusal is not None
    assert status.error in entry.refusal.cure

    SourceStatus.objects.update(next_try_at=status.since)
    sync.retry()
    assert call(alice) == "answered"
    assert SourceStatus.objects.get(source__name="code").availability == "ok"


def test_a_failing_stop_stops_the_others_nevertheless(pack: Pack, alice: Caller) -> None:
    events: list[str] = []

    @pack.on_stop
    def fails() -> None:
        raise RuntimeError

    @pack.on_stop
    def works() -> None:
        events.append("stopped")

    call(alice)
    asyncio.run(engine.close())
    assert events == ["stopped"]
