"""The one MCP session with a child, which several processes of the hub share.

Ids of requests and tokens of progress are replaced, so that those of different clients differ. Answers and progress
reach the client whose request they belong to, other notifications all clients. The handshake is made once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from . import messages
from .limits import LONGEST_CALL, MOST_LOGS, MOST_NOISE, MOST_PARSED, MOST_REQUESTS, NOISE_BYTES

DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"
_LOG: Final = b'"notifications/message"'
# Dropping a log message costs little.
_DROPPED: Final = 0.05


class EndedError(Exception):
    """The process has ended."""


class RefusedError(Exception):
    """The server does not begin a session."""


class Client(Protocol):
    def send(self, data: bytes) -> None: ...

    def pause(self, *, paused: bool) -> None: ...

    def finish(self) -> None: ...


@dataclass(eq=False)
class Request:
    # None: of the supervisor.
    client: Client | None
    identifier: Any
    method: str
    # The client's; None: no progress is wanted.
    token: Any
    asked_at: float
    future: asyncio.Future[dict[str, Any]] | None = None


class Allowance:
    """How much of something there may be in a second."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._used = 0.0
        self._at = time.monotonic()

    def use(self, amount: float) -> float:
        """The seconds to wait for until there is some of it again."""
        now = time.monotonic()
        self._used = max(0.0, self._used - (now - self._at) * self._most) + amount
        self._at = now
        return max(0.0, self._used / self._most - 1.0)


