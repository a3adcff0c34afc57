"""What n8n tells and an agent must not know: tokens that resume executions, headers of requests, stacks.

Whoever has the address of a waiting execution, with its signature, can go on with it; the headers of a webhook's
request are a visitor's, with cookies and keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NEVER: Final = frozenset({"resumeToken", "resumeUrl", "resumeFormUrl", "defaultHeaders", "runtimeData"})
# What n8n notes of an error for itself; the node is shown beside it.
_BOOKKEEPING: Final = frozenset(
    {"stack", "node", "level", "shouldReport", "tags", "functionality", "extra", "timestamp"}
)
_WAITING: Final = re.compile(r"(/(?:webhook|form)-waiting/[^\s?#\"'<>]*)\?[^\s#\"'<>]*")
_FRAME: Final = re.compile(r"\n\s+at [^\n]+")
# What a webhook passes on of its request, beside the headers.
_REQUEST: Final = frozenset({"params", "query", "body"})


def stripped(value: Any) -> Any:
    """The same, without what must not be told."""
    if isinstance(value, str):
        return _whole(without_signatures(value))
    if isinstance(value, list):
        return [stripped(each) for each in value]
    if isinstance(value, Mapping):
        request = "webhookUrl" in value or value.keys() >= _REQUEST
        return {
            _whole(key): stripped(each)
            for key, each in value.items()
            if key not in _NEVER and not (request and key == "headers") and not (key == "stack" and _is_stack(each))
        }
    return value


def error_of(told: Any) -> Any:
    """An error as n8n has it, less the stack, the request's headers and the node with its parameters."""
    if isinstance(told, str):
        return _whole(without_stack(without_signatures(told)))
    if isinstance(told, list):
        return [error_of(each) for each in told]
    if not isinstance(told, Mapping):
        return told
    kept = {
        key: _request(each) if key == "request" and isinstance(each, Mapping) else error_of(each)
        for key, each in told.items()
        if key not in _NEVER and key not in _BOOKKEEPING
    }
    return {key: each for key, each in kept.items() if each not in (None, "", [], {})}


def without_stack(text: str) -> str:
    return _FRAME.sub("", text) if "\n" in text else text


def without_signatures(text: str) -> str:
    return _WAITING.sub(r"\1", text) if "-waiting/" in text else text


def _whole(text: str) -> str:
    """Scripts cut texts in the middle of emoji. JSON has halves of characters, and nobody who reads it does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _request(told: Mapping[str, Any]) -> dict[str, Any]:
    """A request that failed: where it went. A query may hold a key, as may a body."""
    address = told.get("uri") or told.get("url")
    shown = {"method": told.get("method"), "uri": str(address).partition("?")[0] if address else None}
    return {key: value for key, value in shown.items() if value}


def _is_stack(value: Any) -> bool:
    return isinstance(value, str) and _FRAME.search(value) is not None
