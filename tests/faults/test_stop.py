"""A hub that is asked to end while it is busy."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.hubs import TrialHub
from tests.support.tools import eventually

BUSY = ["write", "read", "write_in_thread", "read", "write"] * 2
SLACK = 2.0


def test_lets_ten_running_calls_end_and_takes_no_more(trial: TrialHub) -> None:
    with trial.serving() as server, trial.client(server) as kept, ThreadPoolExecutor(1) as pool:
        assert kept.call("read", next(trial.numbers)).code == ""
        running = pool.submit(trial.call_together, server, BUSY, seconds=2.0)
        assert eventually(lambda: len(trial.recorder.seen) == 1 + len(BUSY), 10)
        server.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        assert eventually(lambda: trial.call(server, "write").http != 200, 1), "a new connection is still served"
        for refused in (kept.call("write", next(trial.numbers)), trial.call(server, "write")):
            assert refused.http == 0 or refused.code == "SHUTTING_DOWN", refused
        answers = running.result()
        assert [answer.http for answer in answers] == [200] * len(BUSY)
        assert server.process.wait(10) == 0
        assert time.monotonic() - begun < 2 + SLACK
        assert "Traceback" not in "".join(server.errors)
    rows = trial.store.calls()
    assert {rows[answer.call_id] for answer in answers} == {"succeeded"}
    assert {execution.call for execution in trial.recorder.seen} <= set(rows)
    assert trial.store.under_way() == set()
    assert trial.store.leases() == [], "a process that ended well is not waited for"


@pytest.mark.faults
def test_ends_after_ten_seconds_and_records_running_calls(trial: TrialHub) -> None:
    with trial.serving() as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(trial.call_together, server, BUSY, seconds=25.0)
        assert eventually(lambda: len(trial.recorder.seen) == len(BUSY), 10)
        server.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        server.process.wait(20)
        assert time.monotonic() - begun < 11 + SLACK
        answers = running.result()
    rows = trial.store.calls()
    assert len(rows) == len(BUSY)
    assert set(rows.values()) <= {"cancelled", "timeout", "failed"}, rows
    for answer in answers:
        assert not answer.http or rows[answer.call_id] in {"cancelled", "failed"}, answer
    assert trial.store.leases() == []
