"""A hub whose database is locked, gone, full or frozen: it changes nothing that it cannot record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support import clusters, hubs, stores, troubles
from tests.support.clusters import Cluster
from tests.support.hubs import Answer, TrialHub
from tests.support.processes import Server, free_port, key_in
from tests.support.stores import POSTGRES, SQLiteStore
from tests.support.tools import eventually

sqlite_only = pytest.mark.skipif(POSTGRES, reason="about SQLite's file")
postgres_only = pytest.mark.skipif(not POSTGRES, reason="about a PostgreSQL server")

TWENTY: Final = ["write", "read"] * 10
# An entry is tried for five seconds.
REFUSED_WITHIN: Final = 6.0
AT_ONCE: Final = 1.0
RECOVERED_WITHIN: Final = 5.0
SLACK: Final = 2.0


# ---- locked


@pytest.mark.parametrize("seconds", [1, pytest.param(3, marks=pytest.mark.faults)])
def test_waits_for_a_lock_that_ends_in_time(trial: TrialHub, seconds: float) -> None:
    with trial.serving() as server:
        with ThreadPoolExecutor(1) as pool:
            with trial.store.locked():
                calls = pool.submit(trial.call_together, server, TWENTY)
                time.sleep(seconds)
                assert not calls.done()
            answers = calls.result()
        assert [answer.code for answer in answers] == [""] * 20
        assert "Traceback" not in "".join(server.errors)
    rows = trial.store.calls()
    assert {rows[answer.call_id] for answer in answers} == {"succeeded"}
    assert len(trial.recorder.of("write")) == 10
    assert trial.recorder.repeated() == []


@pytest.mark.faults
def test_refuses_when_a_lock_lasts_and_runs_nothing_that_writes(trial: TrialHub) -> None:
    with trial.serving() as server:
        with trial.store.locked():
            answers = trial.call_together(server, TWENTY) + trial.call_together(server, TWENTY)
        recover(trial, server)
        assert {answer.code for answer in answers} == {"STORAGE_BUSY"}
        assert max(answer.seconds for answer in answers) < REFUSED_WITHIN + SLACK
        no_side_effect(trial, answers)
        assert "Traceback" not in "".join(server.errors)


# ---- gone

Trouble = Callable[[TrialHub, Server], AbstractContextManager[None]]


def file_moved_away(trial: TrialHub, server: Server) -> AbstractContextManager[None]:
    assert isinstance(trial.store, SQLiteStore)
    return troubles.moved_away(trial.store)


def no_room(trial: TrialHub, server: Server) -> AbstractContextManager[None]:
    return troubles.no_room(server)


@sqlite_only
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(file_moved_away),
        pytest.param(no_room, marks=pytest.mark.faults),
    ],
)
def test_changes_nothing_without_its_file_and_recovers_by_itself(trial: TrialHub, trouble: Trouble) -> None:
    with trial.serving() as server:
        endure(trial, server, trouble(trial, server))


@sqlite_only
@pytest.mark.faults
def test_changes_nothing_when_the_disk_is_full_and_recovers_by_itself(template: TrialHub, tmp_path: Path) -> None:
    with (
        troubles.small_disk(tmp_path / "disk", megabytes=4) as disk,
        hubs.copied(template, disk) as trial,
        trial.serving() as server,
    ):
        endure(trial, server, troubles.filled(disk))


@sqlite_only
@pytest.mark.faults
def test_operators_are_told_of_a_full_disk_and_lose_nothing(template: TrialHub, tmp_path: Path) -> None:
    with (
        troubles.small_disk(tmp_path / "disk", megabytes=4) as disk,
        hubs.copied(template, disk) as trial,
        trial.serving() as server,
    ):
        made = trial.home.run("addkey", "manager", "--scope", "tools:manage")
        manager = {"X-API-Key": key_in(made.stdout)}
        address = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=address, headers=manager, trust_env=False, timeout=30) as client:
            with troubles.filled(disk):
                # SQLite can have a few pages left in its files; then they are used up.
                assert eventually(lambda: trial.call(server, "write").code == "STORAGE_BUSY", 30)
                stops = {"kind": "writes", "reason": "moving " * 60, "seconds": 600}
                assert eventually(lambda: client.post("/v1/stops", json=stops).status_code == 503, 30)
                refused = client.post("/v1/stops", json={"kind": "hub"}).json()
                assert (refused["code"], refused["retryable"]) == ("STORAGE_BUSY", True)
                shown = trial.home.run("data")
                assert shown.returncode == 0, shown.stderr
                assert "tools_app_call" in shown.stdout
                for command in (("stop", "hub"), ("doctor",), ("prunelogs",)):
                    done = trial.home.run(*command)
                    assert "Traceback" not in done.stderr + done.stdout, command
            recover(trial, server)
            assert client.post("/v1/stops", json={"kind": "pack", "name": "builtin"}).status_code == 200
        assert trial.store.damage() == []


@sqlite_only
@pytest.mark.faults
def test_changes_nothing_on_a_read_only_disk_that_it_could_not_write_down(trial: TrialHub) -> None:
    with trial.serving() as server:
        assert trial.call(server, "write").code == ""
        with troubles.read_only(trial.home.path):
            # What was opened before can still be written; what is opened now cannot.
            answers = trial.call_together(server, TWENTY)
            for command in (("calltool", "write", '{"n": -1}'), ("serve", "--port", str(free_port()))):
                refused = trial.home.run(*command)
                assert refused.returncode != 0, command
                assert "Traceback" not in refused.stderr
        recover(trial, server)
    rows = trial.store.calls()
    assert {answer.code for answer in answers} <= {"", "STORAGE_BUSY"}
    assert {execution.call for execution in trial.recorder.seen if execution.writes} <= set(rows)
    assert all(rows[answer.call_id] == "succeeded" for answer in answers if not answer.code)


@sqlite_only
@pytest.mark.faults
def test_writes_to_the_file_that_was_put_in_the_place_of_the_old_one(trial: TrialHub) -> None:
    """As when an operator restores a copy while the hub runs."""
    assert isinstance(trial.store, SQLiteStore)
    copy = trial.home.path / "copy.sqlite3"
    trial.store.query(f"VACUUM INTO '{copy}'")
    with trial.serving() as server:
        assert trial.call(server, "write").code == ""
        with troubles.moved_away(trial.store, for_good=True):
            assert trial.call(server, "write").code == "STORAGE_BUSY"
        copy.rename(trial.store.path)
        recover(trial, server)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if clusters.programs() is None:
        pytest.skip("PostgreSQL's server programs (initdb, pg_ctl) are not installed")
    with clusters.running() as made:
        yield made


@pytest.fixture
def movable(cluster: Cluster, tmp_path: Path) -> Iterator[TrialHub]:
    """A hub on a server of its own."""
    (tmp_path / "home").mkdir(mode=0o700)
    with stores.created(cluster.url) as store, hubs.prepared(tmp_path, store) as made:
        yield made


@postgres_only
@pytest.mark.faults
def test_changes_nothing_without_its_server_and_recovers_by_itself(cluster: Cluster, movable: TrialHub) -> None:
    with movable.serving() as server:
        endure(movable, server, cluster.stopped())


@postgres_only
@pytest.mark.faults
def test_changes_nothing_while_its_server_hangs_and_recovers_by_itself(cluster: Cluster, movable: TrialHub) -> None:
    with movable.serving() as server:
        # Whether it still hangs, every call has to find out for itself.
        endure(movable, server, cluster.frozen(), known_within=REFUSED_WITHIN)


# ---- what holds in every trouble


def endure(
    trial: TrialHub, server: Server, trouble: AbstractContextManager[None], known_within: float = AT_ONCE
) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert trial.call(server, "write").code == ""
        caught = pool.submit(trial.call, server, "write", seconds=1.0)
        assert eventually(lambda: len(trial.recorder.of("write")) == 2, 5)
        with trouble:
            answers = trial.call_together(server, TWENTY)
            assert {answer.code for answer in answers} == {"STORAGE_BUSY"}, answers
            assert {answer.http for answer in answers} == {503}
            assert max(answer.seconds for answer in answers) < REFUSED_WITHIN + SLACK
            refuse_unseen(trial, server, known_within)
            assert caught.result().code in {"", "STORAGE_BUSY"}, "it ended while nobody could write it down"
        recover(trial, server)
        no_side_effect(trial, answers)
        # What ended while nobody could write it down is written down late.
        assert eventually(lambda: trial.store.calls()[caught.result().call_id] == "succeeded", 10)
        assert not trial.store.under_way()
        assert trial.store.damage() == []
        assert "Traceback" not in "".join(server.errors)


def refuse_unseen(trial: TrialHub, server: Server, within: float) -> None:
    """The fault is known by now: not even read-only tools run, and monitoring reports it."""
    read = len(trial.recorder.of("read"))
    refused = trial.call_together(server, ["write", "read"])
    assert {answer.code for answer in refused} == {"STORAGE_BUSY"}
    assert max(answer.seconds for answer in refused) < within + SLACK
    assert len(trial.recorder.of("read")) == read
    status, told = trial.health(server)
    assert (status, told["checks"]["database"]) == (503, "fail")


def recover(trial: TrialHub, server: Server) -> None:
    """The trouble is over: so it is for the hub."""
    assert eventually(lambda: trial.health(server)[0] == 200, RECOVERED_WITHIN + SLACK), trial.health(server)
    answers = trial.call_together(server, TWENTY)
    rows = trial.store.calls()
    assert [rows.get(answer.call_id) for answer in answers] == ["succeeded"] * 20, answers


def no_side_effect(trial: TrialHub, refused: list[Answer]) -> None:
    orders = {answer.n for answer in refused if answer.tool.startswith("write")}
    assert not [execution for execution in trial.recorder.seen if execution.writes and execution.n in orders]
    assert {execution.call for execution in trial.recorder.seen if execution.writes} <= set(trial.store.calls())
    assert trial.recorder.repeated() == []
