"""Processes: who inherits orphans, what dies with its parent, and how all descendants are ended.

On Linux every child has a *keeper*, a small process between it and the supervisor. It is a subreaper: whatever the
child starts and abandons becomes a child of the keeper, also with `setsid`. So when the child ends, the keeper can end
the rest, and nothing else. Elsewhere only the process group of the child is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from . import landlock

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
# Between the three steps of a stop: end of input, SIGTERM to the group, SIGKILL to everything.
STEP_SECONDS: Final = 2.0
KILL_SECONDS: Final = 2.0
OPEN_FILES: Final = 4096
CANNOT_RUN: Final = 127
IS_LINUX: Final = sys.platform == "linux"

# What a keeper waits for.
_KEPT: Final = frozenset({signal.SIGCHLD, signal.SIGTERM})
# A variable of every child, by which what it has left can be recognised.
MARK: Final = "TOOLHUB_CHILD"
_MARKER: Final = re.compile("[0-9a-f]{32}")
_libc: Final = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


class Started(NamedTuple):
    """A keeper with its child: the ends of the child's pipes."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


def prctl(option: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however that happens."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def descendants(pid: int = 0) -> list[int]:
    """Children of a process, or of this one, their children and so on. Zombies too."""
    by_parent = _by_parent()
    found, pending = [], [pid or os.getpid()]
    while pending:
        found += (own := by_parent.pop(pending.pop(), []))
        pending += own
    return found


def children() -> list[int]:
    return _by_parent().get(os.getpid(), [])


def _by_parent() -> dict[int, list[int]]:
    # Not every kernel has /proc/PID/task/TID/children.
    found: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir() if IS_LINUX else ():
        if directory.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = (directory / "stat").read_bytes()
                found.setdefault(int(stat[stat.rindex(b")") + 2 :].split()[1]), []).append(int(directory.name))
    return found


def kill_descendants(seconds: float = KILL_SECONDS) -> bool:
    """Kill everything below this process, which must be a subreaper. Whether nothing is left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reap()
        if not (found := descendants()):
            return True
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.003)
    return False


def reap() -> dict[int, int]:
    """The exit codes of children that have ended, by pid."""
    codes: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    return codes


def start(
    command: Sequence[str], environment: Mapping[str, str], directory: str, hidden: Sequence[str] = ()
) -> Started:
    """Start a child below a keeper, without access to what is `hidden`.

    The exit code of the keeper is the child's; SIGTERM makes it stop the child.

    Raises:
        OSError: no more processes, files or disk space.
    """
    Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    supervisor = os.getpid()
    inner: list[int] = []
    outer: list[int] = []
    # A signal to the keeper must not meet the handlers of the supervisor.
    signal.pthread_sigmask(signal.SIG_BLOCK, _KEPT)
    try:
        for is_input in (True, False, False):
            reading, writing = os.pipe()
            inner.append(reading if is_input else writing)
            outer.append(writing if is_input else reading)
        pid = os.fork()
        if pid == 0:
            _keep(supervisor, inner, command, environment, directory, hidden)
    except OSError:
        for descriptor in outer:
            os.close(descriptor)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _KEPT)
        for descriptor in inner:
            os.close(descriptor)
    return Started(pid, *outer)


def _keep(
    supervisor: int,
    pipes: list[int],
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    hidden: Sequence[str],
) -> NoReturn:
    code = 1
    try:
        # The event loop of the supervisor uses these in its own process only.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        die_with(supervisor)
        adopt_orphans()
        for target, descriptor in enumerate(pipes):
            os.dup2(descriptor, target)
        _close_files()
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            become(keeper, command, environment, directory, hidden)
        null = os.open(os.devnull, os.O_RDWR)
        for target in range(3):
            os.dup2(null, target)
        code = _watch(child)
        if not IS_LINUX:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        kill_descendants()
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        # As shells do: a negative code cannot be an exit status.
        os._exit(code if code >= 0 else 128 - code)


def _close_files() -> None:
    """Close everything but standard input, output and error."""
    # Not `os.closerange`: some interpreters would close each number up to the limit, which can be a billion.
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        if number > 2:
            with contextlib.suppress(OSError):
                os.close(number)


def _watch(child: int) -> int:
    """Wait for the end of a child. At SIGTERM stop it: its input has been closed by the supervisor."""
    steps: list[tuple[float, int]] = []
    while True:
        received = _signal(max(0.0, steps[0][0] - time.monotonic()) if steps else 3600.0)
        if (code := reap().get(child)) is not None:
            return code
        now = time.monotonic()
        if received == signal.SIGTERM and not steps:
            steps = [(now + STEP_SECONDS, signal.SIGTERM), (now + 2 * STEP_SECONDS, signal.SIGKILL)]
        elif steps and now >= steps[0][0]:  # also if orphans end all the time
            with contextlib.suppress(OSError):
                os.killpg(child, steps[0][1])
            if steps.pop(0)[1] == signal.SIGKILL:
                return -signal.SIGKILL


def _signal(seconds: float) -> int | None:
    if IS_LINUX:
        received = signal.sigtimedwait(_KEPT, seconds)
        return None if received is None else received.si_signo
    deadline = time.monotonic() + seconds
    while not (pending := signal.sigpending() & _KEPT) and time.monotonic() < deadline:
        time.sleep(0.02)
    return signal.sigwait(_KEPT) if pending else None


def become(
    keeper: int, command: Sequence[str], environment: Mapping[str, str], directory: str, hidden: Sequence[str]
) -> NoReturn:
    try:
        os.setsid()
        die_with(keeper)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.chdir(directory)
        if hidden:
            environment = {**environment, **landlock.restrict(hidden, directory, environment)}
        # nothing is left open: the keeper has closed what is above 2
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - no shell is wanted
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        os.write(2, f"cannot run {command[0]}: {reason}\n".encode(errors="replace"))
    finally:
        os._exit(CANNOT_RUN)


def kill_marked(marker: str) -> None:
    """Kill every process of this user with this mark in its environment: what an earlier supervisor has left."""
    if not _MARKER.fullmatch(marker):  # a file that was cut must not match other processes
        return
    for _ in range(20):
        found = False
        for directory in Path("/proc").iterdir() if IS_LINUX else ():
            if directory.name.isdecimal() and int(directory.name) != os.getpid():
                found |= _kill_if_marked(int(directory.name), marker)
        if not found:
            return
        time.sleep(0.01)


def _kill_if_marked(pid: int, marker: str) -> bool:
    try:
        # Opened before the environment is read, so that the signal reaches this process, and no later one of this pid.
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if f"{MARK}={marker}".encode() not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
