"""Limits, breakers and bulkheads, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tools_app.engine import guards
from tools_app.engine.guards import Guards, Place, Upstream
from tools_app.sdk.errors import ApiError, NotFoundError, RateLimitError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import CircuitOpenError, OverloadedError
from tools_app.sdk.policies import Circuit, Rate


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def upstream(clock: Clock, running: int = 10, waiting: int = 50) -> Upstream:
    return Upstream("redmine", running, waiting, clock)


async def failed(one: Upstream, times: int = 1) -> None:
    for _ in range(times):
        place = await one.enter()
        place.failed(UpstreamUnavailableError("down"))
        place.leave()


# ---- rate limits


@pytest.mark.anyio
async def test_each_caller_has_its_own_limit_of_each_tool(clock: Clock) -> None:
    limits = Guards(clock)
    rate = Rate(2, 60)
    for caller, tool in (("a", "x"), ("a", "x"), ("b", "x"), ("a", "y")):
        await limits.count(caller, tool, rate)
    with pytest.raises(RateLimitError) as caught:
        await limits.count("a", "x", rate)
    assert caught.value.message == "Rate limit exceeded: at most 2 calls of x in 60 seconds"
    assert caught.value.retry_after == pytest.approx(30, abs=0.2)
    clock.now += caught.value.retry_after or 0
    await limits.count("a", "x", rate)


@pytest.mark.anyio
async def test_no_limit_counts_nothing(clock: Clock) -> None:
    limits = Guards(clock)
    for _ in range(1000):
        await limits.count("a", "x", None)


@pytest.mark.anyio
async def test_a_changed_limit_holds_from_the_next_call(clock: Clock) -> None:
    limits = Guards(clock)
    await limits.count("a", "x", Rate(1, 60))
    with pytest.raises(RateLimitError):
        await limits.count("a", "x", Rate(1, 60))
    await limits.count("a", "x", Rate(5, 60))


@pytest.mark.anyio
async def test_many_callers_do_not_fill_the_memory(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MOST_BUCKETS", 100)
    limits = Guards(clock)
    await limits.count("first", "x", Rate(1, 60))
    for number in range(1000):
        await limits.count(f"caller-{number}", "x", Rate(1, 60))
    assert len(limits._counters) == 100


# ---- bulkhead


def test_so_many_run_so_many_wait_and_the_rest_is_refused(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock, running=2, waiting=3)
        places = [await one.enter() for _ in range(2)]
        waiting = [asyncio.create_task(one.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as caught:
            await one.enter()
        assert caught.value.context == {"upstream": "redmine", "running": 2, "waiting": 3}
        assert not any(task.done() for task in waiting)
        for place in places:
            place.leave()
        for task in waiting:
            (await asyncio.wait_for(task, 1)).leave()
        assert (one.running, len(one.waiting)) == (0, 0)

    asyncio.run(story())


def test_first_come_first_served(clock: Clock) -> None:
    async def story() -> list[int]:
        one = upstream(clock, running=1)
        first = await one.enter()
        served: list[int] = []

        async def wait(number: int) -> None:
            place = await one.enter()
            served.append(number)
            place.leave()

        waiting = [asyncio.create_task(wait(number)) for number in range(5)]
        await asyncio.sleep(0)
        first.leave()
        await asyncio.gather(*waiting)
        return served

    assert asyncio.run(story()) == [0, 1, 2, 3, 4]


def test_whoever_stops_waiting_costs_nobody_a_place(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock, running=1)
        first = await one.enter()
        gone, stays = (asyncio.create_task(one.enter()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        first.leave()
        place = await asyncio.wait_for(stays, 1)
        place.leave()
        place.leave()
        assert one.running == 0
        # Given the place and cancelled in the same moment.
        first = await one.enter()
        unlucky = asyncio.create_task(one.enter())
        await asyncio.sleep(0)
        first.leave()
        unlucky.cancel()
        await asyncio.gather(unlucky, return_exceptions=True)
        assert one.running == 0

    asyncio.run(story())


# ---- breaker


def test_five_failures_open_the_circuit_and_nothing_is_sent_until_a_probe_succeeds(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock)
        await failed(one, 5)
        clock.now += 12
        with pytest.raises(CircuitOpenError) as caught:
            await one.enter()
        assert caught.value.message == "redmine keeps failing; calls to it are suspended (circuit open)"
        assert caught.value.retry_after == 48
        assert caught.value.context == {"upstream": "redmine", "sinceSeconds": 12}
        clock.now += 48
        entered = await asyncio.gather(*(one.enter() for _ in range(9)), return_exceptions=True)
        probes = [place for place in entered if isinstance(place, Place)]
        assert len(probes) == 1, "exactly one probe"
        probes[0].succeeded()
        probes[0].leave()
        assert one.breaker.state(clock.now) is Circuit.CLOSED
        (await one.enter()).leave()
        assert one.running == 0

    asyncio.run(story())


def test_whoever_waited_is_refused_when_the_circuit_has_opened_meanwhile(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock, running=1)
        first = await one.enter()
        waiting = asyncio.create_task(one.enter())
        await asyncio.sleep(0)
        for _ in range(5):
            one.breaker.failed(clock.now)
        first.leave()
        with pytest.raises(CircuitOpenError):
            await waiting
        assert one.running == 0

    asyncio.run(story())


def test_a_probe_that_says_nothing_makes_room_for_the_next(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock)
        await failed(one, 5)
        clock.now += 60
        (await one.enter()).leave()
        (await one.enter()).succeeded()
        assert one.breaker.state(clock.now) is Circuit.CLOSED

    asyncio.run(story())


def test_what_began_before_the_circuit_opened_does_not_close_it(clock: Clock) -> None:
    async def story() -> None:
        one = upstream(clock)
        early = await one.enter()
        await failed(one, 5)
        clock.now += 60
        probe = await one.enter()
        early.succeeded()
        early.leave()
        assert one.breaker.state(clock.now) is Circuit.HALF_OPEN
        with pytest.raises(CircuitOpenError):
            await one.enter()
        probe.succeeded()
        assert one.breaker.state(clock.now) is Circuit.CLOSED

    asyncio.run(story())


@pytest.mark.parametrize(
    ("make", "blamed"),
    [
        (lambda: UpstreamUnavailableError("down"), True),
        (lambda: ApiError("broken", context={"operation": "x", "statusCode": 500}), True),
        (lambda: ApiError("refused", context={"operation": "x", "statusCode": 400}), False),
        (lambda: NotFoundError("none", context={"operation": "x", "resourceType": "y", "resourceId": "z"}), False),
    ],
)
def test_only_what_an_upstream_is_to_blame_for_counts_against_it(
    clock: Clock, make: Callable[[], Any], blamed: bool
) -> None:
    async def story() -> Circuit:
        one = upstream(clock)
        for _ in range(5):
            place = await one.enter()
            place.failed(make())
            place.leave()
        return one.breaker.state(clock.now)

    assert asyncio.run(story()) is (Circuit.OPEN if blamed else Circuit.CLOSED)


def test_one_upstream_does_not_know_of_another(clock: Clock, settings: Any) -> None:
    limits = Guards(clock)

    async def story() -> None:
        await failed(limits.upstream("redmine"), 5)
        with pytest.raises(CircuitOpenError):
            await limits.upstream("redmine").enter()
        (await limits.upstream("n8n").enter()).leave()

    asyncio.run(story())
