"""A stdio server of its own for one run, apart from the children that calls share: see `supervisor.isolated`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from tools_app.sdk import child_environment
from tools_app.upstream.children import runtime
from tools_app.upstream.children.errors import CannotStart
from tools_app.upstream.children.sandbox import hidden_paths
from tools_app.upstream.children.supervisor import isolated as supervisor

# After the end of its input, until it gets SIGTERM, then SIGKILL.
PATIENCE_SECONDS: Final = 10.0
MOST_LINES: Final = 50
_MOST_LINE: Final = 1_000
_CHUNK: Final = 64 * 1024
# Until the watcher has reported: longer than it waits for the server.
_REPORT_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 5.0
_END_SECONDS: Final = 15.0
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); from supervisor import isolated; isolated.main()"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a server has ended, and what was seen of its processes."""

    # `itself`: before its input was closed; `end of input`; `SIGTERM` or `SIGKILL`: it did not end on that.
    how: str
    code: int
    # Since the end of its input; `itself`: since its start.
    seconds: float
    # Commands of processes that it left behind, and whether all of them were ended.
    left: Sequence[str]
    is_gone: bool
    # The most at one moment: bytes of all processes, and their number.
    memory: int
    processes: int
    # Files open for writing outside the directories that it was given.
    files: Sequence[str]
    # Whether this system shows processes: only Linux does.
    is_seen: bool


class Isolated:
    """A running server. Closing it, and the end of this process too, ends everything that it has started."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: asyncio.StreamReader,
        errors: asyncio.StreamReader,
        transports: Sequence[asyncio.ReadTransport],
        writer: asyncio.StreamWriter,
    ) -> None:
        self.reader, self.writer = output, writer
        # The last lines of its standard error.
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self._process, self._transports = process, transports
        self._reports, self._orders = control
        # The report, if the server has ended before it was asked for.
        self._report = b""
        self._reading = asyncio.create_task(self._read(errors))

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], directory: Path, inside: Sequence[Path]
    ) -> Self:
        """`directory`: where it starts. `inside`: directories in which it may write, resolved.

        Raises:
            CannotStart
        """
        order = {
            "command": list(command),
            "environment": dict(environment),
            "directory": str(directory),
            "patience": PATIENCE_SECONDS,
            "inside": list(map(str, inside)),
            "hidden": hidden_paths(runtime.directory()),
        }
        try:
            pipes = _started()
        except OSError as error:
            raise CannotStart(f"no process can be started: {error.strerror}") from error
        loop = asyncio.get_running_loop()
        output, errors = asyncio.StreamReader(), asyncio.StreamReader()
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), pipes.stdout)
        noting, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), pipes.stderr)
        # For its flow control: nothing is read from this pipe.
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        writing, _ = await loop.connect_write_pipe(lambda: protocol, pipes.stdin)
        control = await asyncio.open_unix_connection(sock=pipes.control)
        writer = asyncio.StreamWriter(writing, protocol, None, loop)
        control[1].write(json.dumps(order).encode() + b"\n")
        return cls(pipes.process, control, output, errors, (reading, noting), writer)

    async def _read(self, errors: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await errors.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: _MOST_LINE * 4]
            self._note(lines[-MOST_LINES:])
        self._note([rest])

    def _note(self, lines: Sequence[bytes]) -> None:
        texts = (line[: 4 * _MOST_LINE].decode(errors="replace")[:_MOST_LINE].strip() for line in lines)
        self.lines.extend(text for text in texts if text)

    async def look(self) -> None:
        """Have its processes looked at now: a short run could be missed."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            self._orders.write(supervisor.LOOK)
            self._report = await self._line(_LOOK_SECONDS)

    async def _line(self, seconds: float) -> bytes:
        async with asyncio.timeout(seconds):
            line = await self._reports.readline()
        return b"" if line == supervisor.SEEN else line

    async def ended(self) -> Ended | None:
        """Close its input, and wait for its end. None: the watcher did not report."""
        self._close_input()
        with contextlib.suppress(OSError, ValueError, TypeError, TimeoutError):
            self._orders.write(supervisor.END)
            # The second, if a look was answered late.
            report = self._report or await self._line(_REPORT_SECONDS) or await self._line(_REPORT_SECONDS)
            return Ended(**json.loads(report))
        return None

    def _close_input(self) -> None:
        # A pipe that is closed already cannot be aborted.
        if not self.writer.transport.is_closing():
            self.writer.transport.abort()

    async def close(self) -> None:
        """Kill what is left of it."""
        self._orders.close()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        # Its last lines: what kept the pipe open has been killed.
        await asyncio.wait({self._reading}, timeout=1.0)
        self._reading.cancel()
        self._close_input()
        for transport in self._transports:
            transport.close()
        with contextlib.suppress(OSError):
            await self._orders.wait_closed()


@dataclass(frozen=True, slots=True)
class _Pipes:
    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    control: socket.socket


def _started() -> _Pipes:
    """The watcher, which waits for its order. Neither variables nor other open files of this process reach it."""
    control, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parent), str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=child_environment.inherited(os.environ),
                cwd="/",
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        except OSError:
            control.close()
            raise
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: PT018, S101
    return _Pipes(process, process.stdin, process.stdout, process.stderr, control)
