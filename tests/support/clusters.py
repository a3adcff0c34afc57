"""A PostgreSQL server of a test's own, to be stopped, started and frozen."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.processes import free_port


class Cluster:
    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self._port}/postgres"

    def make(self) -> None:
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "--wait", f"--log={self.folder / 'log'}", f"--options={options}", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "--wait", "--mode=immediate", "stop")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted by the system and never answered."""
        processes = self._processes()
        self._signal(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(processes, signal.SIGCONT)

    def _processes(self) -> list[int]:
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def _signal(self, processes: list[int], number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, f"--pgdata={self.folder / 'data'}", *arguments],
            cwd=self.folder,
            # What the server goes on writing to must not be a pipe that is waited for.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            timeout=60,
            check=False,
            **_unprivileged_user(),
        )
        assert done.returncode == 0, f"{program}: {done.stderr!r}"


def programs() -> Path | None:
    """Where PostgreSQL's programs are, if its server is installed."""
    # Debian keeps them off the PATH.
    found = [shutil.which("initdb"), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")))]
    return next((Path(path).resolve().parent for path in reversed(found) if path), None)


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """A new server. Ended and removed with the block."""
    where = programs()
    assert where is not None
    folder = Path(tempfile.mkdtemp(prefix="toolhub-postgres-"))
    if who := _unprivileged_user():
        shutil.chown(folder, who["user"], who["group"])
    cluster = Cluster(folder, where)
    try:
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _unprivileged_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise AssertionError("there is no user who could run PostgreSQL")
