"""A hub under load loses nothing while it is upgraded, backed up, pruned, killed, restarted and given another key.

TOOLHUB_TEST_SOAK_MINUTES is how long: `make test-soak` takes half an hour for each database, `make test-e2e` seconds.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from cryptography.fernet import Fernet

from tests.soak.load import OUTSIDE, Load
from tests.support import crowd, mcp_upstream, stores
from tests.support.hubs import TrialHub, environment
from tests.support.mcp_upstream import McpUpstream
from tests.support.processes import Home, Server, free_port, key_in
from tests.support.recorder import Recorder
from tests.support.stores import POSTGRES, Store
from tests.support.tools import eventually
from tests.upgrade import base, contents
from tests.upgrade.base import Unavailable

MINUTES: Final = float(os.environ.get("TOOLHUB_TEST_SOAK_MINUTES", "30"))
# Of starts and commands beside the load.
PATIENCE: Final = 300.0
PASSPHRASE: Final = "correct horse battery staple"
# Calls that are older than their retention, and that pruning has to delete.
OLD_CALLS: Final = 500
# Columns of such a row; the others are copied.
OLD_VALUES: Final = {
    "id": "'old' || substr(id, 4)",
    "tool_name": "'outdated'",
    "started_at": "'2020-01-01 00:00:00+00:00'",
    "finished_at": "'2020-01-01 00:00:00+00:00'",
}
# What a lease, the time until a process looks, and an aggregation take.
SETTLED_WITHIN: Final = 30.0
# Of the rows and indexes of one call.
MOST_BYTES_OF_A_CALL: Final = 6_000
# How long a process lives until growth says something, and what caches and the allocator take after that.
WARM_SECONDS: Final = 100
GROWTH_MEGABYTES: Final = 24
GROWTH_DESCRIPTORS: Final = 8
# Refused before there is a call.
UNRECORDED: Final = {"REFUSED"}
# Settled by a restore, or written by it.
RESTORED_OTHERWISE: Final = {
    *("tools_app_approval", "tools_app_auditentry", "tools_app_chore", "tools_app_connection", "tools_app_stop"),
}


@dataclass
class Sample:
    megabytes: float
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Sample:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(list(Path(f"/proc/{pid}/fd").iterdir())))


@dataclass
class Soak:
    """The hub, what calls it, and what operators do to it meanwhile."""

    trial: TrialHub
    load: Load
    folder: Path
    keys: list[str]
    server: Server | None = None
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def start(self, **extra: str) -> None:
        port = free_port()
        self.server = Server(self.trial.home.start("serve", "--port", str(port), **extra), port)
        self.server.wait(PATIENCE)
        self.samples = []
        self.load.server = self.server

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.server is not None
        self.load.server = None
        code = self.server.end(number, seconds=30)
        assert number is signal.SIGKILL or code == 0, "".join(self.server.errors)
        self.errors += self.server.errors
        self.server = None

    def run(self, *arguments: str) -> str:
        done = self.trial.home.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    # ---- what operators do meanwhile

    def backup(self) -> None:
        path = self.folder / "meanwhile.backup"
        self.run("backup", str(path))
        path.unlink()

    def prune(self) -> None:
        """Rows of calls that are too old are deleted, and no others: those are compared at the end."""
        columns = [name for name in contents.columns_of(self.trial.store, "tools_app_call") if name not in OLD_VALUES]
        names, values = (", ".join((*OLD_VALUES, *columns)), ", ".join((*OLD_VALUES.values(), *columns)))
        rows = f"SELECT {values} FROM tools_app_call WHERE status = 'succeeded' LIMIT {OLD_CALLS}"  # noqa: S608 – our own names
        self.trial.store.query(f"INSERT INTO tools_app_call ({names}) {rows}")
        assert self.trial.store.statuses("outdated")
        self.run("prunelogs")
        assert self.trial.store.statuses("outdated") == []

    def kill(self) -> None:
        self.end(signal.SIGKILL)
        self.start()

    def restart(self) -> None:
        self.end()
        self.start()

    def rotate(self) -> None:
        """Another encryption key, as the manual says: in front, restart, re-encrypt, and the old one goes."""
        self.use_keys(Fernet.generate_key().decode(), *self.keys)
        assert not self.run("rotatesecrets").startswith("0 ")
        self.use_keys(self.keys[0])

    def use_keys(self, *keys: str) -> None:
        self.keys = list(keys)
        self.trial.home.extra["TOOLHUB_ENCRYPTION_KEY"] = ",".join(keys)
        self.restart()
        self.load.renew_agent()

    def do(self, work: Callable[[], None], seconds: float) -> None:
        """Let the clients work for a while, then do this; the process is looked at meanwhile."""
        assert self.server is not None
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.samples.append(Sample.of(self.server.process.pid))
            self.load.stopped.wait(min(5, left))
            assert self.load.failures == []
        work()
        self.done[work.__name__] += 1


@contextmanager
def soaked(folder: Path, store: Store, recorder: Recorder) -> Iterator[Soak]:
    """A hub that is not running yet."""
    key = Fernet.generate_key().decode()
    extra = {
        **environment(store, recorder),
        "TOOLHUB_KEY_RATE_CALLS": "0",
        "TOOLHUB_ENCRYPTION_KEY": key,
        "TOOLHUB_BACKUP_PASSPHRASE": PASSPHRASE,
        "LOG_LEVEL": "error",
    }
    trial = TrialHub(Home(folder / "home", extra, patience=PATIENCE), store, recorder, "")
    soak = Soak(trial, Load(trial), folder, [key])
    try:
        yield soak
    finally:
        if soak.server is not None:
            soak.server.end(signal.SIGKILL)


@pytest.mark.parametrize(
    "seconds", [pytest.param(8, marks=pytest.mark.e2e), pytest.param(60 * MINUTES, marks=pytest.mark.soak)]
)
def test_nothing_is_lost_under_load_whatever_operators_do(
    seconds: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, log = tmp_path / "home", tmp_path / "data" / "files.log"
    home.mkdir(mode=0o700)
    log.parent.mkdir()
    tools = [mcp_upstream.tool("write")]
    with (
        stores.fresh(home) as store,
        Recorder() as recorder,
        mcp_upstream.running(tools) as wiki,
        soaked(tmp_path, store, recorder) as soak,
    ):
        load = soak.load
        upgraded = upgrade(soak, tmp_path / "base", seconds / 12)
        crowd.add(soak.trial.home, {"wiki": wiki.url, "files": mcp_upstream.command(tools=tools, log=str(log))})
        load.outside_key = key_in(soak.run("addkey", "outside", *crowd.TOOLSET))
        bytes_before, calls_before = store.size(), len(store.calls())
        with load.clients(load.rest, load.rest, load.repeating, load.mcp, load.outside, load.stdio):
            disturb(soak, seconds)
            life = watch(soak, seconds / 2)
        soak.end()
        settle(soak)
        calls = len(store.calls()) - calls_before
        growth = store.size() - bytes_before
        account(soak, wiki, log)
        restored_equals(soak)
    with capsys.disabled():
        codes = dict(Counter(answer.code or "succeeded" for answer in load.answers))
        print(
            f"\n{'PostgreSQL' if POSTGRES else 'SQLite'}, {upgraded}: {codes}; {dict(soak.done)}; {life}; "
            f"{calls:,} calls, {growth / calls:,.0f} bytes each"
        )
    assert growth / calls < MOST_BYTES_OF_A_CALL


def upgrade(soak: Soak, folder: Path, seconds: float) -> str:
    """Begin with the earlier version, if it can run here, and update under load."""
    folder.mkdir()
    try:
        with base.base_version(folder) as version:
            python_path = {"PYTHONPATH": version.python_path}
            soak.start(**python_path)
            soak.trial.key = key_in(soak.trial.home.run("addkey", "trials", **python_path).stdout)
            with soak.load.clients(soak.load.rest, soak.load.repeating, soak.load.mcp):
                soak.do(soak.restart, seconds)
        return f"upgraded from {base.base_commit()[:10]}"
    except Unavailable as error:
        soak.start()
        soak.trial.key = key_in(soak.run("addkey", "trials"))
        return f"without an upgrade ({error})"


def disturb(soak: Soak, seconds: float) -> None:
    """Each kind of work at least once, for half of the time."""
    works = (soak.backup, soak.rotate, soak.prune, soak.kill, soak.restart)
    begun = time.monotonic()
    for number, work in enumerate(itertools.cycle(works)):
        if number >= len(works) and time.monotonic() - begun > seconds / 2:
            return
        soak.do(work, min(45, seconds / 2 / len(works)))


def watch(soak: Soak, seconds: float) -> str:
    """One process for the other half of the time: it must not grow. Returns what was seen."""
    for work in (soak.backup, soak.prune):
        soak.do(work, seconds / 2)
    early, late = soak.samples[len(soak.samples) // 4 : len(soak.samples) // 2], soak.samples[-len(soak.samples) // 4 :]
    memory, descriptors = (
        [statistics.median(getattr(sample, name) for sample in part) for part in (early, late)]
        for name in ("megabytes", "descriptors")
    )
    words = "{:.0f} → {:.0f} MB, {:.0f} → {:.0f} descriptors in {:.0f} s".format(*memory, *descriptors, seconds)
    if seconds < WARM_SECONDS:
        return words
    assert memory[1] - memory[0] < GROWTH_MEGABYTES, words
    assert descriptors[1] - descriptors[0] < GROWTH_DESCRIPTORS, words
    return words


def settle(soak: Soak) -> None:
    """Calls of processes that were killed are closed, and all calls are in the figures."""
    soak.start()
    store = soak.trial.store
    assert eventually(lambda: not store.under_way() and not store.uncounted(), SETTLED_WITHIN)
    soak.end()
    assert "Traceback" not in "".join(soak.errors)
    assert store.damage() == []
    counted = store.counted()
    assert counted["calls"] == counted["hours"] == counted["days"]


def account(soak: Soak, wiki: McpUpstream, log: Path) -> None:
    """Every answer has its row, and every write was made as often as its caller was told."""
    rows, recorder, answers = soak.trial.store.calls(), soak.trial.recorder, soak.load.answers
    answered = [answer for answer in answers if answer.http]
    assert [answer for answer in answered if not answer.call_id and answer.code not in UNRECORDED] == []
    answered = [answer for answer in answered if answer.call_id]
    untrue = [answer for answer in answered if (rows.get(answer.call_id) == "succeeded") is not (answer.code == "")]
    assert untrue == []
    ids = Counter(answer.call_id for answer in answered)
    assert [one for one, times in ids.items() if times > 1] == []
    executed = Counter((one.tool, one.n) for one in recorder.seen)
    executed += Counter(("wiki_write", int(arguments["text"])) for _, arguments in wiki.calls)
    assert [one for one, times in executed.items() if times > 1] == [], "made twice"
    assert [one.call for one in recorder.seen if one.writes and one.call not in rows] == [], "made without a row"
    own = [answer for answer in answers if answer.tool != "files_write"]
    assert [one for one in own if one.http and one.code == "" and not executed[one.tool, one.n]] == [], "not made"
    assert [
        one for one in own if one.http and one.code not in {"", "OUTCOME_UNKNOWN"} and executed[one.tool, one.n]
    ] == []
    # The program does not say which calls it made.
    made, told = log.read_text().split().count("write"), [one for one in answers if one.tool == "files_write"]
    certain = sum(one.http != 0 and one.code == "" for one in told)
    unknown = sum(one.http == 0 or one.code == "OUTCOME_UNKNOWN" for one in told)
    assert certain <= made <= certain + unknown
    assert all(soak.load.answers_of(tool) for tool in (*OUTSIDE, "read", "write", "write_in_thread"))


def restored_equals(soak: Soak) -> None:
    """A backup of the end, restored elsewhere, holds what the hub holds."""
    before = contents.contents_of(soak.trial.store)
    path = soak.folder / "end.backup"
    soak.run("backup", str(path))
    elsewhere = soak.folder / "elsewhere" / "home"
    elsewhere.mkdir(parents=True, mode=0o700)
    with stores.fresh(elsewhere) as store:
        home = Home(elsewhere, {**soak.trial.home.extra, **store.environment}, patience=PATIENCE)
        done = home.run("restore", str(path), "--keys-as-of-backup")
        assert done.returncode == 0, done.stdout + done.stderr
        after = contents.contents_of(store)
        for name in RESTORED_OTHERWISE:
            before.tables.pop(name)
        assert list(contents.lost(before, after)) == []
