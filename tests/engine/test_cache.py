"""Answers that are given again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.engine import Options, Result
from tools_app.engine.answers import Answer
from tools_app.engine.cache import OVERHEAD, TIMES, Cache
from tools_app.models import Call, ErrorLog
from tools_app.packs import finding
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import (
    ApiError,
    ToolError,
    ToolTimeoutError,
    UpstreamUnavailableError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.reach import Reach


def answer(text: str) -> Answer:
    return Answer(text, text, None, len(text))


class Tool:
    """Counts its runs."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.runs = 0

    async def run(self) -> Answer:
        self.runs += 1
        outcome = self.outcomes.pop(0) if self.outcomes else f"run {self.runs}"
        await asyncio.sleep(0.01)
        if isinstance(outcome, BaseException):
            raise outcome
        return answer(outcome)


def long() -> float:
    return 30.0


def asked(cache: Cache, key: str, run: Tool, seconds: float = 60) -> tuple[str, bool]:
    made, theirs = asyncio.run(cache.answer(key, seconds, run.run, long))
    return made.text, theirs


def test_gives_an_answer_again_until_its_time_is_over() -> None:
    now = 100.0
    cache, run = Cache(10**6, lambda: now), Tool()
    assert asked(cache, "a", run) == ("run 1", False)
    assert asked(cache, "a", run) == ("run 1", True)
    assert asked(cache, "b", run) == ("run 2", False)
    now = 160.0
    assert asked(cache, "a", run) == ("run 3", False)


def test_the_answer_longest_unused_goes_first() -> None:
    size = 100 * TIMES + OVERHEAD
    cache, run = Cache(4 * size), Tool(*("x" * 100 for _ in range(9)))
    for key in ("a", "b", "c", "d", "a", "e"):
        asked(cache, key, run)
    assert [asked(cache, key, run)[1] for key in ("a", "c", "d", "e")] == [True] * 4
    assert not asked(cache, "b", run)[1]


def test_one_large_answer_does_not_push_the_others_out() -> None:
    cache, run = Cache(10_000), Tool("small", "x" * 3_000)
    asked(cache, "small", run)
    asked(cache, "large", run)
    assert asked(cache, "small", run)[1]
    assert not asked(cache, "large", run)[1]


def test_nothing_is_kept_where_there_is_no_room() -> None:
    cache, run = Cache(0), Tool()
    asked(cache, "a", run)
    assert not asked(cache, "a", run)[1]


def test_calls_for_the_same_at_the_same_time_share_one_run() -> None:
    cache, run = Cache(10**6), Tool()

    async def story() -> list[tuple[Answer, bool]]:
        return await asyncio.gather(*(cache.answer("a", 60, run.run, long) for _ in range(20)))

    told = asyncio.run(story())
    assert run.runs == 1
    assert {made.text for made, _ in told} == {"run 1"}
    assert [theirs for _, theirs in told].count(False) == 1


def test_those_who_wait_share_the_error_and_nobody_after_them() -> None:
    cache = Cache(10**6)
    run = Tool(ApiError("no", context={"operation": "read", "statusCode": 500}))

    async def story() -> list[Any]:
        return await asyncio.gather(*(cache.answer("a", 60, run.run, long) for _ in range(5)), return_exceptions=True)

    told = asyncio.run(story())
    assert run.runs == 1
    assert {type(error) for error in told} == {ApiError}
    assert len({id(error) for error in told}) == 5
    assert asked(cache, "a", run) == ("run 2", False)


@pytest.mark.parametrize("reason", ["cancelled", "timeout"])
def test_who_waits_goes_on_when_the_first_gives_up_for_reasons_of_its_own(reason: str) -> None:
    cache = Cache(10**6)
    run = Tool(ToolTimeoutError() if reason == "timeout" else "never told")

    async def story() -> tuple[Answer, bool]:
        first = asyncio.create_task(cache.answer("a", 60, run.run, long))
        await asyncio.sleep(0)
        second = asyncio.create_task(cache.answer("a", 60, run.run, long))
        await asyncio.sleep(0)
        if reason == "cancelled":
            first.cancel()
        with pytest.raises((asyncio.CancelledError, ToolTimeoutError)):
            await first
        return await second

    assert asyncio.run(story()) == (answer("run 2"), False)


def test_who_waits_waits_no_longer_than_it_may() -> None:
    cache, run = Cache(10**6), Tool()

    async def story() -> Answer:
        first = asyncio.create_task(cache.answer("a", 60, run.run, long))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await cache.answer("a", 60, run.run, lambda: 0.0)
        return (await first)[0]

    assert asyncio.run(story()).text == "run 1"


