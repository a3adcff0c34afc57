"""Line framing: splits input into lines, parses each strictly as one message, serializes output.

Works on bytes only. An unreadable line becomes an error response, since its sender may be waiting for one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError
from pydantic_core import to_json

from tools_app.text import json_text
from tools_app.text.json_text import CharacterError, JsonError

MAX_LINE: Final = 4 * 1024 * 1024
# The request id is not searched for in longer lines that are refused.
MOST_SCANNED: Final = 64 * 1024


class InvalidMessage(Exception):
    """A line that is not a message; `answer` is the error response."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


class CachedItems(list[dict[str, Any]]):
    """Items of a list that many responses contain: they are serialized once."""

    @cached_property
    def json(self) -> bytes:
        return to_json(list(self))


class LineBuffer:
    """Splits a stream into lines and buffers at most one line of the maximum length."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The completed lines; None for one that is too long and was dropped."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ends:
            if not self._skipping:
                line = self._complete_line(piece)
                if line is None or not (line == b"" or line.isspace()):
                    lines.append(line)
            self._skipping = False
        if not self._skipping:
            if len(self._rest) + len(rest) > self._limit:
                # Reported now: the end of the line may never come.
                self._rest.clear()
                self._skipping = True
                lines.append(None)
            else:
                self._rest += rest
        return lines

    def end(self) -> list[bytes | None]:
        """The rest at the end of input: the last line may lack a newline."""
        return self.feed(b"\n")

    def _complete_line(self, piece: bytes) -> bytes | None:
        if len(self._rest) + len(piece) > self._limit:
            self._rest.clear()
            return None
        if self._rest:
            piece = bytes(self._rest) + piece
            self._rest.clear()
        return piece


def too_long() -> InvalidMessage:
    return InvalidMessage(INVALID_REQUEST, f"Invalid request: a message may have at most {MAX_LINE:,} bytes")


def read(line: bytes) -> JSONRPCMessage:
    """The message in a line.

    Raises:
        InvalidMessage: not JSON, or not a JSON-RPC message.
    """
    try:
        value = json_text.parsed(line)
    except JsonError as error:
        request_id = _id_in(line) if isinstance(error, CharacterError) else None
        raise InvalidMessage(PARSE_ERROR, f"Parse error: {error}", request_id) from error
    if isinstance(value, list):
        raise InvalidMessage(INVALID_REQUEST, "Invalid request: batches are not supported, send one message a line")
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, "Invalid request: a message is a JSON object")
    try:
        return _kind_of(value).model_validate(value, by_name=False)
    except ValidationError as error:
        raise InvalidMessage(INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message", _id_of(value)) from error


def write(message: JSONRPCMessage) -> bytes:
    """The line for a message."""
    if isinstance(message, JSONRPCResponse):
        return response(message.id, message.result) + b"\n"
    # Unset fields are omitted: JSON-RPC has no `"params": null`.
    return encode(message.model_dump(by_alias=True, exclude_unset=True)) + b"\n"


def response(request_id: RequestId, result: dict[str, Any]) -> bytes:
    """The response to a request, without newline."""
    items = result.get("tools")
    if not isinstance(items, CachedItems):
        return encode({"jsonrpc": "2.0", "id": request_id, "result": result})
    rest = to_json({name: value for name, value in result.items() if name != "tools"})[1:-1]
    head = to_json({"jsonrpc": "2.0", "id": request_id})[:-1]
    return b'%b,"result":{"tools":%b%b%b}}' % (head, items.json, b"," if rest else b"", rest)


def error(request_id: RequestId, data: ErrorData) -> bytes:
    wire_error = data.model_dump(by_alias=True, exclude_none=True)
    return encode({"jsonrpc": "2.0", "id": request_id, "error": wire_error})


def notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method} | ({"params": params} if params is not None else {}))


def encode(value: dict[str, Any]) -> bytes:
    """A message as JSON, for any content."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:
        # A lone surrogate from an upstream, or a value that is not JSON.
        return json.dumps(value, ensure_ascii=False, default=str).encode(errors="replace")


def _id_in(line: bytes) -> RequestId | None:
    """The id of a request that is refused for an invalid character: models write those, and the sender waits for it."""
    if len(line) > MOST_SCANNED:
        return None
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return _id_of(value) if isinstance(value, dict) else None


def _id_of(value: dict[str, Any]) -> RequestId | None:
    request_id = value.get("id") if "method" in value else None
    if isinstance(request_id, str) and request_id.isprintable():
        return request_id
    if isinstance(request_id, int) and not isinstance(request_id, bool) and abs(request_id) < 2**63:
        return request_id
    return None


def _kind_of(value: dict[str, Any]) -> type[JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError]:
    if "method" in value:
        return JSONRPCRequest if "id" in value else JSONRPCNotification
    return JSONRPCError if "error" in value else JSONRPCResponse
