"""What keeps an engine from being asked too often: one at a time, once for all who ask the same, and seldom again."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.packs.websearch.conftest import Ask
from tests.packs.websearch.fakes import FakeWeb
from tests.support.tools import Hub
from tools_app import engine
from tools_app.models import Call
from tools_app.packs.websearch._work.pace import Pace
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.policies import Backoff


class Time:
    """A clock that only advances during sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds


def test_twenty_at_once_go_one_by_one_in_their_order() -> None:
    time, through = Time(), []

    async def one(pace: Pace, number: int) -> None:
        await pace.wait()
        through.append((number, time.now))

    async def story() -> None:
        pace = Pace(0.1, time, time.sleep)
        await asyncio.gather(*(one(pace, number) for number in range(20)))

    asyncio.run(story())
    assert [number for number, _ in through] == list(range(20))
    moments = [moment for _, moment in through]
    assert moments[0] == 1_000.0, "the first waits for nobody"
    assert min(b - a for a, b in pairwise(moments)) >= 0.0999


def test_a_cancelled_wait_takes_no_turn() -> None:
    time, through = Time(), []

    async def story() -> None:
        pace, gate = Pace(1.0, time, lambda _: gate.wait()), asyncio.Event()

        async def one(number: int) -> None:
            await pace.wait()
            through.append(number)

        await one(0)
        waiting = [asyncio.create_task(one(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
        time.now += 1.0
        gate.set()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(story())
    assert (through, time.now) == ([0, 3], 1_001.0)


def test_a_pause_is_none_where_none_is_set() -> None:
    time = Time()

    async def story() -> None:
        pace = Pace(0.0, time, time.sleep)
        for _ in range(3):
            await pace.wait()

    asyncio.run(story())
    assert time.now == 1_000.0


def all_of(caller: Caller, name: str, questions: list[dict[str, Any]], timeout_ms: int | None = None) -> list[Any]:
    chosen = engine.Options(timeout_ms=timeout_ms)

    async def story() -> list[Any]:
        calls = (engine.call(name, each, caller, door="code", options=chosen) for each in questions)
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(story())


def test_a_hundred_who_ask_the_same_ask_once(ask: Ask, web: FakeWeb, alice: Caller) -> None:
    web.say("html", "ddg_html_last_page.html")
    told = all_of(alice, "web_search", [{"query": "django"}] * 50 + [{"query": "django", "max_results": 10}] * 50)
    assert len({each.answer.text for each in told}) == 1
    assert len(web.asked("html")) == 1
    ask("web_search", query="django", max_results=9)
    assert len(web.asked("html")) == 2, "another number of results is another question"


def test_a_failure_is_shared_and_not_kept(ask: Ask, web: FakeWeb, alice: Caller) -> None:
    web.say("html", ("ddg_html_anomaly.html", 202), "ddg_html_last_page.html")
    web.seconds = 0.3  # while the others come to wait for it
    told = all_of(alice, "web_search", [{"query": "django"}] * 5)
    assert {str(each) for each in told} == {
        "Search provider refused the request (bot challenge). Try again later.",
    }
    assert len(web.asked("html")) == 1
    assert "(3 results)" in ask("web_search", query="django")


@pytest.mark.parametrize(
    ("trouble", "asked"),
    [("reset", 3), ("hang", 3), ("status:503", 1), (("ddg_html_anomaly.html", 202), 1), ("html", 1)],
)
def test_only_what_did_not_arrive_is_asked_for_again(ask: Ask, web: FakeWeb, trouble: Any, asked: int) -> None:
    web.changes["timeout"] = 0.1 if trouble == "hang" else 2.0
    web.say("html", trouble)
    web.say("lite", trouble)
    with pytest.raises(ToolError):
        ask("web_search", query="django", retries=2)
    assert len(web.asked("html")) == asked
    assert Call.objects.exclude(tool_name="hang_up").get().attempts == asked


def test_the_next_attempt_can_succeed(ask: Ask, web: FakeWeb) -> None:
    web.say("html", "close", "ddg_html_last_page.html")
    assert "(3 results)" in ask("web_search", query="django", retries=2)


def test_the_document_s_figures_are_the_pack_s_policy(ask: Ask, hub: Hub) -> None:
    for name in ("web_search", "instant_answer"):
        policy = hub.entry(name).policy
        assert (policy.retries, policy.retry_delay_ms, policy.cache_seconds) == (2, 1_000, 300)
        waits = [Backoff(policy.retry_delay_ms / 1000).wait(attempt, chance=0.5) for attempt in range(policy.retries)]
        assert waits == [1.0, 2.0]
        # Three attempts of ten seconds, and the waits between them at their longest.
        assert policy.timeout_ms / 1000 >= 3 * 10 + 1.25 * sum(waits)


def test_engines_share_one_pace(ask: Ask, web: FakeWeb, alice: Caller) -> None:
    """Its wait counts against the deadline of the call."""
    web.changes |= {"pace_seconds": 60.0, "engines": ("searxng",)}
    assert "SearXNG" in ask("web_search", query="first")
    (told,) = all_of(alice, "instant_answer", [{"query": "second"}], timeout_ms=100)
    assert str(told) == "Execution timeout after 100ms"
    assert (len(web.asked("search")), web.asked("api")) == (1, [])


@pytest.mark.parametrize("tool", ["web_search", "instant_answer"])
def test_the_timeout_of_a_request_is_reported_even_at_the_end_of_the_call(
    ask: Ask, web: FakeWeb, alice: Caller, tool: str
) -> None:
    """The call's deadline never comes first, however short it is."""
    web.changes["timeout"] = 60.0
    for place in ("html", "api"):
        web.say(place, "hang")
    (told,) = all_of(alice, tool, [{"query": "django"}], timeout_ms=1_000)
    assert (str(told), told.code) == ("Request timed out. Please try again.", "TIMEOUT")


def test_a_call_whose_attempts_open_the_circuit_tells_what_they_met(ask: Ask, web: FakeWeb) -> None:
    web.say("html", "reset")
    for _ in range(3):
        with pytest.raises(ToolError):
            ask("web_search", query="django")
    with pytest.raises(ToolError, match=r"^Failed to fetch search results\. Please try again later\.$"):
        ask("web_search", query="django", retries=3)
    assert len(web.asked("html")) == 5
    with pytest.raises(ToolError, match="keeps failing"):
        ask("web_search", query="django")
