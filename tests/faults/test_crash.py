"""A hub that is killed in the middle of its work: what it did is on record, and it does nothing twice."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tests.support.agents import Agent
from tests.support.hubs import Answer, TrialHub
from tests.support.stores import POSTGRES
from tests.support.tools import eventually

CLIENTS: Final = 8
TOOLS: Final = ("write", "read", "write_in_thread", "write_and_fail")
# What stands in the journal when a caller was told this.
STATUS_OF: Final = {"": "succeeded", "TOOL_EXECUTION_ERROR": "failed"}
# How long calls of a dead process may stay open: what is left of its lease, and the time until somebody looks.
LOOK_SECONDS: Final = 5.0
SLACK: Final = 3.0

Round = Callable[[TrialHub, random.Random], list[Answer]]


def crash_server(trial: TrialHub, chance: random.Random) -> list[Answer]:
    """Eight clients call a server until it is killed; what each was told."""
    answers: list[Answer] = []

    def work(seed: int) -> None:
        own = random.Random(seed)
        with trial.client(server) as client:
            while True:
                answer = client.call(own.choice(TOOLS), next(trial.numbers), seconds=latency(own))
                answers.append(answer)
                if not answer.http:
                    return

    with trial.serving() as server:
        clients = [threading.Thread(target=work, args=(chance.randrange(2**32),)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(chance.uniform(0, 0.5))
        server.end(signal.SIGKILL)
        for client in clients:
            client.join(30)
    return answers


def crash_agent(trial: TrialHub, chance: random.Random) -> list[Answer]:
    """The same over stdin and stdout: one client with eight calls under way."""
    asked: dict[int, tuple[str, int]] = {}
    answers: list[Answer] = []
    with Agent(trial.home) as agent:
        agent.connect()
        killer = threading.Timer(chance.uniform(0, 0.5), agent.process.kill)
        killer.start()
        try:
            while agent.process.poll() is None:
                while len(asked) - len(answers) < CLIENTS:
                    tool, n = chance.choice(TOOLS), next(trial.numbers)
                    asked[agent.ask_tool(tool, n=n, seconds=latency(chance))] = tool, n
                try:
                    answers.append(told(asked, agent.next(0.05)))
                except queue.Empty:
                    continue
        except OSError:
            pass  # It was killed while it was being written to.
        killer.join()
        agent.process.wait(10)
        known = len(agent.seen)
        answers += [told(asked, message) for message in agent.rest()[known:]]
    answered = {answer.n for answer in answers}
    return answers + [Answer(tool, n) for tool, n in asked.values() if n not in answered]


def latency(chance: random.Random) -> float:
    """Calls end at every moment of a round, and some outlive it."""
    return chance.choice((0.0, 0.01, chance.uniform(0, 0.3), 5.0))


def told(asked: dict[int, tuple[str, int]], message: dict[str, Any]) -> Answer:
    assert "result" in message, message
    meta = message["result"]["_meta"]
    body = {"callId": meta["toolhub/callId"], **meta.get("toolhub/error", {})}
    return Answer(*asked[message["id"]], 200, body)


@dataclass
class Tally:
    """What a series of rounds came to."""

    rounds: int = 0
    answered: int = 0
    unanswered: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    settled_within: list[float] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    miscounted: set[tuple[str, str, int]] = field(default_factory=set)

    def __str__(self) -> str:
        slowest = f"{max(self.settled_within):.1f} s" if self.settled_within else "-"
        return (
            f"{self.rounds} crashes: {self.answered} calls answered, {self.unanswered} cut off; "
            f"rows {dict(self.statuses)}; open calls closed within {slowest} of the start; "
            f"writes without a row {len(self.missing)}, repeated {len(self.repeated)}, "
            f"answers without their row {len(self.untrue)}, figures that differ {len(self.miscounted)}"
        )


def crash(trial: TrialHub, one_round: Round, rounds: int, seed: int, settle_every: int) -> Tally:
    """Crash this many times. A process that lives long enough must close the calls left open."""
    chance = random.Random(seed)
    tally = Tally()
    decided = trial.store.governed()
    for number in range(1, rounds + 1):
        answers = one_round(trial, chance)
        tally.rounds += 1
        examine(trial, answers, tally)
        assert trial.store.damage() == []
        assert trial.store.governed() == decided
        if number % settle_every == 0 or number == rounds:
            tally.settled_within.append(settle(trial, one_round))
    tally.statuses.update(trial.store.calls().values())
    tally.repeated += trial.recorder.repeated()
    counted = trial.store.counted()
    tally.miscounted = (counted["calls"] ^ counted["hours"]) | (counted["calls"] ^ counted["days"])
    return tally


def examine(trial: TrialHub, answers: list[Answer], tally: Tally) -> None:
    rows = trial.store.calls()
    tally.missing += [one.call for one in trial.recorder.seen if one.writes and one.call not in rows]
    for answer in answers:
        if not answer.http:
            tally.unanswered += 1
            continue
        tally.answered += 1
        if rows.get(answer.call_id, "missing") != STATUS_OF.get(answer.code):
            tally.untrue.append(f"{answer} is on record as {rows.get(answer.call_id)}")


def settle(trial: TrialHub, one_round: Round) -> float:
    """Start once more and do nothing; seconds until no call was open."""
    open_calls = trial.store.under_way()
    lease = max((left(until) for until in trial.store.leases()), default=0.0)
    begun = time.monotonic()
    with trial.serving() if one_round is crash_server else Agent(trial.home):
        assert eventually(lambda: not trial.store.under_way(), lease + LOOK_SECONDS + SLACK), "calls stay open"
        took = time.monotonic() - begun
        assert eventually(lambda: not trial.store.uncounted(), LOOK_SECONDS + SLACK), "calls stay out of the figures"
    closed = trial.store.calls()
    assert {closed[call] for call in open_calls} <= {"interrupted"}
    return took


def left(until: datetime) -> float:
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def accept(tally: Tally) -> None:
    assert (tally.missing, tally.repeated, tally.untrue, tally.miscounted) == ([], [], [], set()), tally
    assert tally.statuses["interrupted"] > 0, f"no round met a call under way: {tally}"


def test_a_few_crashes_lose_nothing_and_repeat_nothing(trial: TrialHub) -> None:
    accept(crash(trial, crash_server, rounds=2, seed=20261118, settle_every=2))


@pytest.mark.crash
@pytest.mark.parametrize(("one_round", "rounds"), [(crash_server, 30 if POSTGRES else 100), (crash_agent, 30)])
def test_many_crashes_lose_nothing_and_repeat_nothing(
    trial: TrialHub, one_round: Round, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("TOOLHUB_TEST_SEED") or random.randrange(2**32))
    tally = crash(trial, one_round, rounds, seed, settle_every=10)
    with capsys.disabled():
        print(f"\n{one_round.__name__}, TOOLHUB_TEST_SEED={seed}: {tally}")
    accept(tally)
