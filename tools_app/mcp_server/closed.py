"""The stdio server of a hub that cannot start: every request gets an error with the reason.

Users of an agent see only what comes over the protocol, rarely stderr. Imports only the standard library, since Django
or the settings may be broken.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Final, Never

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
# A longer line gets a parse error.
LONGEST: Final = 1024 * 1024


def refuse(readable: int, writable: int, reason: str) -> None:
    """Answer every request with the error `why`, until the client disconnects or a signal arrives."""
    if os.isatty(readable):
        return  # A person at a terminal has read it on stderr.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    for descriptor in (readable, writable):
        os.set_blocking(descriptor, True)
    incomplete_line = b""
    try:
        while data := os.read(readable, 65536):
            *lines, incomplete_line = (incomplete_line + data).split(b"\n")
            for line in lines:
                _send(writable, _answer(line, reason))
            if len(incomplete_line) > LONGEST:
                incomplete_line = incomplete_line[:1]  # Enough to fail as JSON.
        _send(writable, _answer(incomplete_line, reason))
    except OSError:
        return  # The client has disconnected.


def _answer(line: bytes, reason: str) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "Parse error")
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "Invalid request: a message is a JSON object")
    if "method" not in message or "id" not in message:
        return None
    request_id = message["id"]
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return _error(None, INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message")
    return _error(request_id, INTERNAL_ERROR, f"ToolHub cannot be used: {reason}")


def _error(request_id: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _send(writable: int, answer: dict[str, Any] | None) -> None:
    if answer is not None:
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(writable, data) :]


def _leave(*_: object) -> Never:
    raise SystemExit(0)
