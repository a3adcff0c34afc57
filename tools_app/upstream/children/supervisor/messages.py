"""JSON-RPC messages as bytes: the id of an answer is replaced without reading the rest of it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

METHOD_NOT_FOUND: Final = -32601
# The code that MCP libraries use for a connection that has ended: whether the request was executed is unknown.
CONNECTION_CLOSED: Final = -32000
TOO_LONG: Final = -32603
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID: Final = rb'"id"\s*:\s*(\d{1,15})'
_ANSWER: Final = rb'"(?:result|error)"\s*:'
# At the beginning of a line, or at its end, an id can only be that of the message, and not of something in it.
_FIRST: Final = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ANSWER
)
_LAST: Final = re.compile(rb",\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"(?:\s*,\s*" + _VERSION + rb")?\s*\}\s*\Z")
_BEGINS_AS_ANSWER: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ANSWER)
_END: Final = 120


def answered(line: bytes) -> tuple[int, int, int] | None:
    """Which of our requests a line answers, and where its id begins and ends. None: to be parsed."""
    if found := _FIRST.match(line):
        return int(found[1]), *found.span(1)
    if _BEGINS_AS_ANSWER.match(line):
        cut = max(0, len(line) - _END)
        if found := _LAST.search(line[cut:]):
            return int(found[1]), found.start(1) + cut, found.end(1) + cut
    return None


def parsed(line: bytes) -> dict[str, Any] | None:
    """A message, or None if the line is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def request(number: int, method: str, params: Any) -> bytes:
    return encoded({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: Any) -> bytes:
    return encoded({"jsonrpc": "2.0", "method": method, "params": params})


def error(identifier: Any, code: int, text: str) -> bytes:
    return encoded({"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": text}})


def part(value: Any, *names: str) -> Any:
    """A value within objects; None if it is not there."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
