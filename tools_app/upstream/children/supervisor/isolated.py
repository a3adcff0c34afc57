"""One stdio server in isolation: watched from its start to its end, not shared. Nothing of it survives.

    python -I -S -c "…; isolated.main()" CHILDREN_DIRECTORY CONTROL

Standard input, output and error are the pipes of the server. CONTROL is a socket of the hub: the first line is the
order, later ones are `LOOK` and `END`. The answer to the first is one line, once the server has ended. If the socket
is closed, for example since the hub was killed, everything is killed.

The process above the watcher does nothing but wait: it ends what is left if the watcher is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from . import processes

# Between two looks at the processes; at their end it is measured more exactly.
LOOK_SECONDS: Final = 0.2
_END_LOOK_SECONDS: Final = 0.02
_ORDER_SECONDS: Final = 0.2
# For processes that end a moment after the one that started them.
GRACE_SECONDS: Final = 0.5
MOST_REPORTED: Final = 20
# Orders after the first: look at the processes now, which is answered; input was closed.
LOOK: Final = b"look\n"
SEEN: Final = b"seen\n"
END: Final = b"end\n"
_MOST_ORDER: Final = 4 * 1024 * 1024
_MOST_WORDS: Final = 200
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# Files that say nothing about what a server writes.
_NO_FILES: Final = ("/dev/", "/proc/", "/sys/", "/memfd:")


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[2]))
    # As the supervisor: other processes of this user cannot read the secrets of connections in its memory.
    processes.prctl(processes.PR_SET_DUMPABLE, 0)
    processes.adopt_orphans()
    guard = os.getpid()
    watcher = os.fork()
    if watcher == 0:
        try:
            processes.die_with(guard)
            processes.adopt_orphans()
            _Watch(control).run()
        finally:
            os._exit(0)
    control.close()
    _release_pipes()
    os.waitpid(watcher, 0)
    processes.kill_descendants()


class _Watch:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._inside: list[str] = []
        self._patience = 0.0
        self._memory = self._most_processes = 0
        self._files: set[str] = set()

    def run(self) -> None:
        order = json.loads(_line(self._control))
        self._inside, self._patience = order["inside"], order["patience"]
        watcher, began = os.getpid(), time.monotonic()
        child = os.fork()
        if child == 0:
            self._control.close()
            parts = [order[name] for name in ("command", "environment", "directory", "hidden")]
            processes.become(watcher, *parts)
        _release_pipes()
        ended = self._watch(child, began)
        if ended is not None:
            time.sleep(GRACE_SECONDS)
            ended["left"] = _shown(processes.descendants())
        is_gone = processes.kill_descendants()
        if ended is not None:
            seen = {"memory": self._memory, "processes": self._most_processes, "files": sorted(self._files)}
            answer = {**ended, **seen, "is_gone": is_gone, "is_seen": processes.IS_LINUX}
            with contextlib.suppress(OSError):
                self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _watch(self, child: int, began: float) -> dict[str, Any] | None:
        """How the server ended; None if the hub did not wait for it."""
        how, closed_at, next_look = "itself", 0.0, 0.0
        steps: list[tuple[float, int]] = []
        while True:
            if (code := processes.reap().get(child)) is not None:
                if not closed_at and self._is_told():
                    how, closed_at = "end of input", time.monotonic()
                return {"how": how, "code": code, "seconds": time.monotonic() - (closed_at or began)}
            now = time.monotonic()
            if now >= next_look:
                self._look()
                next_look = now + LOOK_SECONDS
            if steps and now >= steps[0][0]:
                number = steps.pop(0)[1]
                how = signal.Signals(number).name
                with contextlib.suppress(OSError):
                    os.killpg(child, number)
            pause = _END_LOOK_SECONDS if closed_at else LOOK_SECONDS / 4
            if select.select([self._control], [], [], pause)[0]:
                if not (received := self._control.recv(64)):
                    return None
                if received == LOOK:
                    self._look()
                    self._control.sendall(SEEN)
                    continue
                how, closed_at = "end of input", time.monotonic()
                last = closed_at + self._patience
                steps = [(last, signal.SIGTERM), (last + processes.STEP_SECONDS, signal.SIGKILL)]

    def _is_told(self) -> bool:
        """Whether the order that input was closed is under way: a quick server ends before it arrives."""
        return bool(select.select([self._control], [], [], _ORDER_SECONDS)[0]) and self._control.recv(64) == END

    def _look(self) -> None:
        found = processes.descendants()
        self._most_processes = max(self._most_processes, len(found))
        self._memory = max(self._memory, sum(map(_memory, found)))
        for pid in found:
            if len(self._files) < MOST_REPORTED:
                self._files.update(path for path in _written(pid) if not self._is_inside(path))

    def _is_inside(self, path: str) -> bool:
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._inside)


def _line(control: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        if not (part := control.recv(65536)) or len(data) > _MOST_ORDER:
            raise EOFError
        data += part
    return data


def _release_pipes() -> None:
    """Keep no end of the pipes, or their other ends would not see the end of the server."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def _memory(pid: int) -> int:
    """Bytes in memory; shared pages count for each process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _written(pid: int) -> list[str]:
    """The files that a process has open for writing."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                path = os.readlink(entry)  # noqa: PTH115 - not a path of pathlib: it may be `pipe:[1]`
                if not path.startswith("/") or path.startswith(_NO_FILES):
                    continue
                flags = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().partition("flags:")[2].split()[0]
                if int(flags, 8) & (os.O_WRONLY | os.O_RDWR):
                    found.append(path)
    return found


def _shown(pids: list[int]) -> list[str]:
    """The commands of those that are still running."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if state not in "ZX":
                found.append(words[:_MOST_WORDS] or f"process {pid}")
    return found[:MOST_REPORTED]
