"""A small MCP server that does what a test says: over HTTP in a thread, or over stdio as a process.

    with mcp_upstream.running() as server:
        server.tools = [mcp_upstream.tool("echo"), mcp_upstream.tool("slow")]
        server.behave("slow", delay=2)
        server.fail("tools/call", status=503, headers={"Retry-After": "7"})
        …                                    # connect to server.url
        assert server.calls == [("echo", {"text": "hi"})]

Both eras are spoken unless `eras` says otherwise. A tool without a behaviour answers with its arguments as JSON text.
All attributes can be changed while it runs; `changed()` announces a new list of tools.

As a process, `command(...)` is what starts it; `state` names a JSON file with `tools` and `instructions` that is read
again when it changes, `log` a file that gets the name of a tool for each execution. Needs neither pytest nor ToolHub.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import secrets
import socket
import struct
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY)
_VERSION = "io.modelcontextprotocol/protocolVersion"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_CHANGED = "notifications/tools/list_changed"

_LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "templates"),
    "prompts/list": ("prompts", "prompts"),
}

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]


def tool(name: str, description: str = "A tool.", properties: Json | None = None, **others: Any) -> Json:
    """A raw definition. `others`: annotations, outputSchema, _meta and the like."""
    schema = {"type": "object", "properties": properties or {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **others}


def text(words: str, **others: Any) -> Json:
    """A result with one text. `others`: isError, structuredContent."""
    return {"content": [{"type": "text", "text": words}], **others}


@dataclass
class Behaviour:
    """What a call of one tool does, beside being counted. What is not set does not happen."""

    # The raw result, or the JSON-RPC error (code, message) or (code, message, data).
    result: Json | None = None
    error: Sequence[Any] | None = None
    delay: float = 0
    hang: bool = False
    # Wait until this is set (in a thread of the test).
    hold: threading.Event | None = None
    # How many notifications come first: progress (if asked for) and log messages.
    progress: int = 0
    log: int = 0
    # Modern era: the `inputRequests` that are asked first; the answers come back as the result's text.
    asks: Json | None = None
    # Handshake era: a request (method, params) to the client first; its answer becomes the result's text.
    request: Sequence[Any] | None = None
    # Over stdio, before the answer: lines as they are (latin-1), the size of a junk line, the end of the process,
    # no more reading of stdin.
    raw: Sequence[str] = ()
    big: int = 0
    die: bool = False
    deaf: bool = False


@dataclass
class Fault:
    """What happens to HTTP requests of one method instead of, or to, their answers."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    kind: str = "application/json"
    # The connection is reset after so many bytes of the request or of the answer.
    cut_request: int | None = None
    cut_answer: int | None = None
    # Never answered: before the tool runs, or after it.
    hang: bool = False
    hang_after: bool = False
    # The answer is compressed, although nobody asked.
    compressed: bool = False
    # How many requests it affects; 0: all.
    times: int = 1
    used: int = 0


class _Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data is not None else {})}


