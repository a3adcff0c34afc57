"""Streams to the children of this machine's supervisor, which is started when one is needed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, Final

import mcp_types
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from tools_app.base import conf, hub
from tools_app.sdk.child_environment import refused_variables
from tools_app.sdk.outside import Origin
from tools_app.text import hygiene, redaction
from tools_app.upstream.children import runtime
from tools_app.upstream.children.errors import CannotStart, NotUpYet
from tools_app.upstream.children.sandbox import hidden_paths
from tools_app.upstream.children.supervisor import guard

# For the supervisor to start and answer; its own start takes about 0.15 s.
_SUPERVISOR_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.01
_REPLY_SECONDS: Final = 5.0
# For `stop`: a child that ignores everything is killed after four seconds.
_STOP_SECONDS: Final = 15.0
_READ_AHEAD: Final = 1024 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class ChildStatus:
    """What the supervisor knows of the child of a source; if there are several, of the one that was used last."""

    # waiting, starting, up, stopping or down
    state: str
    # Why it is down or stopping; empty otherwise.
    reason: str
    since: datetime
    # When it can be started again.
    next_try: datetime | None
    pid: int | None
    restarts: int
    # The last lines of its standard error, without secrets.
    lines: tuple[str, ...]
    # Streams of processes of the hub.
    clients: int
    # Children of this source: one for each connection, or session.
    children: int


class Attendance:
    """Shows the supervisor that this process of the hub exists: while one does, children stay.

    An open socket, which the kernel closes when the process ends, in whatever way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        # Where: a test, or a changed setting, can use another directory.
        self._directory: Path | None = None

    def begin(self, directory: Path) -> None:
        """Attend, and start the supervisor if there is none. Blocks.

        Raises:
            OSError: it cannot be started.
        """
        with self._lock:
            if self._socket is not None and self._directory == directory and _is_open(self._socket):
                return
            self._close()
            deadline = time.monotonic() + _SUPERVISOR_SECONDS
            started_at = 0.0
            while time.monotonic() < deadline:
                if (connected := _attend(directory)) is not None:
                    self._socket, self._directory = connected, directory
                    return
                # Another process may start one as well; if that one ends just now, this is needed again.
                if time.monotonic() - started_at > 1.0:
                    runtime.start(directory)
                    started_at = time.monotonic()
                time.sleep(_POLL_SECONDS)
            raise TimeoutError(f"the supervisor did not answer within {_SUPERVISOR_SECONDS:g} s; see {guard.ERRORS}")

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _attend(directory: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_REPLY_SECONDS)
        connection.connect(str(directory / guard.SOCKET))
        secret = (directory / guard.SECRET).read_text()
        connection.sendall(json.dumps({"secret": secret, "order": "attend"}).encode() + b"\n")
        reply = connection.recv(4096)
        if b'"pid"' in reply:
            connection.setblocking(False)
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def open_stream(origin: Origin, environment: Mapping[str, str], *, seconds: float) -> Stream:
    """A stream of JSON-RPC lines with the child of this origin and environment, which is started if necessary.

    Several streams share one child, whose session has begun: `initialize` and `server/discover` are answered with what
    the child answered first. With `origin.per_session`, each stream has a child, which ends with it.
    A request that was open when the child ended is answered with the error -32000, and the stream ends; if the
    supervisor is killed, the stream only ends. In both cases the child may have executed the request.

    Raises:
        NotUpYet: it is still starting after `seconds`; the start continues.
        CannotStart: it cannot be started now.
    """
    if refused := refused_variables(environment):
        raise CannotStart(f"{', '.join(refused)} cannot be set for a child process; remove it")
    order = {
        "order": "open",
        "name": origin.name,
        "generation": origin.generation,
        "command": list(origin.command),
        "environment": dict(environment),
        "private": origin.per_session,
        "always": origin.starts_always,
        "handshake": _handshake(origin),
    }
    deadline = time.monotonic() + seconds
    while True:
        directory = await _attended(deadline)
        left = deadline - time.monotonic()
        order |= {"seconds": max(0.0, left), "hidden": hidden_paths(directory)}
        reply, stream = await _order(directory, order, max(0.0, left) + _REPLY_SECONDS)
        if stream is not None and "up" in reply:
            return stream
        if stream is not None:
            stream[1].close()
        if "failed" in reply:
            raise CannotStart(_shown(reply["failed"]), _time(reply.get("next_try_at")))
        if "starting" in reply or time.monotonic() >= deadline:
            raise NotUpYet(f"it is still starting after {seconds:g} s")
        # The supervisor ended before it answered: nothing was sent to the child.
        await asyncio.sleep(_POLL_SECONDS)


