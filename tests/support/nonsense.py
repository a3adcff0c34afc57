"""What no honest client sends: lines that are kept, and any number that chance makes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp_types import JSONRPCRequest

from tests.support.agents import MODERN, PREFIX
from tools_app.mcp_server import frames
from tools_app.mcp_server.frames import InvalidMessage


@dataclass(frozen=True)
class Nasty:
    """A line, and the error that it deserves."""

    what: str
    line: bytes
    code: int
    request_id: int | str | None


def _stored() -> list[Nasty]:
    found = json.loads(Path(__file__).with_name("nasty_lines.json").read_text())
    # Bytes that are no UTF-8 are kept as the characters of the same numbers.
    return [Nasty(each["what"], each["line"].encode("latin-1"), each["code"], each["id"]) for each in found]


STORED: Final = _stored()

ODD: Final[list[Any]] = [
    *(None, True, False, 0, -1, 2**53, -(2**63), 10**30, 0.1, -0.0, 1e308),
    *("", " ", "\0", "\n", "\u2028", "é😀", "\ud800", "\x1b[2J", "x" * 1000, "../../etc/passwd", "%00", "1", "null"),
    *([], [[]], [None] * 50, {}, {"": None}, {"a": {"b": [1]}}, {"__proto__": 1}, {"$ref": "#"}, {"_meta": {}}),
]
KEYS: Final = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "name",
    "arguments",
    "_meta",
    "cursor",
    "uri",
    "😀",
]
METHODS: Final = [
    *(
        "ping",
        "initialize",
        "server/discover",
        "tools/list",
        "tools/call",
        "tools/burn",
        "",
        "\n",
        "tools/list ",
        "ping\0",
    ),
    *(
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "resources/subscribe",
        "prompts/list",
        "prompts/get",
    ),
    *("completion/complete", "logging/setLevel", "tasks/get", "tasks/list", "sampling/createMessage", "roots/list"),
    *("notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/nothing"),
]
TOOLS: Final = ["echo", "calculate", "count", "crash", "nobody_has_this", "", "Echo", "écho", "e" * 200]


class Nonsense:
    """Messages of one era, made wrong; the same ones for the same seed.

    No id is used twice, except where that is the point, and none that is under way is cancelled: whatever is a request
    must be answered.
    """

    def __init__(self, era: str, seed: int) -> None:
        self._era = era
        self._chance = random.Random(seed)
        self._number = 0

    def lines(self, count: int) -> Iterator[bytes]:
        ways: list[Callable[[], bytes]] = [
            self._message,
            self._message,
            self._message_made_wrong,
            self._message_made_wrong,
            self._bytes_made_wrong,
            self._nested,
            self._twice,
            lambda: self._chance.choice(STORED).line,
            lambda: self._chance.randbytes(self._chance.randrange(1, 200)),
        ]
        for _ in range(count):
            yield self._chance.choice(ways)().replace(b"\n", b" ")

    def _valid(self) -> dict[str, Any]:
        self._number += 1
        method = self._chance.choice(METHODS)
        params: dict[str, Any] = {}
        if self._chance.random() < 0.5:
            method = "tools/call"
            given = {"message": self._odd(), "n": self._odd(), "operation": "add", "a": self._odd(), "b": 1}
            params = {"name": self._chance.choice(TOOLS), "arguments": given}
        elif self._chance.random() < 0.5:
            params = {self._chance.choice(KEYS): self._odd()}
        if self._era == MODERN:
            own = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
            params["_meta"] = own
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = self._number if self._chance.random() < 0.5 else f"nonsense-{self._number}"
        return message

    def _message(self) -> bytes:
        return self._written(self._valid())

    def _message_made_wrong(self) -> bytes:
        """Some part of it is left out, exchanged, or has company."""
        message = self._valid()
        for _ in range(self._chance.randrange(1, 4)):
            part = message
            while (
                inner := [value for value in part.values() if isinstance(value, dict)]
            ) and self._chance.random() < 0.6:
                part = self._chance.choice(inner)
            key = self._chance.choice([*part, self._chance.choice(KEYS)])
            if self._chance.random() < 0.3:
                part.pop(key, None)
            elif part is not message or key != "id":
                part[key] = self._odd()
            else:
                # Of its own number, or none that could be anybody's.
                part[key] = self._chance.choice([None, True, 1.5, [], {}, "", f"odd-{self._number}", -self._number])
        return self._written(message)

    def _bytes_made_wrong(self) -> bytes:
        line = bytearray(self._message())
        for _ in range(self._chance.randrange(1, 4)):
            at = self._chance.randrange(len(line))
            end = at + self._chance.randrange(1, 20)
            match self._chance.randrange(4):
                case 0:
                    line[at] = self._chance.randrange(256)
                case 1:
                    line[at:end] = b""
                case 2:
                    line[at:at] = self._chance.randbytes(3)
                case 3:
                    line[at:at] = line[at:end]
            if not line:
                return b"{"
        return bytes(line)

    def _nested(self) -> bytes:
        depth = self._chance.choice([10, 60, 64, 65, 200, 2000])
        opened, closed = self._chance.choice([("[", "]"), ('{"a":', "}")])
        self._number += 1
        head = f'{{"jsonrpc":"2.0","id":"deep-{self._number}","method":"tools/list","params":{{"cursor":'
        return f"{head}{opened * depth}1{closed * depth}}}}}".encode()

    def _twice(self) -> bytes:
        """A request under an id that was used before, and maybe still is."""
        message = self._valid()
        if "id" in message:
            message["id"] = self._chance.randrange(1, self._number + 1)
        return self._written(message)

    def _odd(self) -> Any:
        return copy.deepcopy(self._chance.choice(ODD))

    def _written(self, message: dict[str, Any]) -> bytes:
        return json.dumps(message, ensure_ascii=self._chance.random() < 0.5).encode(errors="surrogatepass")


def answered_as(line: bytes) -> str | None:
    """The id, as JSON, under which a line must be answered, once; None where it must not be."""
    if not line.strip():
        return None
    try:
        message = frames.read(line)
    except InvalidMessage as fault:
        return json.dumps(fault.answer.id)
    return json.dumps(message.id) if isinstance(message, JSONRPCRequest) else None
