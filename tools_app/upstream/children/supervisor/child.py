"""One stdio server: its process, from the start to the end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from . import processes
from .limits import LEAST_SECRET, MOST_UNWRITTEN, TAIL_CHARACTERS, TAIL_LINES, Limits
from .lines import Lines
from .session import EndedError, RefusedError, Session

WAITING: Final = "waiting"
STARTING: Final = "starting"
UP: Final = "up"
STOPPING: Final = "stopping"
DOWN: Final = "down"
# Between the lines of one life and those of the next.
_AGAIN: Final = "-- started again --"
# Of one line of standard error.
_MOST_NOTE: Final = 64 * 1024
# How long a child that has ended is kept, with its reason and its last lines.
_REMEMBERED: Final = 3_600.0
# How long after the end of a process its last output is waited for.
_LAST_OUTPUT: Final = 1.0


class FailedError(Exception):
    """A child cannot be started now."""

    def __init__(self, reason: str, next_try_at: float = 0.0) -> None:
        super().__init__(reason)
        self.next_try_at = next_try_at


class Child:
    def __init__(
        self, order: Mapping[str, Any], directory: str, marker: str, limits: Limits, slots: asyncio.Semaphore
    ) -> None:
        self.name: str = order["name"]
        # Epoch of the source and number of reconnections: compared as lists.
        self.generation: list[int] = order["generation"]
        self.starts_always: bool = order["always"]
        self.is_private: bool = order["private"]
        self._command: list[str] = order["command"]
        self._own: dict[str, str] = order["environment"]
        parts = {part for value in self._own.values() for part in (value, *map(str.strip, value.splitlines()))}
        self._secrets = sorted((part for part in parts if len(part) >= LEAST_SECRET), key=len, reverse=True)
        # Files and directories of the hub.
        self._hidden: list[str] = order["hidden"]
        self._handshake: dict[str, Any] = order["handshake"]
        self._directory = directory
        self._marker = marker
        self._limits = limits
        self._slots = slots
        self.state = DOWN
        self.reason = ""
        self.since = self.used_at = time.time()
        self.next_try_at = 0.0
        # Of the keeper.
        self.pid: int | None = None
        self.starts = 0
        self.session = Session(self._write)
        self._failures = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._starting: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._gone.set()
        self._started_at = 0.0
        self._stdin: asyncio.WriteTransport | None = None
        # Of standard output and standard error.
        self._open_pipes = 0
        self._code: int | None = None
        self._stop_is_failure = False
        self._died_of_discover = self._skips_discover = False
        # Of a child for one stream: that stream.
        self.taken_by: object | None = None

    # ---- start

    async def ready(self, seconds: float) -> None:
        """Wait until the server has answered, and start it if necessary. The start continues after a timeout.

        Raises:
            TimeoutError: it is still starting.
            FailedError: it cannot be started.
        """
        self.used_at = time.time()
        if self.state == UP:
            return
        if self._starting is None:
            pause = self.next_try_at - time.time()
            if pause > min(seconds, self._limits.patience):
                raise FailedError(self.reason, self.next_try_at)
            self._starting = asyncio.create_task(self._start(max(0.0, pause)))
        done, _ = await asyncio.wait({self._starting}, timeout=max(0.0, seconds))
        if not done:
            raise TimeoutError
        if self.state != UP:
            raise FailedError(self.reason, self.next_try_at)

    async def _start(self, pause: float) -> None:
        try:
            await self._gone.wait()
            self._set(WAITING, self.reason)
            await asyncio.sleep(pause)
            async with self._slots:
                self._set(STARTING)
                if await self._attempt() or self._skips_discover or not self._died_of_discover:
                    return
                self._skips_discover = True
                self._failures -= 1  # both attempts together are one
                self._set(STARTING)
                await self._attempt()
        finally:
            self._starting = None

    async def _attempt(self) -> bool:
        try:
            await self._spawn()
        except OSError as error:
            reason = f"cannot start a process: {error.strerror}"
            if self.pid is None:
                self._fail(reason)
            else:  # its pipes cannot be read
                self.end(reason, is_failure=True)
                await self._gone.wait()
            return False
        try:
            async with asyncio.timeout(self._limits.start):
                await self.session.negotiate(
                    self._handshake, self._limits.discover, skips_discover=self._skips_discover
                )
            if self.state == STARTING:
                self._set(UP)
                return True
        except EndedError:
            pass
        except TimeoutError:
            self.end(f"it did not answer within {self._limits.start:g} s", is_failure=True)
        except RefusedError as error:
            self.end(f"it did not begin a session: {self._shown(str(error))}", is_failure=True)
        await self._gone.wait()
        return False

    async def _spawn(self) -> None:
        # The supervisor has no other variables than those that every child may have.
        environment = {**os.environ, **self._own, processes.MARK: self._marker}
        started = processes.start(self._command, environment, self._directory, self._hidden)
        self.pid = started.pid
        self.starts += 1
        self.session = session = Session(self._write)
        if self.starts > 1:
            self._tail.append(_AGAIN)
        self._died_of_discover = False
        self._code = None
        self._open_pipes = 2
        self._started_at = time.monotonic()
        self._stop_is_failure = False
        self._gone.clear()
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(
            lambda: _Writing(session.pause), os.fdopen(started.stdin, "wb", buffering=0)
        )
        self._stdin.set_write_buffer_limits(MOST_UNWRITTEN)
        notes = Lines(self._note_beginning, _MOST_NOTE)
        output = _Reading(Lines(session.too_long), session.received, partial(self._output_closed, self.starts))
        errors = _Reading(notes, self._note_all, partial(self._pipe_closed, self.starts))
        await loop.connect_read_pipe(lambda: output, os.fdopen(started.stdout, "rb", buffering=0))
        await loop.connect_read_pipe(lambda: errors, os.fdopen(started.stderr, "rb", buffering=0))

    # ---- pipes

    def _write(self, line: bytes) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(line)

    def _note(self, lines: list[bytes]) -> None:
        cut = 4 * TAIL_CHARACTERS
        # Masked before it is cut, which could leave a part of a secret.
        texts = (self.masked(line[:cut].decode(errors="replace")) for line in lines[-TAIL_LINES:])
        self._tail.extend(text[:TAIL_CHARACTERS] for text in texts)

    def _note_all(self, lines: list[bytes], _skipped: int) -> float:
        self._note(lines)
        return 0.0

    def _note_beginning(self, head: bytes, _tail: bytes) -> None:
        self._note([head])

    def _output_closed(self, start: int) -> None:
        # Usually because the process ends.
        asyncio.get_running_loop().call_later(_LAST_OUTPUT, self._end_if_mute, start)
        self._pipe_closed(start)

    def _end_if_mute(self, start: int) -> None:
        if start == self.starts and self._code is None:
            self.end("it closed its output", is_failure=True)

    def _pipe_closed(self, start: int) -> None:
        if start == self.starts:
            self._open_pipes -= 1
            if self._open_pipes == 0 and self._code is not None:
                self._finish(start)

    # ---- end

    def end(self, reason: str, *, is_failure: bool = False) -> None:
        """Begin to stop the process and everything that it has started."""
        if self.pid is None or self.state == STOPPING:
            return
        self._stop_is_failure = is_failure
        self._set(STOPPING, reason)
        self._close_input()
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGTERM)

    def _close_input(self) -> None:
        stdin, self._stdin = self._stdin, None
        if stdin is not None and not stdin.is_closing():
            stdin.abort()

    async def stop(self, reason: str) -> None:
        """Stop, at an operator's wish: the next start is not delayed."""
        if self.pid is None and self._starting is not None:
            self._starting.cancel()
            self._set(DOWN, reason)
        self.end(reason)
        await self._gone.wait()
        self._failures, self.next_try_at = 0, 0.0

    def has_ended(self, code: int) -> None:
        """The keeper has ended, and with it everything that the child has started."""
        self._code = code
        if self._open_pipes == 0:
            self._finish(self.starts)
        else:  # the last output is still in the pipes
            asyncio.get_running_loop().call_later(_LAST_OUTPUT, self._finish, self.starts)

    def _finish(self, start: int) -> None:
        if self.pid is None or start != self.starts:
            return
        self.pid = None
        self._close_input()
        is_failure, reason = True, f"it ended with exit code {self._code}"
        if self.state != STOPPING:
            self._died_of_discover = self.session.died_of_discover
        else:
            is_failure, reason = self._stop_is_failure, self.reason
        if is_failure and (line := self.last_line()):
            reason += f": {line}"
        self.session.close(f"the server has ended: {reason}")
        if is_failure:
            self._fail(reason)
        else:
            self._set(DOWN, reason)
        self._gone.set()

    def _fail(self, reason: str) -> None:
        limits = self._limits
        if self._started_at and time.monotonic() - self._started_at >= limits.steady:
            self._failures = 0
        self.next_try_at = time.time() + min(limits.longest_pause, limits.first_pause * 2 ** min(self._failures, 16))
        self._failures += 1
        self._set(DOWN, reason)

    def _set(self, state: str, reason: str = "") -> None:
        self.state, self.reason, self.since = state, reason, time.time()

    # ---- what it says

    def is_idle(self) -> bool:
        return not self.starts_always and self.state == UP and time.time() - self.used_at > self._limits.idle

    def release(self, stream: object) -> None:
        """The stream does not need it any more, or does not wait for it."""
        if self.taken_by is stream:
            self.taken_by = None

    def is_forgotten(self) -> bool:
        """Whether its failures are too long ago to matter, so that it need not be kept."""
        kept = _REMEMBERED if self._failures or not self.is_private else 0.0
        is_over = self.state == DOWN and self._starting is None and self.taken_by is None
        return is_over and time.time() - max(self.since, self.next_try_at) > kept

    def last_line(self) -> str:
        """The last line of standard error, without secrets."""
        for line in reversed(self._tail):
            if line == _AGAIN:
                break
            if line.strip():
                return self._shown(line.strip())[:500]
        return ""

    def _shown(self, text: str) -> str:
        shown: str = _redaction().redacted_text(self.masked(text))
        return shown

    def masked(self, text: str) -> str:
        """The text without the values that the child was given, nor the lines of those that have several."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def report(self) -> dict[str, Any]:
        below = processes.descendants(self.pid) if self.pid else []
        return {
            "state": self.state,
            "reason": self.reason,
            "since": self.since,
            "next_try_at": self.next_try_at if self.state == DOWN else 0.0,
            "pid": below[0] if below else None,
            "starts": self.starts,
            "clients": len(self.session.clients),
            "used_at": self.used_at,
            "lines": list(self._tail),
        }


class _Writing(asyncio.BaseProtocol):
    """Standard input of a child."""

    def __init__(self, pause: Callable[..., None]) -> None:
        self._pause = pause

    def pause_writing(self) -> None:
        self._pause(paused=True)

    def resume_writing(self) -> None:
        self._pause(paused=False)


class _Reading(asyncio.Protocol):
    """An output of a child. `take` returns the seconds until more is to be read."""

    def __init__(self, lines: Lines, take: Callable[[list[bytes], int], float], closed: Callable[[], None]) -> None:
        self._lines = lines
        self._take = take
        self._closed = closed
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)  # noqa: S101 - for the type
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        pause = self._take(lines, len(data) if self._lines.is_skipping else 0)
        if pause > 0 and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(pause, self._resume)

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed()


@cache
def _redaction() -> Any:
    """The hub's rules for secrets in texts: a file that imports nothing of the project. Loaded when needed."""
    file = Path(__file__).resolve().parents[3] / "text" / "redaction.py"
    spec = importlib.util.spec_from_file_location("redaction", file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
