"""What happens to databases: files go away, disks fill up, servers stop."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Server
from tests.support.stores import SQLiteStore


@contextlib.contextmanager
def moved_away(store: SQLiteStore, *, for_good: bool = False) -> Iterator[None]:
    elsewhere = store.path.parent / "elsewhere"
    elsewhere.mkdir()
    _move(store.path, elsewhere)
    try:
        yield
        assert not list(store.path.parent.glob(f"{store.path.name}*")), "somebody made a new database"
    finally:
        if not for_good:
            _move(elsewhere / store.path.name, store.path.parent)
            elsewhere.rmdir()


def _move(database: Path, folder: Path) -> None:
    # The log before the database: without it, whoever opens the database would not see what was committed last.
    for path in sorted(database.parent.glob(f"{database.name}*"), reverse=True):
        path.rename(folder / path.name)


@contextlib.contextmanager
def no_room(server: Server) -> Iterator[None]:
    """As on a full disk, nothing that this process writes to a file arrives. Needs no privileges."""
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Until the last byte of a small disk is taken."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size):
                        pass
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk that is full soon. Skips the test where disks cannot be mounted."""
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Files that are opened from now on can only be read. For root, whom modes do not stop, by a mount."""
    if os.geteuid() == 0:
        _mount("--bind", str(folder), str(folder))
        try:
            _mount("-o", "remount,bind,ro", str(folder))
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        return
    modes = {path: path.stat().st_mode for path in (folder, *folder.iterdir())}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