class Session:
    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self.clients: set[Client] = set()
        self._requests: dict[int, Request] = {}
        self._last = 0
        # Who was sent a request of the child, by its id as JSON.
        self._asked: dict[str, Client] = {}
        # Answers of the handshake, and the clients that wait for them.
        self._answers: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, list[tuple[Client, Any]]] = {}
        self.is_paused = False
        self._noise = Allowance(MOST_NOISE)
        self._logs = Allowance(MOST_LOGS)

    # ---- handshake

    async def negotiate(self, handshake: dict[str, Any], patience: float, *, skips_discover: bool) -> None:
        """Begin a session in the newest protocol that the server speaks.

        Raises:
            EndedError: the process has ended.
            RefusedError: the server refuses.
        """
        discovered: asyncio.Future[dict[str, Any]] | None = None
        if not skips_discover:
            discovered = self._ask(DISCOVER, handshake["discover"])
            await asyncio.wait({discovered}, timeout=patience)
            if discovered.done() and self._is_modern(discovered, handshake["modern"]):
                return
        initialized = self._ask(INITIALIZE, handshake["initialize"])
        waits = {initialized} if discovered is None or discovered.done() else {initialized, discovered}
        while waits:
            done, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if discovered in done and self._is_modern(discovered, handshake["modern"]):
                return
            if initialized in done:
                answer = initialized.result()
                if "result" not in answer:
                    raise RefusedError(str(messages.part(answer, "error", "message") or "without a reason")[:500])
                return

    @staticmethod
    def _is_modern(discovered: asyncio.Future[dict[str, Any]], versions: list[str]) -> bool:
        offered = messages.part(discovered.result(), "result", "supportedVersions")
        return isinstance(offered, list) and any(version in offered for version in versions)

    @property
    def died_of_discover(self) -> bool:
        """Whether the server has not survived the first question of the newer protocol."""
        return DISCOVER in self._waiting and DISCOVER not in self._answers and INITIALIZE not in self._waiting

    def _ask(self, method: str, params: Any) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(method, [])
        number = self._add(Request(None, None, method, None, time.monotonic(), future))
        self._write(messages.request(number, method, params))
        return future

    def _introduced(self, request: Request, answer: dict[str, Any]) -> None:
        """An answer of the handshake, for all that wait for it."""
        self._answers[request.method] = answer
        if request.method == INITIALIZE and "result" in answer:
            self._write(messages.notification("notifications/initialized", {}))
        for client, identifier in self._waiting.pop(request.method, ()):
            client.send(messages.encoded({**answer, "id": identifier}))
        if request.future is not None and not request.future.done():
            request.future.set_result(answer)

    def _introduce(self, client: Client, message: dict[str, Any], method: str) -> None:
        if method in self._answers:
            client.send(messages.encoded({**self._answers[method], "id": message["id"]}))
        elif method == DISCOVER and INITIALIZE in self._answers:
            client.send(messages.error(message["id"], messages.METHOD_NOT_FOUND, "Method not found"))
        else:
            if method not in self._waiting:
                _ = self._ask(method, message.get("params"))
            self._waiting[method].append((client, message["id"]))

    # ---- clients

    @property
    def is_busy(self) -> bool:
        """Whether a call is being executed."""
        since = time.monotonic() - LONGEST_CALL
        return any(request.asked_at > since for request in self._requests.values() if _is_call(request))

    def attach(self, client: Client) -> None:
        self.clients.add(client)
        if self.is_paused:
            client.pause(paused=True)

    def detach(self, client: Client) -> None:
        """The client has gone: cancel its requests."""
        self.clients.discard(client)
        for number in [number for number, request in self._requests.items() if request.client is client]:
            self._cancel(number, {"reason": "the caller has gone"})
        for waiting in self._waiting.values():
            waiting[:] = [one for one in waiting if one[0] is not client]
        for identifier in [identifier for identifier, asked in self._asked.items() if asked is client]:
            del self._asked[identifier]
            self._write(messages.error(json.loads(identifier), messages.TOO_LONG, "the caller has gone"))

    def pause(self, *, paused: bool) -> None:
        """The child does not read its input: its clients wait."""
        self.is_paused = paused
        for client in self.clients:
            client.pause(paused=paused)

    def close(self, reason: str) -> None:
        """The process has ended: tell everyone who waits."""
        requests, self._requests = list(self._requests.values()), {}
        for request in requests:
            if request.client is not None:
                request.client.send(messages.error(request.identifier, messages.CONNECTION_CLOSED, reason))
            elif request.future is not None and not request.future.done():
                request.future.set_exception(EndedError(reason))
                request.future.exception()  # seen, also if no one waits for it any more
        clients, self.clients = self.clients, set()
        for client in clients:
            client.finish()

    def sent(self, client: Client, line: bytes) -> None:
        """A line of a client, for the child."""
        message = messages.parsed(line)
        if message is None:
            return
        method, identifier = message.get("method"), message.get("id")
        if method is None:
            if self._asked.get(key := json.dumps(identifier)) is client:
                del self._asked[key]
                self._write(line + b"\n")
        elif not isinstance(method, str):
            return
        elif identifier is None:
            self._client_notifies(client, message, method, line)
        elif method in (DISCOVER, INITIALIZE):
            self._introduce(client, message, method)
        elif len(self._requests) >= MOST_REQUESTS:
            client.send(messages.error(identifier, messages.TOO_LONG, f"{MOST_REQUESTS} requests wait for answers"))
        else:
            token = messages.part(message, "params", "_meta", "progressToken")
            number = self._add(Request(client, identifier, method, token, time.monotonic()))
            message["id"] = number
            if token is not None:
                message["params"]["_meta"]["progressToken"] = number
            self._write(messages.encoded(message))

    def _client_notifies(self, client: Client, message: dict[str, Any], method: str, line: bytes) -> None:
        if method == "notifications/cancelled":
            wanted = messages.part(message, "params", "requestId")
            for number, request in self._requests.items():
                if request.client is client and request.identifier == wanted:
                    self._cancel(number, message["params"])
                    return
        elif method != "notifications/initialized":  # sent already
            self._write(line + b"\n")

    def _cancel(self, number: int, params: dict[str, Any]) -> None:
        del self._requests[number]
        self._write(messages.notification("notifications/cancelled", {**params, "requestId": number}))

    def _add(self, request: Request) -> int:
        self._last += 1
        self._requests[self._last] = request
        return self._last

    # ---- the child

    def received(self, lines: list[bytes], skipped: int) -> float:
        """Lines of the child, and the number of bytes that were skipped. The seconds until more is to be read."""
        noise = skipped / NOISE_BYTES
        for line in lines:
            if not self._is_answer(line):
                noise += self._other(line)
        return self._noise.use(noise) if noise else 0.0

    def too_long(self, head: bytes, tail: bytes) -> None:
        """An answer that exceeds the limit is an error for who waits for it."""
        found = messages.answered(head) or messages.answered(b'{"result":""' + tail)
        request = self._requests.pop(found[0], None) if found else None
        if request is not None and request.client is not None:
            text = "the answer of the server is longer than 16 MiB"
            request.client.send(messages.error(request.identifier, messages.TOO_LONG, text))

    def _is_answer(self, line: bytes) -> bool:
        if (found := messages.answered(line)) is None:
            return False
        number, start, end = found
        if (request := self._requests.pop(number, None)) is None:
            return False
        if request.client is not None:
            request.client.send(b"%b%b%b\n" % (line[:start], json.dumps(request.identifier).encode(), line[end:]))
        elif (message := messages.parsed(line)) is not None:
            self._introduced(request, message)
        else:
            self._requests[number] = request
        return True

    def _other(self, line: bytes) -> float:
        """Everything but an answer whose id is where most servers write it. What it costs."""
        if _LOG in line[:200] and self._logs.use(1.0) > 0:
            return _DROPPED
        # Parsing a longer one would delay other children; only answers are so long.
        message = messages.parsed(line) if len(line) <= MOST_PARSED else None
        if message is None:
            return 1.0 + len(line) / NOISE_BYTES
        method = message.get("method")
        if method is None:
            self._answer(message)
        elif not isinstance(method, str):
            pass
        elif message.get("id") is not None:
            self._child_asks(message, method, line)
        else:
            self._child_notifies(message, method, line)
        return 1.0 + len(line) / NOISE_BYTES

    def _answer(self, message: dict[str, Any]) -> None:
        identifier = message.get("id")
        if isinstance(identifier, str) and identifier.isdecimal() and len(identifier) < 16:
            identifier = int(identifier)
        request = self._requests.pop(identifier, None) if isinstance(identifier, int) else None
        if request is None or not ("result" in message or "error" in message):
            return
        if request.client is None:
            self._introduced(request, message)
        else:
            request.client.send(messages.encoded({**message, "id": request.identifier}))

    def _child_asks(self, message: dict[str, Any], method: str, line: bytes) -> None:
        identifier = message["id"]
        if method == "ping":
            self._write(messages.encoded({"jsonrpc": "2.0", "id": identifier, "result": {}}))
            return
        callers = {request.client for request in self._requests.values() if _is_call(request) and request.client}
        if len(callers) == 1 and len(self._asked) < MOST_REQUESTS:
            client = callers.pop()
            self._asked[json.dumps(identifier)] = client
            client.send(line + b"\n")
        else:  # there is no one, or it cannot be known who
            self._write(
                messages.error(identifier, messages.METHOD_NOT_FOUND, "Method not found: not exactly one caller")
            )

    def _child_notifies(self, message: dict[str, Any], method: str, line: bytes) -> None:
        params: Any = message.get("params")
        if method == "notifications/progress":
            request = self._request(messages.part(params, "progressToken"))
            if request is not None and request.client is not None and request.token is not None:
                params["progressToken"] = request.token
                request.client.send(messages.encoded(message))
            return
        if method == "notifications/cancelled" and INITIALIZE not in self._answers:
            # In the newer protocol, this ends a subscription.
            if (request := self._request(number := messages.part(params, "requestId"))) and request.client:
                del self._requests[number]
                params["requestId"] = request.identifier
                request.client.send(messages.encoded(message))
            return
        if method == "notifications/cancelled":
            if client := self._asked.pop(json.dumps(messages.part(params, "requestId")), None):
                client.send(line + b"\n")
            return
        if (subscription := messages.part(params, "_meta", messages.SUBSCRIPTION)) is not None:
            if (request := self._request(subscription)) and request.client:
                params["_meta"][messages.SUBSCRIPTION] = request.identifier
                request.client.send(messages.encoded(message))
            return
        for client in tuple(self.clients):
            client.send(line + b"\n")

    def _request(self, number: Any) -> Request | None:
        return self._requests.get(number) if isinstance(number, int) else None


def _is_call(request: Request) -> bool:
    return request.method != "subscriptions/listen"
