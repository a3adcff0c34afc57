"""The snapshot is exact after every change, made by any process in any way."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from django.db import connection, transaction

from tests.support.declared import DeclaredSource
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub, Programmable
from tools_app import governance, sources
from tools_app.base import database
from tools_app.base import hub as hubs
from tools_app.catalog import catalog, listed, offers
from tools_app.catalog.catalog import CatalogState
from tools_app.catalog.snapshot import NOTHING, Snapshot
from tools_app.models import Tag, ToolRecord, ToolTag
from tools_app.models.sources import LoadProblem
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import StorageBusyError
from tools_app.sdk.pack import Pack
from tools_app.sdk.prompt import prompt
from tools_app.sources import sync


def fresh() -> Snapshot:
    return asyncio.run(catalog.fresh())


def test_is_the_same_object_until_something_changes(hub: Hub) -> None:
    assert catalog.current() is catalog.current()
    assert fresh() is catalog.current()


@pytest.mark.parametrize("look", [catalog.current, fresh])
def test_is_true_right_after_a_change(hub: Hub, look: Any) -> None:
    assert look().find("echo").callable
    ToolRecord.objects.filter(name="echo").update(enabled=False)
    assert not look().find("echo").callable
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tools_app_toolrecord SET enabled = NOT enabled WHERE name = 'echo'")
    assert look().find("echo").callable


def test_does_not_show_what_is_not_committed_to_others(hub: Hub) -> None:
    with transaction.atomic():
        ToolRecord.objects.filter(name="echo").update(enabled=False)
        seen: list[bool] = []

        def look() -> None:
            seen.append(hub.entry("echo").callable)
            connection.close()

        other = threading.Thread(target=look)
        other.start()
        other.join()
        assert seen == [True]


def test_lists_by_name(hub: Hub) -> None:
    hub.add(Programmable("zebra").tool, Programmable("aardvark").tool)
    assert [entry.name for entry in catalog.current().all] == ["aardvark", "calculate", "echo", "read_result", "zebra"]


def test_leaves_out_what_cannot_be_called_and_says_why(hub: Hub) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    snapshot = catalog.current()
    assert [entry.name for entry in snapshot.callable] == ["calculate", "read_result"]
    refusal = snapshot.find("echo").refusal  # type: ignore[union-attr]
    assert refusal is not None
    assert refusal.reason == "switched off by an operator"


def test_a_pack_without_its_settings_is_there_but_cannot_be_called(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = Pack("needy", requires=["NEEDY_URL", "NEEDY_KEY"])

    @pack.tool(hints=Hints(read_only=True))
    def ask() -> str:
        """Ask the upstream."""
        return "answer"

    monkeypatch.setenv("NEEDY_URL", "http://localhost")
    hub.add(ask)
    refusal = hub.entry("ask").refusal
    assert refusal is not None
    assert refusal.reason == "not configured: NEEDY_KEY"
    assert "NEEDY_KEY" in refusal.next_step
    monkeypatch.setenv("NEEDY_KEY", "k")
    rebuild_catalog()
    assert hub.entry("ask").callable


def test_a_tool_that_this_process_has_not_loaded_cannot_be_called(hub: Hub) -> None:
    hub.add(Programmable("visitor").tool)
    sources.current().code.loaded().remove("visitor")
    refusal = hub.entry("visitor").refusal
    assert refusal is not None
    assert refusal.reason == "this process does not have it"


def test_a_tool_whose_file_broke_says_so(hub: Hub) -> None:
    visitor = Programmable("visitor").tool
    for declared, problems in (
        ((visitor,), ()),
        ((), (LoadProblem("tools/visitor.py:3", "SyntaxError", tool="visitor"),)),
    ):
        source = sources.current().providers["folder"] = DeclaredSource(*declared, problems=problems)
        sync.sync_source(source, actor="test")
    refusal = hub.entry("visitor").refusal
    assert refusal is not None
    assert refusal.reason == "it could not be loaded"
    assert "SyntaxError" not in f"{refusal.reason} {refusal.next_step}"
    assert refusal.cure.startswith("Fix the load error: tools/visitor.py:3: SyntaxError (since ")


def test_a_retired_tool_is_gone(hub: Hub) -> None:
    hub.add(Programmable("visitor").tool)
    sources.current().code.loaded().remove("visitor")
    sync.sync_source(sources.current().code, actor="test")
    assert catalog.current().find("visitor") is None
    assert ToolRecord.objects.get(name="visitor").retired_at is not None


def test_notices_a_tool_that_code_registers(hub: Hub) -> None:
    before = catalog.current()
    hub.add(Programmable("newcomer").tool)
    assert before.find("newcomer") is None
    assert catalog.current().find("newcomer") is not None


def test_finds_words_in_names_descriptions_and_tags(hub: Hub) -> None:
    ToolTag.objects.create(tool=ToolRecord.objects.get(name="calculate"), tag=Tag.objects.create(name="echoing"))
    assert [entry.name for entry in catalog.current().matching("ECHO")] == ["echo", "calculate"]
    assert catalog.current().matching("  ") == []
    assert catalog.current().matching("echo numbers")[0].name == "calculate"


def test_the_most_specific_deadline_applies(hub: Hub) -> None:
    pack = Pack("slow", timeout=20)

    @pack.tool(timeout=5, hints=Hints(read_only=True))
    def quick() -> str:
        """Quick."""
        return ""

    @pack.tool(hints=Hints(read_only=True))
    def slow() -> str:
        """Slow."""
        return ""

    def limit(name: str) -> tuple[int, str]:
        policy = hub.entry(name).policy
        return policy.timeout_ms, policy.origins["timeout_ms"]

    hub.add(quick, slow)
    assert limit("quick") == (5_000, "tool")
    assert limit("slow") == (20_000, "pack")
    assert limit("echo") == (30_000, "settings")
    governance.set_policy("quick", {"timeout_ms": 700}, actor=governance.trusted("test"))
    assert limit("quick") == (700, "operator")


def test_the_digest_changes_only_with_what_agents_see(hub: Hub) -> None:
    before = listed.digest(catalog.current())
    governance.set_policy("echo", {"timeout_ms": 700}, actor=governance.trusted("test"))
    assert listed.digest(catalog.current()) == before
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    assert listed.digest(catalog.current()) != before
    governance.set_enabled(["echo"], True, actor=governance.trusted("test"))
    assert listed.digest(catalog.current()) == before


def test_names_prompts_whose_tools_do_not_exist(hub: Hub) -> None:
    def ask() -> str:
        """Ask something."""
        return "?"

    hub.offer(prompt(tools=["echo", "nowhere"])(ask))
    (problem,) = offers.unmet(catalog.current())
    assert problem.endswith(": prompt ask needs tools that do not exist: nowhere")
    assert offers.of(catalog.current()).prompts.get("ask") is None


def test_holds_ten_thousand_tools(hub: Hub) -> None:
    ToolRecord.objects.bulk_create(
        ToolRecord(name=f"tool_{number}", folded_name=f"tool_{number}", source_kind="code") for number in range(10_000)
    )
    assert len(catalog.current().all) == 10_003


def test_a_tool_is_declared_as_one_way_only() -> None:
    with pytest.raises(TypeError, match="has no option colour"):
        tool(colour="blue")  # type: ignore[call-overload]


def test_a_database_that_does_not_answer_is_waited_for_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def hang() -> Snapshot:
        answers.wait(20)
        return NOTHING

    monkeypatch.setattr(catalog, "current", hang)
    monkeypatch.setattr(catalog, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(database, "reads_now", lambda: False)

    async def story() -> None:
        with pytest.raises(StorageBusyError):
            await catalog.fresh()
        monkeypatch.setattr(catalog, "PATIENCE_SECONDS", 20)
        with pytest.raises(StorageBusyError):
            await catalog.fresh()
        answers.set()
        overdue = hubs.part(CatalogState).overdue
        assert overdue is not None
        overdue.result(10)
        assert await catalog.fresh() is NOTHING

    asyncio.run(story())


def test_a_tool_that_operators_know_to_write_is_not_cached(hub: Hub) -> None:
    hub.add(Programmable("visitor", cache_seconds=60).tool)
    assert hub.entry("visitor").policy.cache_seconds == 60
    ToolRecord.objects.filter(name="visitor").update(hint_read_only=False)
    entry = hub.entry("visitor")
    assert (entry.hints.writes, entry.policy.cache_seconds) == (True, 0)


def test_an_event_loop_that_was_busy_does_not_count_as_a_database_that_does_not_answer(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "PATIENCE_SECONDS", 0.1)

    async def story() -> Snapshot:
        asking = asyncio.create_task(catalog._in_time())
        await asyncio.sleep(0)
        # When every thread has come here, the catalog was read. The event loop proceeds after the time limit only.
        everybody = threading.Barrier(database.THREADS)
        for reached in [database.start(everybody.wait, 10) for _ in range(database.THREADS)]:
            reached.result()
        time.sleep(0.2)  # noqa: ASYNC251 – the busy event loop
        return await asking

    assert asyncio.run(story()) is catalog.current()


def test_work_that_does_not_begin_in_time_is_left_out(hub: Hub) -> None:
    release, done = threading.Event(), threading.Event()

    async def story() -> None:
        holding = [database.start(release.wait, 10) for _ in range(database.THREADS)]
        with pytest.raises(TimeoutError):
            await database.run_within(0.05, done.set)
        release.set()
        for held in holding:
            held.result()
        await database.run(int)

    asyncio.run(story())
    assert not done.is_set()
