"""Calls of processes that died are told from those of processes that live, or only sleep."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from tests.support.hubs import TrialHub
from tests.support.tools import eventually

# As long as a lease, and the time until somebody looks.
NOTICED_WITHIN = 4.0 + 5.0
SLACK = 3.0


def status(trial: TrialHub, number: int) -> str:
    call = next(execution.call for execution in trial.recorder.seen if execution.n == number)
    return trial.store.calls()[call]


@pytest.mark.faults
def test_calls_of_a_process_that_sleeps_are_interrupted_and_then_end_as_they_really_do(trial: TrialHub) -> None:
    with (
        trial.serving() as sleeper,
        trial.serving() as watcher,
        trial.client(sleeper) as asleep,
        trial.client(watcher) as awake,
        ThreadPoolExecutor(2) as pool,
    ):
        nap, work = next(trial.numbers), next(trial.numbers)
        sleeping = pool.submit(asleep.call, "write", nap, seconds=2.0)
        working = pool.submit(awake.call, "write", work, seconds=15.0)
        assert eventually(lambda: len(trial.recorder.seen) == 2, 10)
        assert eventually(lambda: len(trial.store.leases()) == 2, 5)
        sleeper.process.send_signal(signal.SIGSTOP)
        try:
            first_to_end = min(trial.store.leases())
            assert eventually(lambda: status(trial, nap) != "started", NOTICED_WITHIN + SLACK)
            assert datetime.now(UTC) > first_to_end, "its lease had not run out"
            assert status(trial, nap) == "interrupted"
        finally:
            sleeper.process.send_signal(signal.SIGCONT)
        assert sleeping.result().code == ""
        assert status(trial, nap) == "succeeded", "what it was told later is the truth"
        assert not working.done()
        assert status(trial, work) == "started", "its process is alive, and has held its lease all the time"
        assert working.result().code == ""
    assert trial.recorder.repeated() == []
    assert trial.store.leases() == []


@pytest.mark.faults
def test_calls_of_a_worker_that_was_killed_are_interrupted_by_the_other_one(trial: TrialHub) -> None:
    workers = trial.home.serving("--workers", "2")
    with workers as server, trial.client(server) as client, ThreadPoolExecutor(1) as pool:
        number = next(trial.numbers)
        cut_off = pool.submit(client.call, "write", number, seconds=20.0)
        assert eventually(lambda: len(trial.recorder.seen) == 1, 10)
        ((worker,),) = trial.store.query(
            "SELECT p.pid FROM tools_app_process p JOIN tools_app_call c ON c.process_id = p.id"
        )
        os.kill(worker, signal.SIGKILL)
        assert cut_off.result().code == "NO_ANSWER"
        assert eventually(lambda: status(trial, number) == "interrupted", NOTICED_WITHIN + SLACK)
        assert {trial.call(server, "write").code for _ in range(10)} == {""}
    assert trial.recorder.repeated() == []
