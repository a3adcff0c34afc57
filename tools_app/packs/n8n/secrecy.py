"""What n8n tells and an agent must not know: tokens that resume executions, headers of requests, stacks.

Whoever has the address of a waiting execution, with its signature, can go on with it; the headers of a webhook's
request are a visitor's, with cookies and keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

_Value = TypeVar("_Value")
HIDDEN: Final = "(hidden)"
_RESUMES: Final = frozenset({"resumeToken", "resumeUrl", "resumeFormUrl"})
_NEVER: Final = _RESUMES | {"defaultHeaders", "runtimeData"}
# What n8n notes of an error for itself; the node is shown beside it.
_BOOKKEEPING: Final = frozenset(
    {"stack", "node", "level", "shouldReport", "tags", "functionality", "extra", "timestamp"}
)
# Where libraries put the request that failed, and what of it lies elsewhere in an error.
_REQUESTS: Final = frozenset({"request", "config", "options"})
_OF_REQUESTS: Final = frozenset({"headers", "rawheaders", "auth", "authorization", "cookie", "set-cookie"})
# Addresses that let whoever has them resume an execution or fetch a file, as they are, and within other addresses.
# How far is looked is bounded here and below: a text of ten megabytes may be nothing but beginnings of these.
_SIGNED: Final = re.compile(
    r"((?:/|%2[Ff])(?:(?:webhook|form)-waiting(?:\\?/|%2[Ff])"
    r"[^\s?#\"'<>%]{0,100}+(?:%(?!3[Ff])[^\s?#\"'<>%]{0,100}+){0,8}+|binary-data(?:\\?/|%2[Ff])signed))"
    r"(?:\?|%3[Ff])[^\s#\"'<>]*"
)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_FRAME: Final = re.compile(r"\n[ \t]{1,40}at [^\n]+")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+[^\n]*(?:\n|$))*")
# What a webhook passes on of its request, beside the headers.
_REQUEST: Final = frozenset({"params", "query", "body"})
_NOTHING: Final[frozenset[str]] = frozenset()


def stripped(value: Any, hidden: frozenset[str] = _NOTHING) -> Any:
    """The same, less what must not be told. `hidden`: texts that are secrets wherever they stand."""
    if isinstance(value, str):
        return _text(value, hidden)
    if isinstance(value, list):
        return [stripped(each, hidden) for each in value]
    if not isinstance(value, Mapping):
        return value
    if _is_error(value):
        return error_of(value, hidden)
    hook = "webhookUrl" in value or value.keys() >= _REQUEST
    request = hook or _is_request(value)
    shown = {
        _text(key, hidden): _shown_value(key, each, hidden, request=request)
        for key, each in value.items()
        if (key not in _NEVER or key in _RESUMES) and not (key == "stack" and _is_stack(each))
    }
    # Who resumes an execution sends its signature along.
    if hook and isinstance(query := shown.get("query"), dict) and _SIGNATURE.fullmatch(str(query.get("signature"))):
        shown["query"] = {key: each for key, each in query.items() if key != "signature"}
    return shown


def _shown_value(key: str, value: Any, hidden: frozenset[str], *, request: bool) -> Any:
    """What is secret under this key leaves a mark: an agent that sees nothing would take it for missing."""
    if key in _RESUMES:
        return HIDDEN if value else value
    if request and key in ("headers", "rawHeaders"):
        # Which headers there were is no secret, and often what is asked for.
        return {_text(name, hidden): HIDDEN for name in value} if isinstance(value, Mapping) else HIDDEN
    return stripped(value, hidden)


def error_of(told: Any, hidden: frozenset[str] = _NOTHING) -> Any:
    """An error as n8n has it, less the stack, the request's headers and the node with its parameters."""
    if isinstance(told, str):
        return _text(without_stack(told), hidden)
    if isinstance(told, list):
        return [error_of(each, hidden) for each in told]
    if not isinstance(told, Mapping):
        return told
    kept = {
        _text(key, hidden): _request(each, hidden)
        if key in _REQUESTS and isinstance(each, Mapping)
        else error_of(each, hidden)
        for key, each in told.items()
        if key not in _NEVER and key not in _BOOKKEEPING and key.lower() not in _OF_REQUESTS
    }
    return {key: each for key, each in kept.items() if each not in (None, "", [], {})}


def without_stack(text: str) -> str:
    return _TRACEBACK.sub("", _FRAME.sub("", text)) if "\n" in text else text


def without_signatures(text: str) -> str:
    return _SIGNED.sub(r"\1", text) if "-waiting" in text or "binary-data" in text else text


def signature(address: Any) -> str:
    """What an address that resumes an execution is signed with; empty where it is not."""
    found = re.search(r"[?&]signature=([^&#]+)", address) if isinstance(address, str) else None
    return found[1] if found else ""


def readable(value: _Value) -> _Value:
    """The same, without halves of characters: scripts cut texts in the middle of emoji, and nobody reads halves."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return cast("_Value", _readable(value))
    return value


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if isinstance(value, Mapping):
        return {_whole(key): _readable(each) for key, each in value.items()}
    return value


def _text(text: str, hidden: frozenset[str]) -> str:
    text = without_signatures(text)
    for secret in hidden:
        text = text.replace(secret, "…")
    return _whole(text)


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _request(told: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    """A request that failed: where it went. A query may hold a key, as may a body."""
    address = told.get("uri") or told.get("url")
    shown = {"method": told.get("method"), "uri": str(address).partition("?")[0] if address else None}
    return {key: error_of(value, hidden) for key, value in shown.items() if value}


def _is_error(value: Mapping[str, Any]) -> bool:
    """An error of a program, among data: nodes that are told to continue pass it on like that."""
    return isinstance(value.get("message"), str) and (
        _is_stack(value.get("stack")) or any(_is_request(value.get(key)) for key in _REQUESTS)
    )


def _is_request(value: Any) -> bool:
    return isinstance(value, Mapping) and "method" in value and ("url" in value or "uri" in value)


def _is_stack(value: Any) -> bool:
    return isinstance(value, str) and (_FRAME.search(value) is not None or _TRACEBACK.search(value) is not None)
