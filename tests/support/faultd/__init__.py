"""An upstream that misbehaves on purpose, on loopback, in a thread of its own.

    with Faultd() as upstream:
        client = ApiClient(f"{upstream.url}/drip-body", name="slow")
        ...
    assert upstream.requests[0].headers["x-api-key"]

The first part of the path names the fault, with its figures after colons: `/status:503`, `/redirect:302`, `/big:1000`.
What follows is the path that an interface would have, and is only written down. `faults` has them all; a test adds its
own with `answer`. Needs neither pytest nor ToolHub, and works as a program as well: `python -m tests.support.faultd`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from tests.support.faultd.certificates import Authority

MOST_HEAD = 64 * 1024


@dataclass(frozen=True)
class Seen:
    """A request, as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)


@dataclass
class Wire:
    """One connection, to a fault: what was asked, and the way to answer it."""

    seen: Seen
    figures: Sequence[str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: Faultd

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: bytes = b"", *, status: str = "200 OK", kind: str = "application/json", headers: Iterable[str] = ()
    ) -> None:
        lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Type: {kind}"] if kind else ())]
        if not status.startswith("204"):
            lines.append(f"Content-Length: {len(body)}")
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def reset(self) -> None:
        """End the connection the hard way."""
        found = self.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()


Fault = Callable[[Wire], Awaitable[None]]


class Faultd:
    """The server. Everything that it saw can be read while it runs and after it."""

    def __init__(self, host: str = "127.0.0.1", *, tls: str = "") -> None:
        self.host = host
        self.tls = tls
        self.requests: list[Seen] = []
        self.connections = 0
        self.open = 0
        self._own: dict[str, Fault] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="faultd", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self.port = 0
        self.authority = Authority() if tls else None
        self._context = self.authority.server(tls) if self.authority is not None else None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{'localhost' if self.tls else self.host}:{self.port}"

    @property
    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts this server's authority."""
        assert self.authority is not None
        context = ssl.create_default_context(cadata=self.authority.pem)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def answer(self, name: str, fault: Fault) -> None:
        """Teach it a fault of a test's own."""
        self._own[name] = fault

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("faultd does not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listening())

    async def _listening(self) -> None:
        server = await asyncio.start_server(self._connected, self.host, 0, ssl=self._context, limit=MOST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while (seen := await _request(reader, writer)) is not None:
                self.requests.append(seen)
                fault = unquote(seen.target.lstrip("/").partition("?")[0].partition("/")[0])
                name, *figures = fault.split(":")
                await self._fault(name)(Wire(seen, figures, reader, writer, self))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass  # the client had enough
        finally:
            self.open -= 1
            writer.close()

    def _fault(self, name: str) -> Fault:
        from tests.support.faultd.faults import FAULTS

        return self._own.get(name) or FAULTS.get(name) or FAULTS["unknown"]


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Seen | None:
    try:
        first_byte = await reader.readexactly(1)
        if first_byte == b"\x16":  # TLS, to a server that does not speak it
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
        head = (first_byte + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, target, headers, body)


class Names:
    """A resolver with prepared answers: each name's answers in order, then the last one again."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None and host.replace(".", "").isdigit():
            return [host]
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]