async def _attended(deadline: float) -> Path:
    try:
        directory = runtime.directory()
        beginning = asyncio.create_task(asyncio.to_thread(hub.part(Attendance).begin, directory))
        done, _ = await asyncio.wait({beginning}, timeout=max(0.0, deadline - time.monotonic()))
        if not done:
            beginning.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen by no one else
            raise NotUpYet("the process that owns child processes is still starting")
        await beginning
        return directory
    except (OSError, ValueError, SubprocessError) as error:
        raise CannotStart(f"the process that owns child processes cannot be started: {error}") from error


async def status(name: str) -> ChildStatus | None:
    """What is known of the child of a source on this machine; None if there is none."""
    reply = await _ask({"order": "status", "name": name}, _REPLY_SECONDS)
    reports = sorted(reply.get("children", ()), key=lambda report: (report["pid"] is not None, report["used_at"]))
    return _status(reports[-1], len(reports)) if reports else None


def _status(report: dict[str, Any], children: int) -> ChildStatus:
    return ChildStatus(
        state=report["state"],
        reason=_shown(report["reason"]),
        since=datetime.fromtimestamp(report["since"], UTC),
        next_try=_time(report["next_try_at"]),
        pid=report["pid"],
        restarts=max(0, report["starts"] - 1),
        lines=tuple(map(_shown, report["lines"])),
        clients=report["clients"],
        children=children,
    )


async def stop(name: str) -> None:
    """Stop the children of a source, and forget their failures. The next call starts them."""
    await _ask({"order": "stop", "name": name}, _STOP_SECONDS)


async def stop_all() -> None:
    """Stop all children of this hub on this machine."""
    await _ask({"order": "stop all"}, _STOP_SECONDS)


async def _ask(order: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The reply of the supervisor; empty if there is none."""
    with contextlib.suppress(OSError):
        reply, stream = await _order(runtime.directory(), order, seconds)
        if stream is not None:
            stream[1].close()
        return reply
    return {}


async def _order(directory: Path, order: dict[str, Any], seconds: float) -> tuple[dict[str, Any], Stream | None]:
    """The reply to an order, and the stream on which it came. Empty if the supervisor is not there."""
    writer = None
    try:
        async with asyncio.timeout(seconds):
            path = str(directory / guard.SOCKET)
            reader, writer = await asyncio.open_unix_connection(path, limit=_READ_AHEAD)
            secret = (directory / guard.SECRET).read_text()
            writer.write(json.dumps({**order, "secret": secret}).encode() + b"\n")
            await writer.drain()
            reply = json.loads(await reader.readline() or b"{}")
            stream, writer = (reader, writer), None
            return reply, stream
    except (OSError, ValueError):  # also TimeoutError; a line that was cut
        return {}, None
    finally:
        if writer is not None:
            writer.transport.abort()


def _handshake(origin: Origin) -> dict[str, Any]:
    """How the supervisor begins the session: the newest protocol, else the handshake of the earlier ones."""
    capabilities: dict[str, dict[str, Any]] = {name: {} for name in sorted(origin.declares)}
    information = {"name": "toolhub", "version": conf.value("TOOLHUB_VERSION")}
    return {
        "modern": list(MODERN_PROTOCOL_VERSIONS),
        "discover": {
            "_meta": {
                mcp_types.PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
                mcp_types.CLIENT_INFO_META_KEY: information,
                mcp_types.CLIENT_CAPABILITIES_META_KEY: capabilities,
            }
        },
        "initialize": {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": capabilities,
            "clientInfo": information,
        },
    }


def _shown(text: str) -> str:
    """What a program wrote, without secrets and without what controls a terminal."""
    return hygiene.cleaned(redaction.redacted_text(text))


def _time(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
