"""Removes what an agent must not see of n8n's data: tokens that resume executions, headers of requests, stack traces.

The signed URL of a waiting execution lets anyone resume it; the headers of a webhook's request contain a visitor's
cookies and keys.
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
# n8n's metadata of an error; the node is shown elsewhere in the answer.
_BOOKKEEPING: Final = frozenset(
    {"stack", "node", "level", "shouldReport", "tags", "functionality", "extra", "timestamp"}
)
# Where HTTP libraries put the failed request in an error, and parts of it elsewhere in the error.
_REQUESTS: Final = frozenset({"request", "config", "options"})
_OF_REQUESTS: Final = frozenset({"headers", "rawheaders", "auth", "authorization", "cookie", "set-cookie"})
# URLs that resume an execution or fetch a file, plain or embedded in another URL. Repetitions are bounded here and
# below against catastrophic backtracking: a text of 10 MB may consist of beginnings of such URLs.
_SIGNED: Final = re.compile(
    r"((?:/|%2[Ff])(?:(?:webhook|form)-waiting(?:\\?/|%2[Ff])"
    r"[^\s?#\"'<>%]{0,100}+(?:%(?!3[Ff])[^\s?#\"'<>%]{0,100}+){0,8}+|binary-data(?:\\?/|%2[Ff])signed))"
    r"(?:\?|%3[Ff])[^\s#\"'<>]*"
)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_FRAME: Final = re.compile(r"\n[ \t]{1,40}at [^\n]+")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+[^\n]*(?:\n|$))*")
# What a webhook node outputs of its request, apart from the headers.
_REQUEST: Final = frozenset({"params", "query", "body"})
_NOTHING: Final[frozenset[str]] = frozenset()


def without_secrets(value: Any, secrets: frozenset[str] = _NOTHING) -> Any:
    """The value without secrets. `secrets`: texts to replace wherever they occur."""
    if isinstance(value, str):
        return _text(value, secrets)
    if isinstance(value, list):
        return [without_secrets(each, secrets) for each in value]
    if not isinstance(value, Mapping):
        return value
    if _is_error(value):
        return error_of(value, secrets)
    hook = "webhookUrl" in value or value.keys() >= _REQUEST
    request = hook or _is_request(value)
    result = {
        _text(key, secrets): _shown_value(key, each, secrets, request=request)
        for key, each in value.items()
        if (key not in _NEVER or key in _RESUMES) and not (key == "stack" and _is_stack(each))
    }
    # The request that resumes an execution has its signature in the query.
    if hook and isinstance(query := result.get("query"), dict) and _SIGNATURE.fullmatch(str(query.get("signature"))):
        result["query"] = {key: each for key, each in query.items() if key != "signature"}
    return result


def _shown_value(key: str, value: Any, secrets: frozenset[str], *, request: bool) -> Any:
    """Secrets are replaced by a marker: without it an agent would think that the value is missing."""
    if key in _RESUMES:
        return HIDDEN if value else value
    if request and key in ("headers", "rawHeaders"):
        # The names of the headers are no secret, and often needed.
        return {_text(name, secrets): HIDDEN for name in value} if isinstance(value, Mapping) else HIDDEN
    return without_secrets(value, secrets)


def error_of(error: Any, secrets: frozenset[str] = _NOTHING) -> Any:
    """An error without its stack trace, request headers, and the node with its parameters."""
    if isinstance(error, str):
        return _text(without_stack(error), secrets)
    if isinstance(error, list):
        return [error_of(each, secrets) for each in error]
    if not isinstance(error, Mapping):
        return error
    fields = {
        _text(key, secrets): _request(each, secrets)
        if key in _REQUESTS and isinstance(each, Mapping)
        else error_of(each, secrets)
        for key, each in error.items()
        if key not in _NEVER and key not in _BOOKKEEPING and key.lower() not in _OF_REQUESTS
    }
    return {key: each for key, each in fields.items() if each not in (None, "", [], {})}


def without_stack(text: str) -> str:
    return _TRACEBACK.sub("", _FRAME.sub("", text)) if "\n" in text else text


def without_signatures(text: str) -> str:
    return _SIGNED.sub(r"\1", text) if "-waiting" in text or "binary-data" in text else text


def signature(address: Any) -> str:
    """The signature in a URL that resumes an execution; empty if there is none."""
    match = re.search(r"[?&]signature=([^&#]+)", address) if isinstance(address, str) else None
    return match[1] if match else ""


def readable(value: _Value) -> _Value:
    """The value without lone surrogates, which scripts leave when they cut an emoji: they cannot be encoded."""
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


def _text(text: str, secrets: frozenset[str]) -> str:
    text = without_signatures(text)
    for secret in secrets:
        text = text.replace(secret, "…")
    return _whole(text)


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _request(request: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """A failed request: only its method and URL, as query and body may contain keys."""
    address = request.get("uri") or request.get("url")
    parts = {"method": request.get("method"), "uri": str(address).partition("?")[0] if address else None}
    return {key: error_of(value, secrets) for key, value in parts.items() if value}


def _is_error(value: Mapping[str, Any]) -> bool:
    """Whether data is an error with stack or request: nodes that are set to continue pass errors on like that."""
    return isinstance(value.get("message"), str) and (
        _is_stack(value.get("stack")) or any(_is_request(value.get(key)) for key in _REQUESTS)
    )


def _is_request(value: Any) -> bool:
    return isinstance(value, Mapping) and "method" in value and ("url" in value or "uri" in value)


def _is_stack(value: Any) -> bool:
    return isinstance(value, str) and (_FRAME.search(value) is not None or _TRACEBACK.search(value) is not None)
