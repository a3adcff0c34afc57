"""Every step of a call breaks once: the caller gets an error, the journal is true, and the hub keeps working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hubs import Answer, TrialHub
from tests.support.tools import eventually
from tests.support.trials.breaking import MOMENTS, SAID

# What may stand in the journal when the caller was told this. A call whose end could not be written down in time is
# written down later, as what it was.
STATUSES = {
    "": {"succeeded"},
    "INTERNAL_ERROR": {"failed"},
    "TOOL_EXECUTION_ERROR": {"failed"},
    "STORAGE_BUSY": {"failed", "succeeded"},
}
# The tool has run and that is on record; only the caller cannot be told any more.
TOO_LATE = {"after succeed", "before result", "after result"}


@pytest.fixture
def armed(trial: TrialHub, tmp_path: Path) -> Path:
    path = tmp_path / "fault"
    trial.home.extra["TRIALS_FAULT"] = str(path)
    return path


def executed(trial: TrialHub, answer: Answer) -> list[str]:
    return [execution.call for execution in trial.recorder.seen if execution.n == answer.n]


def test_an_exception_at_any_step_is_reported_and_recorded(trial: TrialHub, armed: Path) -> None:
    told: dict[str, Answer] = {}
    with trial.serving() as server, trial.client(server) as client:
        assert client.call("write", next(trial.numbers)).code == "", "the first call imports what breaks the others"
        for moment in MOMENTS:
            armed.write_text(f"{moment} raise")
            told[moment] = client.call("write", next(trial.numbers))
            assert not armed.exists(), f"no call passes {moment}"
            assert client.call("write", next(trial.numbers)).code == "", f"the hub is of no use {moment}"
        assert eventually(lambda: not trial.store.under_way(), 10), trial.store.calls()
        rows = trial.store.calls()
        for moment, answer in told.items():
            assert answer.code in STATUSES, f"{moment}: {answer}"
            allowed = {"succeeded"} if moment in TOO_LATE else STATUSES[answer.code]
            assert rows.get(answer.call_id) in allowed, f"{moment}: {answer}"
            assert SAID not in str(answer.body), moment
            assert "Traceback" not in str(answer.body), moment
            assert set(executed(trial, answer)) <= set(rows), f"{moment}: it ran, and is not on record"
        assert len(rows) <= 1 + 2 * len(MOMENTS)
        assert server.end() == 0
    assert trial.recorder.repeated() == []
    assert trial.store.damage() == []


@pytest.mark.faults
def test_a_process_that_ends_at_any_step_leaves_a_true_journal(trial: TrialHub, armed: Path) -> None:
    cut: dict[str, Answer] = {}
    for moment in MOMENTS:
        with trial.serving() as server:
            assert trial.call(server, "write").code == "", "the first call imports what breaks the next"
            armed.write_text(f"{moment} exit")
            cut[moment] = trial.call(server, "write")
            assert not armed.exists(), f"no call passes {moment}"
            assert cut[moment].http == 0
            assert server.process.wait(5) == 70
        rows = trial.store.calls()
        assert set(executed(trial, cut[moment])) <= set(rows), f"{moment}: it ran, and is not on record"
        assert trial.store.damage() == []
    with trial.serving() as server:
        assert eventually(lambda: not trial.store.under_way(), 15), trial.store.calls()
        assert trial.call(server, "write").code == ""
    rows = trial.store.calls()
    assert set(rows.values()) == {"interrupted", "succeeded"}
    assert len(rows) <= 1 + 2 * len(MOMENTS)
    assert trial.recorder.repeated() == []
