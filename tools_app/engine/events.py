"""Log lines of calls: their start and their outcome.

At INFO and above no argument is logged, except those that the tool declares with `logged`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools_app.base import conf, log_fields
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InternalError, ToolError, ToolExecutionError
from tools_app.sdk.spec import ToolSpec
from tools_app.text import hygiene

log = logging.getLogger("tools_app.calls")

MOST_CAUSES: Final = 5
MOST_OF_CAUSE: Final = 500


def logged(spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may be logged. An empty text among them logs a warning: it is a mistake of the caller."""
    items = {name: arguments[name] for name in spec.logged if name in arguments}
    for name, value in items.items():
        if isinstance(value, str) and not hygiene.cleaned(value).strip():
            log.warning("Empty %s received", name, extra={"tool": spec.name})
    return {} if conf.value("TOOLHUB_PAYLOADS") == "none" else items


def invoked(call: Call, caller: Caller, items: Mapping[str, Any]) -> None:
    log.info("Tool invoked", extra={**_fields(items), "tool": call.tool_name, "caller": str(caller), "door": call.door})


def completed(call: Call, size: int, items: Mapping[str, Any]) -> None:
    fields = {"tool": call.tool_name, "ms": call.duration_ms, "bytes": size}
    log.info("Tool completed", extra={**_fields(items), **fields})


def failed(error: ToolError, call: Call, caller: Caller) -> None:
    """Log everything that an operator needs to find a reported call, and the cause of its failure."""
    foreseen = not isinstance(error, ToolExecutionError | InternalError)
    bug = error.detail if isinstance(error.detail, BaseException) and not foreseen else None
    method, path = log_fields.request.get()
    log.log(
        error.log_level,
        "[%s] Error: %s %s",
        call.tool_name,
        error.code,
        error.message,
        extra={
            "error_id": error.error_id,
            "call_id": call.id,
            "caller": str(caller),
            "door": call.door,
            "method": method or None,
            "path": path or None,
            "status": error.status,
            "context": error.context or None,
            "cause": None if bug else " < ".join(_causes(error)) or None,
        },
        exc_info=bug,
    )


def _fields(items: Mapping[str, Any]) -> dict[str, Any]:
    # Python's logging raises if a field has the name of one of its own.
    return {f"{name}_" if name in log_fields.RESERVED else name: value for name, value in items.items()}


def _causes(error: ToolError) -> Iterator[str]:
    """The chain of exceptions. An upstream's answer is in the error log only: it may repeat the arguments."""
    cause = error.detail if isinstance(error.detail, BaseException) else error.__cause__
    visited: set[int] = set()
    while cause is not None and id(cause) not in visited and len(visited) < MOST_CAUSES:
        visited.add(id(cause))
        context = f" {log_fields.compact(cause.context)}" if isinstance(cause, ToolError) and cause.context else ""
        yield f"{type(cause).__name__}: {cause}"[:MOST_OF_CAUSE] + context[:MOST_OF_CAUSE]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
