"""Fields of log records, for code that logs; `logs` has the handlers that write them."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any, Final

from tools_app.text.redaction import one_line_json, redacted

# The id of the current call, added to every log record.
call_id: ContextVar[str] = ContextVar("call_id", default="")
# Method and path of the current REST request, for the log line of a failed call.
request: ContextVar[tuple[str, str]] = ContextVar("request", default=("", ""))

# Names that an extra field of a record cannot have.
RESERVED: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "call_id", "trace_id", "taskName", "exc_info", "exc_text"}
    | {"color_message"}  # uvicorn's message once more, with colours
)


def compact(value: Any) -> str:
    """JSON-like data for a log line: on one line, of bounded size, without secrets."""
    return one_line_json(redacted(value))
