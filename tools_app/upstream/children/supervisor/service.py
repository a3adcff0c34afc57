"""The supervisor: takes orders from the processes of the hub over a UNIX socket, and owns the children.

The first line of a connection is an order, as JSON with the secret of this run. After `open` the connection is a stream
of JSON-RPC lines with the child; after `attend` it only shows that a process of the hub exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from . import guard, messages, processes
from .child import STOPPING, Child, FailedError
from .limits import MOST_CHILDREN, MOST_UNREAD, Limits
from .lines import Lines
from .session import Session

_OPEN_FILES: Final = 16384
_ORDER_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 8.0
_FLUSH_SECONDS: Final = 5.0


def serve(directory: Path, limits: str) -> None:
    """Run until no hub and no child is left."""
    # Other processes of this user cannot read its memory, which has the secrets of connections.
    processes.prctl(processes.PR_SET_DUMPABLE, 0)
    processes.adopt_orphans()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _OPEN_FILES)), hard))
    asyncio.run(Supervisor(directory, Limits(**json.loads(limits))).run())


class Supervisor:
    def __init__(self, directory: Path, limits: Limits) -> None:
        self.secret = os.urandom(16).hex()
        self._directory = directory
        self._limits = limits
        self._marker = os.urandom(16).hex()
        self._slots = asyncio.Semaphore(limits.starts)
        self.connections: set[Stream] = set()
        self._shared: dict[str, Child] = {}
        # Children of one stream each, by the key that they would have if they were shared.
        self._private: dict[str, list[Child]] = {}
        self._newest: dict[str, list[int]] = {}
        self._made = 0
        self._seen_at = time.monotonic()
        self._is_ending = False
        self._has_strays = False

    async def run(self) -> None:
        for name, text in ((guard.MARKER, self._marker), (guard.SECRET, self.secret)):
            _write(self._directory / name, text)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        ending = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.set)
        path = self._directory / guard.SOCKET
        server = await loop.create_unix_server(lambda: Stream(self), str(path), backlog=1024)
        while not ending.is_set() and not self._is_over():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), self._limits.tick)
        self._is_ending = True
        path.unlink(missing_ok=True)
        server.close()
        with contextlib.suppress(TimeoutError):  # the guard kills what does not end
            await asyncio.wait_for(self.stop(lambda _child: True, "the hub has ended"), _STOP_SECONDS)
        for stream in tuple(self.connections):
            stream.finish()
        (self._directory / guard.SECRET).unlink(missing_ok=True)

    def _is_over(self) -> bool:
        """Look after the children. Whether there is neither a hub nor a child."""
        if self._has_strays:
            self._kill_strays()
        now = time.monotonic()
        if self.connections:
            self._seen_at = now
        is_alone = now - self._seen_at > self._limits.linger
        for child in self.children():
            if child.session.is_busy:
                child.used_at = time.time()
            if is_alone:
                child.end("no hub is running")
            elif child.is_idle():
                child.end(f"no request for {self._limits.idle:g} s")
            if child.is_forgotten():
                self._forget(child)
        return is_alone and not any(child.pid for child in self.children())

    def _forget(self, child: Child) -> None:
        for key in [key for key, shared in self._shared.items() if shared is child]:
            del self._shared[key]
        for key, own in list(self._private.items()):
            own[:] = [one for one in own if one is not child]
            if not own:
                del self._private[key]

    def children(self) -> Iterator[Child]:
        yield from tuple(self._shared.values())
        for children in tuple(self._private.values()):
            yield from tuple(children)

    def _reap(self) -> None:
        for pid, code in processes.reap().items():
            for child in self.children():
                if child.pid == pid:
                    child.has_ended(code)
                    # A keeper does not die of a signal unless others send it. Then its orphans are ours.
                    self._has_strays = self._has_strays or code < 0
        if self._has_strays:
            self._kill_strays()

    def _kill_strays(self) -> None:
        keepers = {child.pid for child in self.children()}
        strays = [pid for pid in processes.children() if pid not in keepers]
        for pid in strays:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._has_strays = bool(strays)

    # ---- orders

    async def open(self, stream: Stream, order: dict[str, Any]) -> None:
        try:
            child = await self._child(stream, order, _key(order))
        except FailedError as error:
            stream.answer({"failed": str(error), "next_try_at": error.next_try_at})
            return
        try:
            await child.ready(float(order["seconds"]))
        except TimeoutError:
            child.release(stream)
            stream.answer({"starting": True})
        except FailedError as error:
            child.release(stream)
            stream.answer({"failed": str(error), "next_try_at": error.next_try_at})
        else:
            if stream.is_open:
                stream.begin(child, ends_child=order["private"])
                return
            child.release(stream)
            stream.finish()

    async def _child(self, stream: Stream, order: dict[str, Any], key: str) -> Child:
        name, generation = order["name"], order["generation"]
        if generation < self._newest.get(name, generation):
            raise FailedError("it was changed or reconnected meanwhile")
        if generation > self._newest.setdefault(name, generation):
            self._newest[name] = generation
            is_earlier = lambda child: child.name == name and child.generation < generation  # noqa: E731
            await self.stop(is_earlier, "it was changed or reconnected")
        if order["private"]:
            own = self._private.setdefault(key, [])
            # One whose stream did not wait for it, or that has failed: its next attempt may have to wait.
            free = (child for child in own if child.taken_by is None and child.state != STOPPING)
            if (child := next(free, None)) is None:
                own.append(child := self._create(order))
            child.taken_by, stream.taken = stream, child
            return child
        if key not in self._shared:
            self._shared[key] = self._create(order)
        return self._shared[key]

    def _create(self, order: dict[str, Any]) -> Child:
        if self._is_ending:
            raise FailedError("the hub is ending")
        if sum(child.pid is not None for child in self.children()) >= MOST_CHILDREN:
            raise FailedError(f"{MOST_CHILDREN} servers are running; stop some of them")
        self._made += 1
        directory = str(self._directory / guard.WORK / str(self._made))
        return Child(order, directory, self._marker, self._limits, self._slots)

    async def stop(self, applies: Any, reason: str) -> int:
        stopped = [child for child in self.children() if applies(child)]
        await asyncio.gather(*(child.stop(reason) for child in stopped))
        return len(stopped)

    async def obey(self, stream: Stream, order: dict[str, Any]) -> None:
        match order.get("order"):
            case "attend":
                stream.answer({"pid": os.getpid()}, ends=False)
            case "open":
                await self.open(stream, order)
            case "status":
                reports = [child.report() for child in self.children() if child.name == order["name"]]
                stream.answer({"children": reports, "pid": os.getpid()})
            case "stop":
                stream.answer({"stopped": await self.stop(lambda child: child.name == order["name"], "stopped")})
            case "stop all":
                stream.answer({"stopped": await self.stop(lambda _child: True, "stopped")})
            case _:
                stream.abort()


class Stream(asyncio.Protocol):
    """A connection of a process of the hub."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._lines = Lines(lambda _head, _tail: self.abort())
        self._transport: asyncio.Transport | None = None
        self._child: Child | None = None
        self._session: Session | None = None
        self._ends_child = False
        self._order: asyncio.Task[None] | None = None
        self.is_open = True
        # The child that is this stream's alone.
        self.taken: Child | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type
        self._transport = transport
        self._supervisor.connections.add(self)
        if not _is_own(transport.get_extra_info("socket")):
            self.abort()
        asyncio.get_running_loop().call_later(_ORDER_SECONDS, self._expect)

    def _expect(self) -> None:
        if self._order is None:
            self.abort()

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if self._order is None:
                self._begin(line)
            elif self._session is not None and self._child is not None:
                self._child.used_at = time.time()
                self._session.sent(self, line)

    def _begin(self, line: bytes) -> None:
        order = messages.parsed(line)
        secret = order.get("secret") if order else None
        own = self._supervisor.secret.encode()
        if order is None or not isinstance(secret, str) or not hmac.compare_digest(secret.encode(), own):
            self.answer({"denied": True})
            return
        self._order = asyncio.create_task(self._supervisor.obey(self, order))

    def begin(self, child: Child, *, ends_child: bool) -> None:
        self._child, self._session, self._ends_child = child, child.session, ends_child
        self.send(messages.encoded({"up": True}))
        self._session.attach(self)

    def answer(self, message: dict[str, Any], *, ends: bool = True) -> None:
        self.send(messages.encoded(message))
        if ends:
            self.finish()

    def send(self, data: bytes) -> None:
        if self._transport is None or not self.is_open:
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > MOST_UNREAD + len(data):
            self.abort()

    def pause(self, *, paused: bool) -> None:
        if self._transport is not None and self.is_open:
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def finish(self) -> None:
        """Close when everything has been sent, or soon."""
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._supervisor.connections.discard(self)
        if self._session is not None:
            self._session.detach(self)
        if self._child is not None and self._ends_child:
            self._child.end("its stream has ended")
        if self.taken is not None:
            self.taken.release(self)


def _key(order: dict[str, Any]) -> str:
    """What makes two orders ask for the same child. A digest, since the environment has secrets."""
    parts = [order[name] for name in ("name", "generation", "command", "environment", "hidden")]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_own(connection: socket.socket) -> bool:
    """Whether the other side belongs to this user. Elsewhere than on Linux, permissions of the directory have to do."""
    if sys.platform != "linux":
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)
