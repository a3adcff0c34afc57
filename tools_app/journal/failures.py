"""Rows for the error log: with internal details, and grouped with failures of the same kind."""

from __future__ import annotations

import hashlib
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from tools_app.journal.rows import Failure
from tools_app.models import Call, ErrorGroup, ErrorLog
from tools_app.sdk.errors import ToolError
from tools_app.sdk.places import shown_path
from tools_app.text import redaction

MOST_DETAIL: Final = 64 * 1024
# Read of the exception; less is stored.
MOST_CAUSE: Final = 2_000
_OURS: Final = (str(Path(__file__).parent), str(Path(__file__).parent.parent / "tool.py"))
_TELLING: Final = ("operation", "resourceType", "statusCode", "upstream", "reason", "field")


def failure(error: ToolError, error_id: str, call: Call) -> Failure:
    """The rows of a failure. Sets the error's id. A mistake of the caller is in no group: it is no issue."""
    error.error_id = error_id
    now = datetime.now(UTC)
    message = storable(redaction.redacted_text(error.message), 1000)
    cause = storable(redaction.redacted_beginning(_cause(error), MOST_CAUSE), 300)
    place = storable(_place(error), 300)
    fingerprint = hashlib.sha256(f"{call.tool_name}\n{error.code}\n{place}".encode()).hexdigest()[:32]
    group = ErrorGroup(
        fingerprint=fingerprint,
        tool_name=call.tool_name,
        code=error.code,
        place=place,
        message=message,
        cause=cause,
        count=1,
        first_seen_at=now,
        last_seen_at=now,
        last_call_id=call.id,
    )
    row = ErrorLog(
        id=error_id,
        group_id=None if error.blames_caller else fingerprint,
        call_id=call.id,
        tool_name=call.tool_name,
        door=call.door,
        caller_name=call.caller_name,
        code=error.code,
        message=message,
        cause=cause,
        detail=_detail(error),
        created_at=now,
    )
    return Failure(row, None if error.blames_caller else group)


def storable(text: str, limit: int) -> str:
    """Text that every database accepts: no NUL, no unpaired surrogates."""
    return text[:limit].encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _place(error: ToolError) -> str:
    """The location of the error, stable across unrelated edits: no line numbers, no values."""
    cause = error.detail if isinstance(error.detail, BaseException) else None
    if cause is not None:
        return f"{type(cause).__name__} in {_function(cause.__traceback__)}"
    return " ".join(str(error.context[key]) for key in _TELLING if key in error.context)


def _cause(error: ToolError) -> str:
    """The exception behind an error, in one line as its stack trace has it. Empty if there is none."""
    cause = next((one for one in (error.detail, error.__cause__) if isinstance(one, BaseException)), None)
    if cause is None:
        return ""
    lines = traceback.format_exception_only(cause)
    # After the exception come its notes; before a syntax error, where it is.
    return " ".join((lines[-1] if isinstance(cause, SyntaxError) else lines[0]).split())


def _function(stack: TracebackType | None) -> str:
    """The innermost function of the tool's own package: frames of libraries below it vary."""
    name, package = "?", None
    while stack is not None:
        code = stack.tb_frame.f_code
        module = str(stack.tb_frame.f_globals.get("__name__", ""))
        if not code.co_filename.startswith(_OURS):
            if package is None:
                package = module.partition(".")[0]
            if module.partition(".")[0] == package:
                name = f"{shown_path(code.co_filename, module)} {code.co_qualname}"
        stack = stack.tb_next
    return name


def _detail(error: ToolError) -> str:
    parts: list[str] = []
    if isinstance(error.detail, BaseException):
        parts.extend(traceback.format_exception(error.detail))
    elif error.detail is not None:
        parts.append(str(error.detail))
    if error.__cause__ is not None and error.__cause__ is not error.detail:
        parts.extend(traceback.format_exception(error.__cause__))
    return storable(redaction.redacted_beginning("".join(parts), MOST_DETAIL), MOST_DETAIL)
