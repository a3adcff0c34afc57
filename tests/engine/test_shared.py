"""What two hubs count together in a real Redis, also while it is killed, frozen and started again.

Each hub is what a process has: its own connections, counters, places and answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support import redis_server
from tests.support.redis_server import RedisServer
from tests.support.tools import Hub as Tools
from tests.support.tools import Programmable
from tools_app import engine
from tools_app.access import limits
from tools_app.base import secrets, shared
from tools_app.base.hub import Hub
from tools_app.base.setting_table import REDIS
from tools_app.engine import cache, guards
from tools_app.engine.answers import Answer
from tools_app.engine.cache import MOST_SHARED_BYTES, Cache, Claim
from tools_app.engine.guards import Guards, Upstream
from tools_app.management.commands.doctor import Diagnosis, _of_limits
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import RateLimitError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import CircuitOpenError
from tools_app.sdk.policies import Breaker, Circuit, Rate
from tools_app.sdk.variables import InvalidError

RATE = Rate(4, 1_000)
ASKED = Caller("key", "key:7", "one", frozenset(), rate=RATE)


@pytest.fixture
def redis(settings: Any) -> Iterator[RedisServer]:
    with redis_server.running() as server:
        settings.TOOLHUB_REDIS_URL = server.url
        yield server


class Process:
    """A hub, with what its engine has."""

    def __init__(self) -> None:
        self.hub = Hub()
        with self.hub.active():
            shared.of_hub().stay(asyncio.get_running_loop())
            self.guards = Guards()
            self.cache = Cache(10**6)

    def upstream(self, places: int = 1) -> Upstream:
        one = self.guards.upstream("tracker")
        one.most_running = places
        return one

    async def aclose(self) -> None:
        with self.hub.active():
            await self.guards.aclose()
        await self.hub.aclose()


@pytest.fixture
async def processes(redis: RedisServer, anyio_backend: str) -> Any:
    made = [Process(), Process()]
    yield made
    for process in made:
        await process.aclose()


async def allowed(process: Process, times: int) -> int:
    """The number of calls, of those made, that the limit allows."""
    number = 0
    with process.hub.active():
        for _ in range(times):
            try:
                await process.guards.count("key:7", "echo", RATE)
            except RateLimitError:
                continue
            number += 1
    return number


def knows_again(process: Process) -> None:
    """Not to wait for the end of the pause."""
    with process.hub.active():
        shared.of_hub()._paused_until = 0.0


# ---- rate limits


@pytest.mark.anyio
async def test_what_a_request_cost_counts_in_all_processes(processes: list[Process]) -> None:
    with processes[0].hub.active():
        limits.count_work(ASKED, 2 * limits.SECONDS_OF_A_REQUEST)
        limits.count_answer(ASKED, limits.BYTES_OF_A_REQUEST)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if "owe" in repr(task)))
    with processes[1].hub.active():
        counted = await limits.count_caller(ASKED)
    await shared.of_hub().leave()
    assert counted is not None
    assert counted.remaining == 0


@pytest.mark.anyio
async def test_two_processes_allow_together_what_one_may(processes: list[Process]) -> None:
    assert [await allowed(process, 3) for process in processes] == [3, 1]
    remaining = []
    for process in (*processes, processes[0]):
        with process.hub.active():
            counted = await limits.count_caller(ASKED)
            assert counted is not None
            remaining.append(counted.remaining)
    await limits.count_body(ASKED, 10_000 * limits.BYTES_OF_A_REQUEST)
    with processes[1].hub.active():
        refused = await limits.count_caller(ASKED)
        strangers = [await limits.count_stranger("192.0.2.1") for _ in range(2)]
        other_rate = await limits.count_caller(replace(ASKED, rate=Rate(9, 60)))
    await shared.of_hub().leave()
    assert remaining == [3, 2, 1]
    assert refused is not None
    assert 1_000 < refused.wait <= 1_260
    assert [one.remaining for one in strangers if one] == [59, 58]
    assert other_rate is not None
    assert other_rate.remaining == 8, "a changed rate begins with a full bucket"


@pytest.mark.anyio
async def test_threads_count_where_coroutines_do(processes: list[Process]) -> None:
    counted = []
    for process in processes:
        with process.hub.active():
            status = await asyncio.to_thread(limits.count_sign_in, "192.0.2.1")
            assert status is not None
            counted.append(status.remaining)
    assert counted == [59, 58]


@pytest.mark.anyio
async def test_while_redis_is_away_each_process_limits_for_itself_and_says_so_once(
    processes: list[Process], redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tools_app.redis")
    assert await allowed(processes[0], 9) == 4
    redis.kill()
    assert [await allowed(process, 9) for process in processes] == [0, 4], "from what each of them knew to be left"
    for process in processes:
        knows_again(process)
    assert [await allowed(process, 9) for process in processes] == [0, 0]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"], "each of the two, once"
    redis.start()
    for process in processes:
        knows_again(process)
    assert sum([await allowed(process, 9) for process in processes]) == 4
    assert [record.levelname for record in caplog.records[2:]] == ["INFO", "INFO"]


@pytest.mark.anyio
async def test_a_redis_that_does_not_answer_is_not_asked_by_each_call(
    redis: RedisServer, settings: Any, anyio_backend: str
) -> None:
    settings.TOOLHUB_REDIS_URL = redis.impatient_url
    process = Process()
    with redis.frozen():
        assert await allowed(process, 1) == 1
        with process.hub.active():
            assert "Timeout" in shared.of_hub().trouble
            shared.of_hub()._paused_until = float("inf")
        assert await allowed(process, 9) == 3
    knows_again(process)
    assert await allowed(process, 9) == 4
    await process.aclose()


def test_event_loops_that_last_for_one_request_leave_nothing_behind(redis: RedisServer) -> None:
    """As under WSGI."""

    async def request() -> int:
        counted = await limits.count_caller(ASKED)
        limits.count_answer(ASKED, limits.BYTES_OF_A_REQUEST)
        assert counted is not None
        return counted.remaining

    hub = Hub()
    with hub.active():
        assert asyncio.run(request()) == 3
        for thread in threading.enumerate():
            if thread.name == "toolhub-owing":
                thread.join()
        assert asyncio.run(request()) == 1, "what was owed at the end of the first request counts"
        assert shared.of_hub()._clients == {}
    with contextlib.closing(redis.connected()) as client:
        assert len(client.client_list()) <= 1 + 3, "its own, and one for each thread"
    hub.close()


# ---- places and circuits


@pytest.mark.anyio
async def test_a_place_is_one_of_all_processes(processes: list[Process]) -> None:
    one, other = (process.upstream(places=2) for process in processes)
    with processes[0].hub.active():
        held = [await one.enter(20), await one.enter(20)]
    with processes[1].hub.active():
        waiting = asyncio.create_task(other.enter(20))
        gone = asyncio.create_task(other.enter(20))
        await asyncio.sleep(0)
        assert processes[1].guards.state("tracker") | {"name": ""} == {
            "name": "",
            "circuit": Circuit.CLOSED,
            "running": 0,
            "waiting": 2,
        }
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    with processes[0].hub.active():
        held.pop().leave()
    with processes[1].hub.active():
        (await waiting).leave()
    with processes[0].hub.active():
        held.pop().leave()
    assert (one.running, other.running, other.asking) == (0, 0, 0)


@pytest.mark.anyio
async def test_the_place_of_a_killed_process_is_free_when_its_call_would_have_ended(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "GRACE_SECONDS", 0.0)
    with processes[0].hub.active():
        await processes[0].upstream().enter(0.3)  # and never left
    with processes[1].hub.active():
        (await processes[1].upstream().enter(20)).leave()


@pytest.mark.anyio
async def test_failures_in_all_processes_open_the_circuit_of_all_and_one_call_probes(
    processes: list[Process],
) -> None:
    async def fail(number: int) -> None:
        process = processes[number % 2]
        with process.hub.active():
            place = await process.upstream(9).enter(20)
            place.failed(UpstreamUnavailableError("down"))
            place.leave()
            await process.guards.aclose()

    for number in range(5):
        await fail(number)
    for process in processes:
        with process.hub.active(), pytest.raises(CircuitOpenError) as refused:
            await process.upstream(9).enter(20)
        assert refused.value.retry_after == pytest.approx(60, abs=20)
        assert process.guards.state("tracker")["circuit"] is Circuit.OPEN
        process.upstream(9).breaker.rest = 0.01
    await asyncio.sleep(0.02)
    with processes[0].hub.active():
        probe = await processes[0].upstream(9).enter(20)
    processes[1].upstream(9).breaker.rest = 60
    with processes[1].hub.active(), pytest.raises(CircuitOpenError):
        await processes[1].upstream(9).enter(20)
    probe.succeeded()
    with processes[0].hub.active():
        probe.leave()
        await processes[0].guards.aclose()
    processes[1].upstream(9).breaker.opened_at = None
    with processes[1].hub.active():
        (await processes[1].upstream(9).enter(20)).leave()


@pytest.mark.anyio
async def test_outcomes_open_the_circuit_in_redis_exactly_when_they_do_in_a_process(
    processes: list[Process],
) -> None:
    chance = random.Random(29)
    with processes[0].hub.active():
        for number in range(40):
            one, expected = processes[0].guards.upstream(f"upstream {number}"), Breaker()
            for step in range(30):
                place = await one.enter(20)
                good = chance.random() < 0.6
                (expected.succeeded if good else expected.failed)(float(step) / 10)
                place.outcome = "good" if good else "bad"
                place.leave()
                await processes[0].guards.aclose()
                assert (one.breaker.opened_at is None) is (expected.opened_at is None), (number, step)
                if expected.opened_at is not None:
                    break


@pytest.mark.anyio
async def test_places_and_circuits_go_on_in_each_process_while_redis_is_away(
    processes: list[Process], redis: RedisServer
) -> None:
    one = processes[0].upstream()
    with processes[0].hub.active():
        place = await one.enter(20)
        redis.kill()
        place.failed(UpstreamUnavailableError("down"))
        place.leave()
        for _ in range(4):
            place = await one.enter(20)
            place.failed(UpstreamUnavailableError("down"))
            place.leave()
            await processes[0].guards.aclose()
        with pytest.raises(CircuitOpenError):
            await one.enter(20)
    with processes[1].hub.active():
        (await processes[1].upstream().enter(20)).leave()
    redis.start()
    knows_again(processes[1])
    with processes[1].hub.active():
        (await processes[1].upstream().enter(20)).leave()


@pytest.mark.anyio
async def test_what_redis_did_without_being_heard_is_undone_when_it_answers(
    redis: RedisServer, settings: Any, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    monkeypatch.setattr(shared, "PAUSE_SECONDS", 0.05)
    patient, runs = Process(), 0
    settings.TOOLHUB_REDIS_URL = redis.impatient_url
    hasty = Process()
    one = hasty.upstream(3)

    async def run() -> Answer:
        nonlocal runs
        runs += 1
        return Answer("x", "", None, 1)

    async def entered() -> Any:
        """With a place of all processes: on a busy machine, Redis may have been too slow for that."""
        while not (place := await one.enter(60)).lease:
            place.leave()
            await asyncio.sleep(0.05)
        return place

    with patient.hub.active():
        key = shared.of_hub()._prefix + one.keys[0]
    with hasty.hub.active(), contextlib.closing(redis.connected()) as client:
        held = await entered()
        # On a connection that begins, Redis would not get as far as to the question.
        await asyncio.gather(*(hasty.cache.answer(f"{number}", 60, run, lambda: 20.0) for number in range(4)))
        runs = 0
        # Its circuit has been open for long: the next call is the probe of all processes.
        client.hset(key, "opened", time.time() - 1_000)
        with redis.frozen():
            answering = asyncio.create_task(hasty.cache.answer("q", 60, run, lambda: 20.0))
            unheard = await one.enter(60)
            assert not unheard.lease
            assert await answering == (await run(), False)
            held.leave()
            await hasty.guards.aclose()
        unheard.leave()
        for _ in range(2_000):
            if not client.hexists(key, "probing"):
                break
            await asyncio.sleep(0.01)
        assert client.hkeys(key) == [b"opened"], "the next call can probe"
        client.delete(key)
    with patient.hub.active():
        async with asyncio.timeout(20):
            places = [await patient.upstream(3).enter(20) for _ in range(3)]
        await patient.cache.answer("q", 60, run, lambda: 5.0)
        for place in places:
            place.leave()
    assert runs == 3
    for process in (patient, hasty):
        await process.aclose()


@pytest.mark.anyio
async def test_a_healthy_upstream_does_not_fill_redis(processes: list[Process], redis: RedisServer) -> None:
    upstream = processes[0].upstream()
    slice_now = int(time.time() / 10)
    with processes[0].hub.active(), contextlib.closing(redis.connected()) as client:
        key = shared.of_hub()._prefix + upstream.keys[0]
        client.hset(key, mapping={f"good{slice_now - ago}": 1 for ago in range(1, 500)})
        place = await upstream.enter(20)
        place.succeeded()
        place.leave()
        await processes[0].guards.aclose()
        kept = {field.decode() for field in client.hkeys(key)}
    assert len(kept) <= 8
    assert f"good{slice_now - 1}" in kept


# ---- answers


@pytest.mark.anyio
async def test_processes_share_one_run_and_redis_learns_nothing(processes: list[Process], redis: RedisServer) -> None:
    runs = 0

    async def run() -> Answer:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0.1)
        return Answer({"name": "Grüße"}, "confidential", {"name": "Grüße"}, 12, untrusted=True, marks=True)

    async def asked(process: Process) -> tuple[Answer, bool]:
        with process.hub.active():
            return await process.cache.answer("the question", 60, run, lambda: 20.0)

    told = await asyncio.gather(*(asked(process) for process in processes * 3))
    assert runs == 1
    assert [is_shared for _, is_shared in told].count(False) == 1
    assert {repr(answer) for answer, _ in told} == {repr(told[0][0])}
    await allowed(processes[0], 1)
    stored = redis.content()
    assert {key.split(b":")[2] for key in stored} == {b"answer", b"rate"}
    for word in (b"confidential", b"question", b"key:7", b"echo"):
        assert all(word not in key + value for key, value in stored.items())


@pytest.mark.anyio
async def test_after_a_run_without_an_answer_the_next_process_runs(processes: list[Process]) -> None:
    began = asyncio.Event()

    async def fail() -> Answer:
        began.set()
        await asyncio.sleep(0.05)
        raise UpstreamUnavailableError("down")

    async def work() -> Answer:
        return Answer("x" * size, "", None, size)

    size = 1

    async def asked(process: Process, run: Any, key: str = "q") -> tuple[Answer, bool]:
        with process.hub.active():
            return await process.cache.answer(key, 60, run, lambda: 20.0)

    first = asyncio.create_task(asked(processes[0], fail))
    await began.wait()
    answer, is_shared = await asked(processes[1], work)
    assert (answer.value, is_shared) == ("x", False)
    with pytest.raises(UpstreamUnavailableError):
        await first
    size = MOST_SHARED_BYTES + 1
    large = [(await asked(process, work, "large"))[1] for process in processes]
    assert large == [False, False], "it stays in its process"


@pytest.mark.anyio
async def test_an_answer_that_somebody_else_put_there_is_not_given(
    processes: list[Process], redis: RedisServer
) -> None:
    async def run() -> Answer:
        return Answer("ours", "ours", None, 4)

    async def asked(process: Process, key: str) -> str:
        with process.hub.active():
            return (await process.cache.answer(key, 60, run, lambda: 20.0))[0].text

    await asked(processes[0], "a")
    with processes[0].hub.active():
        names = [shared.of_hub()._prefix + shared.name("answer", Claim(key, is_shared=True)._key) for key in "abcd"]
        unknown = secrets.encrypted(zlib.compress(json.dumps([Claim("d", is_shared=True)._key, {"later": 1}]).encode()))
    client = redis.connected()
    client.set(names[1], client.get(names[0]), px=60_000)
    client.set(names[2], b"forged", px=60_000)
    client.set(names[3], unknown, px=60_000)
    client.close()
    assert [await asked(processes[1], key) for key in "bcd"] == ["ours"] * 3


@pytest.mark.anyio
async def test_large_answers_are_written_and_read_off_the_event_loop_and_not_between_versions(
    processes: list[Process], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_threads: list[bool] = []
    for name in ("_written", "_read"):
        work = getattr(cache, name)

        def watched(*arguments: Any, work: Any = work) -> Any:
            on_threads.append(threading.current_thread() is not threading.main_thread())
            return work(*arguments)

        monkeypatch.setattr(cache, name, watched)
    noise = random.Random(4).randbytes(50_000).hex()

    async def run() -> Answer:
        return Answer({"noise": noise}, noise, {"noise": noise}, 100_000)

    async def asked(process: Process) -> bool:
        with process.hub.active():
            return (await process.cache.answer("q", 60, run, lambda: 20.0))[1]

    assert [await asked(process) for process in processes] == [False, True]
    assert on_threads == [True, True]
    settings.TOOLHUB_VERSION = "next"
    later = Process()
    assert await asked(later) is False
    await later.aclose()


# ---- the whole hub


def test_calls_succeed_before_during_and_after_the_absence_of_redis(
    redis: RedisServer, hub: Tools, alice: Caller, settings: Any
) -> None:
    cached = Programmable("cached", cache_seconds=60)
    hub.add(cached.tool)
    reading = Programmable("reading")
    hub.add(reading.tool)

    def call(number: int) -> set[str]:
        results = [engine.call_sync(name, {"value": number}, alice, door="code") for name in ("cached", "reading")]
        return {str(result.answer.value) for result in results}

    call(1)
    assert len(shared.of_hub()._clients) == 1, "the event loop of the engine lasts"
    assert {key.split(b":")[2] for key in redis.content()} >= {b"answer", b"rate"}
    redis.kill()
    call(2)
    limited, redis_at = list(_of_limits()), shared.of_hub().place
    assert [(one.check, one.is_good) for one in limited] == [("limits", False)]
    assert f"Redis at {redis_at} cannot be used" in limited[0].text
    redis.start()
    shared.of_hub()._paused_until = 0.0
    call(3)
    assert list(_of_limits()) == [
        Diagnosis("limits", True, f"limits count in all processes together, in Redis at {redis_at}")
    ]
    assert len(cached.calls) == len(reading.calls) == 3


def test_without_the_setting_redis_is_not_imported() -> None:
    program = (
        "import asyncio, os, sys, django\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "django.setup()\n"
        "from tools_app.access import limits\n"
        "asyncio.run(limits.count_stranger('192.0.2.1'))\n"
        "limits.count_sign_in('192.0.2.1')\n"
        "print('redis' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "url",
    [
        *("http://redis.test", "redis://", "redis://x y", "unix://", "redis://h:99999", "h:6379"),
        *("redis://h?decode_responses=true", "redis://h?socket_timeout=long", "redis://h?socket_timeout="),
    ],
)
def test_an_address_that_is_none_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidError, match="expected redis://USER:PASSWORD@HOST") as refused:
        REDIS(url)
    assert refused.value.quote is None


def test_the_place_that_is_named_has_no_password(settings: Any) -> None:
    places = []
    for url in ("rediss://name:secret@redis.test/1", "redis://:secret@[::1]:7000", "unix:///run/redis.sock?db=1"):
        settings.TOOLHUB_REDIS_URL = REDIS(url)
        places.append(shared.Shared().place)
    assert places == ["redis.test:6379", "::1:7000", "/run/redis.sock"]