class McpUpstream:
    """The server, and what it has seen."""

    def __init__(self, tools: Sequence[Json] | None = None, *, eras: Sequence[str] = ("legacy", "modern")) -> None:
        self.tools: list[Json] = list(tools if tools is not None else [tool("echo")])
        self.resources: list[Json] = []
        self.templates: list[Json] = []
        self.prompts: list[Json] = []
        self.instructions = ""
        self.name, self.version = "fake", "1.0"
        self.eras = set(eras)
        # The newest version of the handshake era that it speaks.
        self.newest = LEGACY
        # Tools on one page of `tools/list`; 0: all. `endless`: the cursor never ends.
        self.page = 0
        self.endless = False
        # HTTP: whether answers are event streams, whether there are sessions, and how a lost one is refused.
        self.events = False
        self.with_sessions = True
        self.lost_status, self.lost_text = 404, "Session not found"
        # HTTP: whether an Authorization header is accepted (None: none is needed), what is said otherwise, and other
        # documents that the server has, by path.
        self.accepts: Callable[[str], bool] | None = None
        self.challenge = "Bearer"
        self.documents: dict[str, Json] = {}
        self.refused = 0
        # Whether default answers say how many calls there were.
        self.counts = False
        self.behaviours: dict[str, Behaviour] = {}
        self.faults: dict[str, Fault] = {}
        self.sessions: set[str] = set()
        # What it has seen: executions as (tool, arguments), all messages, HTTP requests as (method, headers).
        self.calls: list[tuple[str, Json]] = []
        self.messages: list[Json] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.cancelled: list[Any] = []
        self.connections = 0
        self.url = ""
        self.host, self.port = "127.0.0.1", 0
        self.on_execution: Callable[[str], None] = lambda name: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[object, Callable[[Json], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._every: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()
        self._stream_writers: set[asyncio.StreamWriter] = set()
        # Requests to the client that wait for its answer.
        self._asked: dict[Any, asyncio.Future[Json]] = {}

    # ---- for tests

    @property
    def executions(self) -> Counter[str]:
        """How often each tool was executed."""
        return Counter(name for name, _ in list(self.calls))

    @property
    def listening(self) -> int:
        """How many streams would hear of a change now."""
        return len(self._listeners)

    def count(self, method: str) -> int:
        """How many messages of a method have arrived."""
        return sum(message.get("method") == method for message in list(self.messages))

    def behave(self, name: str, **values: Any) -> None:
        """Set what a tool does; without values, it answers with its arguments again."""
        self.behaviours[name] = Behaviour(**values)

    def fail(self, method: str = "*", **values: Any) -> None:
        """Set what happens to the next HTTP requests of a JSON-RPC method (`*`: all; `GET`: the stream)."""
        self.faults[method] = Fault(**values)

    def heal(self) -> None:
        self.faults.clear()

    def changed(self) -> None:
        """Tell all listening clients that the list of tools has changed."""
        self.notify({"jsonrpc": "2.0", "method": _CHANGED})

    def notify(self, message: Json) -> None:
        """Send a message to all listening clients."""
        for tell in list(self._listeners.values()):
            assert self._loop is not None
            self._loop.call_soon_threadsafe(tell, message)

    def forget_sessions(self) -> None:
        """As after a restart of the server: sessions of the handshake era are unknown, streams are cut."""
        self.sessions.clear()
        self.cut(streams_only=True)

    def cut(self, *, streams_only: bool = False) -> None:
        """Reset all connections, or those of streams alone."""
        writers = self._stream_writers if streams_only else self._writers
        for writer in list(writers):
            assert self._loop is not None
            self._loop.call_soon_threadsafe(_reset, writer)

    # ---- the protocol

    async def answer(self, message: Json, send: Send) -> Json:
        """The answer to a request. `send`: to the client, before the answer."""
        key: Json = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            return {**key, "result": await self._result(message, send)}
        except _Refused as refusal:
            return {**key, "error": refusal.error}

    def heard(self, message: Json) -> None:
        """An answer of the client to a request of this server."""
        waiting = self._asked.pop(message.get("id"), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def _result(self, message: Json, send: Send) -> Json:
        method, params = message["method"], message.get("params") or {}
        modern = _VERSION in (params.get("_meta") or {})
        if modern and "modern" not in self.eras:
            if method != "server/discover":
                raise _Refused(-32022, "Unsupported protocol version", {"supported": [self.newest]})
            raise _Refused(-32601, f"Method not found: {method}")
        if method == "initialize":
            return self._handshake(params)
        if method == "server/discover" and modern:
            return self._discovered()
        if method == "ping":
            return {}
        if method in _LISTS:
            key, attribute = _LISTS[method]
            return self._page(key, getattr(self, attribute), params.get("cursor")) | (_kept() if modern else {})
        answers = {"tools/call": self._call, "resources/read": self._read, "prompts/get": self._prompt}
        if method in answers:
            # A result that asks has a kind of its own.
            return ({"resultType": "complete"} if modern else {}) | await answers[method](params, send, modern)
        raise _Refused(-32601, f"Method not found: {method}")

    def _handshake(self, params: Json) -> Json:
        asked = params.get("protocolVersion")
        if "legacy" not in self.eras:
            raise _Refused(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": asked})
        known = [one for one in HANDSHAKES if one <= self.newest]
        return {"protocolVersion": asked if asked in known else self.newest, **self._about()}

    def _discovered(self) -> Json:
        about = self._about()
        meta = {"io.modelcontextprotocol/serverInfo": about.pop("serverInfo")}
        versions = [MODERN, *([self.newest] if "legacy" in self.eras else [])]
        return {"supportedVersions": versions, **about, **_kept(), "_meta": meta}

    async def _read(self, params: Json, send: Send, modern: bool) -> Json:
        return {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]}

    async def _prompt(self, params: Json, send: Send, modern: bool) -> Json:
        content = {"type": "text", "text": json.dumps(params.get("arguments"))}
        return {"messages": [{"role": "user", "content": content}]}

    def _about(self) -> Json:
        capabilities: Json = {"tools": {"listChanged": True}, "logging": {}}
        if self.resources or self.templates:
            capabilities["resources"] = {"listChanged": True}
        if self.prompts:
            capabilities["prompts"] = {"listChanged": True}
        about: Json = {"capabilities": capabilities, "serverInfo": {"name": self.name, "version": self.version}}
        return about | ({"instructions": self.instructions} if self.instructions else {})

    def _page(self, name: str, items: list[Json], cursor: str | None) -> Json:
        if self.endless and name == "tools":
            return {name: items, "nextCursor": str(int(cursor or 0) + 1)}
        start = int(cursor or 0)
        size = self.page or max(1, len(items))
        more = {"nextCursor": str(start + size)} if start + size < len(items) else {}
        return {name: items[start : start + size], **more}

    async def _call(self, params: Json, send: Send, modern: bool) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        if name not in [one.get("name") for one in self.tools]:
            raise _Refused(-32602, f"Unknown tool: {name}")
        behaviour = self.behaviours.get(name, Behaviour())
        if behaviour.asks is not None and "inputResponses" not in params:
            if not modern:
                raise _Refused(-32603, "Handler returned an invalid result")
            return {"resultType": "input_required", "inputRequests": behaviour.asks, "requestState": "state"}
        self.calls.append((name, arguments))
        self.on_execution(name)
        await self._tell_and_wait(behaviour, (params.get("_meta") or {}).get("progressToken"), send)
        if behaviour.error is not None:
            raise _Refused(*behaviour.error)
        if behaviour.request is not None:
            return text(json.dumps(await self._ask(behaviour.request, send)))
        if behaviour.asks is not None:
            return text(json.dumps(params["inputResponses"]))
        counted = {"call": len(self.calls)} if self.counts else {}
        return behaviour.result if behaviour.result is not None else text(json.dumps({**arguments, **counted}))

    async def _tell_and_wait(self, behaviour: Behaviour, token: Any, send: Send) -> None:
        for number in range(behaviour.progress if token is not None else 0):
            about: Json = {"progressToken": token, "progress": number + 1, "total": behaviour.progress}
            await send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {**about, "message": "on"}})
        for number in range(behaviour.log):
            about = {"level": "info", "data": f"message {number}"}
            await send({"jsonrpc": "2.0", "method": "notifications/message", "params": about})
        if behaviour.hang:
            await asyncio.Event().wait()
        if behaviour.hold is not None:
            await asyncio.to_thread(behaviour.hold.wait, 60)
        await asyncio.sleep(behaviour.delay)

    async def _ask(self, request: Sequence[Any], send: Send) -> Json:
        key = f"ask-{secrets.token_hex(4)}"
        self._asked[key] = asyncio.get_running_loop().create_future()
        await send({"jsonrpc": "2.0", "id": key, "method": request[0], "params": request[1]})
        return await self._asked[key]

    # ---- HTTP

    async def serve(self) -> asyncio.Server:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._accept, self.host, self.port, limit=64 * 2**20)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"http://{self.host}:{self.port}/mcp"
        return server

    async def end(self) -> None:
        # What the system has accepted comes in the next turns of the loop.
        for _ in range(5):
            await asyncio.sleep(0.001)
        writers = list(self._every)
        for writer in writers:
            _reset(writer)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.wait_for(asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True), 5)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Here, so that `end` knows it before its task begins.
        self.connections += 1
        self._writers.add(writer)
        self._every.add(writer)
        task = asyncio.create_task(self._connected(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # also at the end of the server, whose streams asyncio would complain about
        finally:
            self._writers.discard(writer)
            self._stream_writers.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False at the end of the connection."""
        begun = await reader.read(1)
        cut = self._cut_fault() if begun else None
        received = await _request_of(reader, begun, cut.cut_request if cut is not None else None)
        if received is None:
            _reset(writer)
            return False
        method, headers, body = received
        self.requests.append((method, headers))
        message: Json = json.loads(body) if body else {}
        if await self._guarded(headers, writer):
            return True
        kind = message.get("method", "") if method == "POST" else method
        if message:
            self.messages.append(message)
        # The whole request came before it was cut off: it is done, and nobody hears of it.
        fault = Fault(cut_answer=0) if cut is not None else self._fault(kind)
        if fault is not None and (fault.status or fault.body is not None):
            given = fault.headers
            await _respond(writer, fault.status or 200, fault.body or b"", kind=fault.kind, headers=given)
            return True
        if fault is not None and fault.hang:
            await reader.read()
            return False
        session = headers.get("mcp-session-id")
        if method != "POST":
            return await self._without_message(method, session, reader, writer)
        if self._is_lost(message, session):
            error = {"code": -32600, "message": self.lost_text}
            refusal = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
            await _respond(writer, self.lost_status, json.dumps(refusal).encode())
            return True
        if "id" not in message or "method" not in message:
            self._noted(message)
            await _respond(writer, 202)
            return True
        if kind == "subscriptions/listen":
            return await self._listen(message, reader, writer)
        return await self._answered(message, reader, writer, fault)

    async def _without_message(
        self, method: str, session: str | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if method == "GET":
            return await self._stream(session, reader, writer)
        self.sessions.discard(session or "")
        await _respond(writer, 200)
        return True

    async def _guarded(self, headers: Mapping[str, str], writer: asyncio.StreamWriter) -> bool:
        """Whether the request was for a document, or had no valid token."""
        if (document := self.documents.get(headers[":path"])) is not None:
            await _respond(writer, 200, json.dumps(document).encode())
            return True
        if self.accepts is None or self.accepts(headers.get("authorization", "")):
            return False
        self.refused += 1
        status = 404 if headers[":path"].startswith("/.well-known") else 401
        await _respond(writer, status, headers={"WWW-Authenticate": self.challenge})
        return True

    def _cut_fault(self) -> Fault | None:
        for fault in self.faults.values():
            if fault.cut_request is not None and (not fault.times or fault.used < fault.times):
                fault.used += 1
                return fault
        return None

    def _fault(self, kind: str) -> Fault | None:
        fault = self.faults.get(kind) or self.faults.get("*")
        if fault is None or fault.cut_request is not None or (fault.times and fault.used >= fault.times):
            return None
        fault.used += 1
        return fault

    def _is_lost(self, message: Json, session: str | None) -> bool:
        if not self.with_sessions or message.get("method") == "initialize":
            return False
        if _VERSION in ((message.get("params") or {}).get("_meta") or {}):
            return False
        return session not in self.sessions

    def _noted(self, message: Json) -> None:
        if message.get("method") == "notifications/cancelled":
            self.cancelled.append(message["params"].get("requestId"))
            for task in asyncio.all_tasks():
                if task.get_name() == f"request {message['params'].get('requestId')}":
                    task.cancel()
        elif "method" not in message:
            self.heard(message)

    async def _answered(
        self, message: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault | None
    ) -> bool:
        events = self.events
        name = message["params"]["name"] if message["method"] == "tools/call" else ""
        behaviour = self.behaviours.get(name, Behaviour())
        events = events or bool(behaviour.progress or behaviour.log or behaviour.request)
        begun = False

        async def send(note: Json) -> None:
            nonlocal begun
            if not begun:
                begun = True
                writer.write(_head(200, "text/event-stream", {}))
            writer.write(_event(note))
            await writer.drain()

        task = asyncio.create_task(self.answer(message, send), name=f"request {message['id']}")
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            # In the modern era the end of the connection is the cancellation.
            if _VERSION in ((message.get("params") or {}).get("_meta") or {}):
                self.cancelled.append(message["id"])
            task.cancel()
            return False
        gone.cancel()
        await asyncio.wait({gone})
        if task.cancelled():
            _reset(writer)
            return False
        answer = task.result()
        if fault is not None and fault.hang_after:
            await reader.read()
            return False
        headers = self._new_session() if message["method"] == "initialize" and "result" in answer else {}
        if events:
            data = (b"" if begun else _head(200, "text/event-stream", headers)) + _event(answer)
        else:
            body = json.dumps(answer).encode()
            if fault is not None and fault.compressed:
                body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
            data = _head(200, "application/json", {**headers, "Content-Length": str(len(body))}) + body
        if fault is not None and fault.cut_answer is not None:
            writer.write(data[: fault.cut_answer])
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            _reset(writer)
            return False
        writer.write(data)
        await writer.drain()
        return not events

    def _new_session(self) -> dict[str, str]:
        if not self.with_sessions:
            return {}
        session = secrets.token_hex(8)
        self.sessions.add(session)
        return {"Mcp-Session-Id": session}

    async def _stream(self, session: str | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not self.with_sessions:
            await _respond(writer, 405)
            return True
        if session not in self.sessions:
            await _respond(writer, self.lost_status)
            return True
        await self._listening(reader, writer, None)
        return False

    async def _listen(self, message: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await self._listening(reader, writer, message)
        return False

    async def _listening(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: Json | None
    ) -> None:
        meta = {_SUBSCRIPTION: message["id"]} if message is not None else {}
        writer.write(_head(200, "text/event-stream", {}))
        if message is not None:
            agreed = {"notifications": message["params"].get("notifications", {}), "_meta": meta}
            acknowledged = "notifications/subscriptions/acknowledged"
            writer.write(_event({"jsonrpc": "2.0", "method": acknowledged, "params": agreed}))
        await writer.drain()

        def tell(note: Json) -> None:
            params = {**note.get("params", {}), "_meta": meta} if meta else note.get("params")
            writer.write(_event({**note, **({"params": params} if params else {})}))

        self._stream_writers.add(writer)
        self._listeners[writer] = tell
        try:
            await reader.read()
        finally:
            del self._listeners[writer]

    # ---- stdio

    async def serve_lines(
        self, reader: asyncio.StreamReader, write: Callable[[bytes], None], stop_reading: Callable[[], None]
    ) -> None:
        """Serve one client, until its end of the pipe is closed."""
        self._loop = asyncio.get_running_loop()
        lines = _Lines(self, write, stop_reading)
        self._listeners[self] = lines.tell
        while line := await reader.readline():
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                self.messages.append(message)
                lines.receive(message)


class _Lines:
    """One client over stdio."""

    def __init__(self, server: McpUpstream, write: Callable[[bytes], None], stop_reading: Callable[[], None]) -> None:
        self._server = server
        self._write = write
        self._stop_reading = stop_reading
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self._subscriptions: set[Any] = set()

    def receive(self, message: Json) -> None:
        method, key, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "notifications/cancelled":
            cancelled = params.get("requestId")
            self._server.cancelled.append(cancelled)
            self._subscriptions.discard(cancelled)
            if (task := self._tasks.get(cancelled)) is not None:
                task.cancel()
        elif method == "subscriptions/listen" and "modern" in self._server.eras:
            self._subscriptions.add(key)
            agreed = {"notifications": params.get("notifications", {}), "_meta": {_SUBSCRIPTION: key}}
            self._out({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": agreed})
        elif method and key is not None:
            self._tasks[key] = asyncio.create_task(self._handle(message))
        elif key is not None:
            self._server.heard(message)

    def tell(self, note: Json) -> None:
        for key in self._subscriptions or {None}:
            meta = {"params": {**note.get("params", {}), "_meta": {_SUBSCRIPTION: key}}} if key is not None else {}
            self._out({**note, **meta})

    async def _handle(self, message: Json) -> None:
        answer = await self._server.answer(message, self._send)
        name = (message.get("params") or {}).get("name", "") if message["method"] == "tools/call" else ""
        behaviour = self._server.behaviours.get(name, Behaviour())
        for line in behaviour.raw:
            self._write(line.encode("latin-1") + b"\n")
        if behaviour.big:
            self._write(b"x" * behaviour.big + b"\n")
        if behaviour.deaf:
            self._stop_reading()
        if behaviour.die:
            os._exit(3)
        self._out(answer)

    async def _send(self, message: Json) -> None:
        self._out(message)

    def _out(self, message: Json) -> None:
        self._write(json.dumps(message).encode() + b"\n")


async def _request_of(
    reader: asyncio.StreamReader, received: bytes, most: int | None
) -> tuple[str, dict[str, str], bytes] | None:
    """Method, headers and body of a request; None if the connection ends before, or after so many bytes."""
    while True:
        head, end, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines if line}
        if end and len(body) >= int(headers.get("content-length", 0)):
            method, path = first.split(" ")[:2]
            return method, headers | {":path": path}, body
        if most is not None and len(received) >= most:
            return None
        chunk = await reader.read(2**20 if most is None else most - len(received))
        if not chunk:
            return None
        received += chunk


def _kept() -> Json:
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    given = {"Content-Type": kind, **headers}
    if "Content-Length" not in given:
        given["Connection"] = "close"
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in given.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _event(message: Json) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


async def _respond(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes = b"",
    *,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    writer.write(_head(status, kind if body else "", {**(headers or {}), "Content-Length": str(len(body))}) + body)
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with a reset, as a process does that is killed."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextlib.contextmanager
def running(
    tools: Sequence[Json] | None = None, *, eras: Sequence[str] = ("legacy", "modern"), port: int = 0
) -> Iterator[McpUpstream]:
    """A server over HTTP on loopback, in a thread of its own."""
    server = McpUpstream(tools, eras=eras)
    server.port = port
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def serve() -> None:
        listening = await server.serve()
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            listening.close()

    task = loop.create_task(serve())

    def work() -> None:
        asyncio.set_event_loop(loop)
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(server.end())
        loop.close()

    thread = threading.Thread(target=work, name="mcp-upstream", daemon=True)
    thread.start()
    if not ready.wait(10):
        raise RuntimeError("the server does not start")
    try:
        yield server
    finally:
        # This task alone: asyncio loses the socket of a connection whose task is cancelled before it begins.
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)


def command(**options: Any) -> list[str]:
    """The command that runs the server over stdio: `tools`, `eras`, `behaviours`, `instructions`, `state`, `log`,
    `wait` (seconds before it answers anything), `newest`, `counts`."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    start = f"import sys; sys.path.insert(0, {root!r}); from tests.support.mcp_upstream import main; main(sys.argv[1])"
    return [sys.executable, "-c", start, json.dumps(options)]


async def _over_stdio(options: Json) -> None:
    server = McpUpstream(options.get("tools"), eras=options.get("eras", ("legacy", "modern")))
    server.instructions = options.get("instructions", "")
    server.newest = options.get("newest", LEGACY)
    server.counts = options.get("counts", False)
    for name, values in options.get("behaviours", {}).items():
        server.behave(name, **values)
    if log := options.get("log"):

        def write_down(name: str) -> None:
            with Path(log).open("a") as file:
                file.write(f"{name}\n")

        server.on_execution = write_down
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    out = sys.stdout.buffer

    def write(data: bytes) -> None:
        out.write(data)
        out.flush()

    async def watch(path: Path) -> None:
        seen: int | None = None
        while True:
            stamp = _stamp(path)
            if stamp != seen:
                with contextlib.suppress(ValueError):
                    state = json.loads(_text_of(path))
                    server.tools = state.get("tools", server.tools)
                    server.instructions = state.get("instructions", server.instructions)
                    if seen is not None:
                        server.changed()
                seen = stamp
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch(Path(options["state"]))) if "state" in options else None
    await asyncio.sleep(options.get("wait", 0))
    await server.serve_lines(reader, write, transport.pause_reading)
    if watching is not None:
        watching.cancel()


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def main(options: str = "{}") -> None:
    asyncio.run(_over_stdio(json.loads(options)))


if __name__ == "__main__":
    main(*sys.argv[1:2])
