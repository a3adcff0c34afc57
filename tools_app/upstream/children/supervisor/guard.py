"""The process above the supervisor: it holds the lock, and when the supervisor ends, it ends what is left of it.

    python -I -S -c "…; guard.main()" CHILDREN_DIRECTORY RUNTIME_DIRECTORY [LIMITS]

It does nothing but wait. So SIGKILL of the supervisor leaves no process behind, although no hub calls it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Final

from . import processes

LOCK: Final = "lock"
SOCKET: Final = "socket"
SECRET: Final = "secret"  # noqa: S105 - the name of a file
MARKER: Final = "marker"
WORK: Final = "work"
ERRORS: Final = "errors.log"
# How long a supervisor that is ending can hold the lock before this one gives up.
LOCK_SECONDS: Final = 3.0


def main() -> None:
    if os.fork():  # the process that started this one can wait for it, and has no zombie later
        os._exit(0)
    directory = Path(sys.argv[2])
    os.umask(0o077)
    if not _lock(directory):
        return
    processes.adopt_orphans()
    with contextlib.suppress(OSError):
        processes.kill_marked((directory / MARKER).read_text(errors="replace"))
    shutil.rmtree(directory / WORK, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        (directory / SOCKET).unlink()
    supervisor = os.fork()
    if supervisor == 0:
        # Written here, not in the guard, so that the file for errors is the supervisor's.
        os.dup2(os.open(directory / ERRORS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), 2)
        from .service import serve  # asyncio: the guard does without, which is half of its memory

        serve(directory, sys.argv[3] if len(sys.argv) > 3 else "{}")
        os._exit(0)
    while True:
        ended, _ = os.waitpid(-1, 0)
        if ended == supervisor:
            break
    if processes.kill_descendants():
        with contextlib.suppress(OSError):
            (directory / MARKER).unlink()


def _lock(directory: Path) -> bool:
    """Take the lock, which the kernel frees when this process and the supervisor have ended."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline or _answers(directory):
                return False
            time.sleep(0.02)


def _answers(directory: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(directory / SOCKET))
        return True
    return False