# ---- in the engine


@pytest.fixture
def cached(hub: Hub) -> Programmable:
    made = Programmable(cache_seconds=60)
    hub.add(made.tool)
    return made


def call(caller: Caller, **arguments: Any) -> Result:
    return engine.call_sync("programmable", arguments, caller, door="code")


def test_a_cached_answer_is_given_to_everybody_and_journaled(cached: Programmable, alice: Caller) -> None:
    bob = Caller("key", "key:2", "bob", alice.scopes)
    results = [call(alice, value=1), call(bob, value=1), call(alice, value=2)]
    assert [result.answered_by for result in results] == ["", "cache", ""]
    assert len(cached.calls) == 2
    assert len({result.call_id for result in results}) == 3
    assert list(Call.objects.filter(caller_id="key:2").values_list("answered_by", "attempts", "status")) == [
        ("cache", 0, "succeeded")
    ]


def test_what_its_author_did_not_call_the_same_for_all_is_cached_for_each(
    programmable: Programmable, alice: Caller
) -> None:
    governance.set_policy("programmable", {"cache_seconds": 60}, actor=governance.trusted("test"))
    bob = Caller("key", "key:2", "bob", alice.scopes)
    results = [call(alice), call(bob), call(alice), call(bob)]
    assert [result.answered_by for result in results] == ["", "", "cache", "cache"]
    governance.set_policy("echo", {"timeout_ms": 5_000}, actor=governance.trusted("test"))
    assert call(alice).answered_by == "", "who may use what has changed"


def test_a_search_that_is_cached_tells_nobody_of_the_tools_of_others(hub: Hub, alice: Caller) -> None:
    hub.add(*finding.pack.tools)
    governance.set_policy("search_tools", {"cache_seconds": 60}, actor=governance.trusted("test"))
    governance.create_toolset("words", packs=["finding"], actor=governance.trusted("test"))
    bob = Caller("key", "key:2", "bob", alice.scopes, Reach(frozenset({"words"})))

    def names(caller: Caller) -> list[str]:
        found = engine.call_sync("search_tools", {"query": "calculate"}, caller, door="code").answer.value
        return [one["name"] for one in found["tools"]]

    assert names(alice) == ["calculate"]
    assert names(bob) == []


def test_a_tool_that_was_switched_off_is_not_answered_from_the_cache(cached: Programmable, alice: Caller) -> None:
    call(alice)
    governance.set_enabled(["programmable"], enabled=False, actor=governance.trusted("test"))
    with pytest.raises(ToolError, match="Tool is disabled"):
        call(alice)


def test_a_cached_answer_counts_against_the_rate(cached: Programmable, alice: Caller) -> None:
    governance.set_policy("programmable", {"rate_calls": 2, "rate_seconds": 60}, actor=governance.trusted("test"))
    call(alice)
    call(alice)
    with pytest.raises(ToolError, match="Rate limit exceeded"):
        call(alice)


def test_an_error_that_is_shared_is_in_the_error_log_once(cached: Programmable, alice: Caller) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.5)  # until the other two wait for this one, also on a busy machine
        raise UpstreamUnavailableError("gone")

    cached.outcomes = [fail]

    async def story() -> list[Any]:
        calls = (engine.call("programmable", {}, alice, door="code") for _ in range(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    told = asyncio.run(story())
    assert len({error.error_id for error in told}) == 1
    assert set(Call.objects.values_list("status", "error_id")) == {("failed", told[0].error_id)}
    assert ErrorLog.objects.count() == 1


def test_a_call_with_a_key_of_its_own_is_not_answered_from_the_cache(cached: Programmable, alice: Caller) -> None:
    call(alice)
    engine.call_sync("programmable", {}, alice, door="code", options=Options(idempotency_key="k"))
    assert len(cached.calls) == 2


def test_what_writes_is_never_cached(hub: Hub, alice: Caller) -> None:
    writing = Programmable("writing", hints=Hints())
    hub.add(writing.tool)
    with pytest.raises(ValidationError, match="says that it writes"):
        governance.set_policy("writing", {"cache_seconds": 5}, actor=governance.trusted("test"))
    with pytest.raises(DefinitionError, match="read_only=True"):

        @tool(cache_seconds=5)
        def wrong() -> str:
            """Write."""
            return ""
