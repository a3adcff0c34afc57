"""Turns exceptions of httpx and error responses of upstreams into `ToolError`s. The only place that does."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import httpx

from tools_app.http.bodies import TooLarge, UnreadableBody
from tools_app.http.network import NotOurOriginError, NotPublicError
from tools_app.http.responses import UpstreamRefusal, UpstreamRequest
from tools_app.sdk import network_errors
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    NotFoundError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
    UpstreamValidationError,
    shortened,
)

MOST_WAIT: Final = 24 * 3600.0
_MOST_WORDS: Final = 10
_MOST_LETTERS: Final = 500
_NOTHING_SENT: Final = (
    "Nothing was sent. Try again later; if the error persists, an operator should check the connection."
)
_BUSY: Final = "Nothing was sent. Call again in a moment, with fewer calls at once."
_LATER: Final = "Try again later; if the error persists, an operator should check the connection."
_LESS: Final = "Request less: fewer items, a smaller page, or a part of it."
_Kind = TypeVar("_Kind", bound=BaseException)
_OPERATOR: Final = "An operator should check the base URL of this connection."
_GONE: Final = re.compile("disconnected|closed", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,100}>([^<]{1,300})", re.IGNORECASE)

# ---- no answer


def unreachable(error: Exception, request: UpstreamRequest, detail: str) -> ToolError:
    """The error for an exception of the network or the HTTP library."""
    upstream = request.upstream
    causes = list(network_errors.causes(error, hidden=True))
    if _first(causes, NotPublicError):
        return InvalidArgumentsError(
            f"{upstream} is not on the open web", next_step="Only public addresses can be read.", detail=detail
        )
    if _first(causes, NotOurOriginError):
        return UpstreamInvalidResponseError(f"{upstream} can only be reached at its configured address", detail=detail)
    if certificate_error := _first(causes, ssl.SSLCertVerificationError):
        reason = shortened(certificate_error.verify_message or "its certificate is not valid")
        return UpstreamTlsError(
            f"{upstream} has an invalid certificate: {reason}",
            detail=detail,
            next_step="An operator should check the base URL and the certificate of this connection.",
        )
    if insecure := _first(causes, ssl.SSLError):
        reason = shortened((insecure.reason or "the handshake failed").replace("_", " ").lower())
        return UpstreamTlsError(f"{upstream} cannot be reached securely: {reason}", detail=detail, next_step=_OPERATOR)
    if isinstance(error, httpx.ConnectTimeout):
        return _unavailable(request, "does not accept connections", detail, sent=False)
    if isinstance(error, httpx.ConnectError | OSError) and not isinstance(error, httpx.ReadError):
        return _unavailable(request, _why_not_connected(causes), detail, sent=False)
    if isinstance(error, httpx.RemoteProtocolError) and not _GONE.search(str(error)):
        message = f"{upstream} does not respond with valid HTTP"
        return _mark_outcome(UpstreamInvalidResponseError(message, detail=detail, next_step=_OPERATOR), request)
    return _unavailable(request, "closed the connection", detail, sent=True)


def too_slow(request: UpstreamRequest, seconds: float, detail: str, *, sent: bool) -> ToolError:
    context = {"operation": request.operation}
    if not sent:
        busy = ToolTimeoutError(
            f"All connections to {request.upstream} were busy for {round(seconds * 1000)}ms",
            detail=detail,
            context=context,
            next_step=_BUSY,
        )
        busy.nothing_done, busy.blames_upstream = True, False
        return busy
    slow = ToolTimeoutError(
        f"{request.upstream} did not answer within {round(seconds * 1000)}ms",
        detail=detail,
        context=context,
        next_step=_LATER,
    )
    return _mark_outcome(slow, request)


def unreadable(error: UnreadableBody, request: UpstreamRequest, detail: str) -> ToolError:
    """The error for a successful response that cannot be read."""
    too_large = isinstance(error, TooLarge)
    odd = UpstreamInvalidResponseError(
        f"Failed to {request.operation}: the response of {request.upstream} {error}",
        detail=detail,
        context={"operation": request.operation},
        next_step=_LESS if too_large else _OPERATOR,
    )
    # An upstream that sends a large response is healthy.
    odd.blames_upstream = not too_large
    return _mark_outcome(odd, request)


def _unavailable(request: UpstreamRequest, reason: str, detail: str, *, sent: bool) -> ToolError:
    # `Network error` is required by the requirements, whose tests look for it.
    error = UpstreamUnavailableError(
        f"Network error: {request.upstream} {reason}",
        detail=detail,
        context={"operation": request.operation},
        next_step=_LATER if sent else _NOTHING_SENT,
    )
    if sent:
        return _mark_outcome(error, request)
    error.nothing_done = True
    return error


def _mark_outcome(error: ToolError, request: UpstreamRequest) -> ToolError:
    """Mark the outcome of a write as unknown: the upstream may have executed it."""
    if request.writes:
        error.leave_outcome_open()
    return error


def _why_not_connected(causes: list[BaseException]) -> str:
    if dns_error := _first(causes, socket.gaierror):
        if dns_error.errno == socket.EAI_AGAIN:
            return "cannot be found now: the DNS lookup of its host name failed"
        return "cannot be found: its host name has no address"
    if _first(causes, ConnectionRefusedError):
        return "refuses connections"
    reason = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
    return f"cannot be reached ({reason.lower()})" if reason else "cannot be reached"


def _first(causes: list[BaseException], kind: type[_Kind]) -> _Kind | None:
    return next((cause for cause in causes if isinstance(cause, kind)), None)


# ---- an answer that says no


def refusal(refusal: UpstreamRefusal) -> ToolError:
    """The error for a status code, unless the pack has a more specific one."""
    request, status = refusal.request, refusal.status
    if status == 404 and request.resource and request.resource_id:
        context = {"operation": request.operation, "resourceType": request.resource, "resourceId": request.resource_id}
        message = f"{request.resource} '{shortened(request.resource_id)}' not found"
        return NotFoundError(message, detail=refusal.detail, context=context)
    if status == 422:
        message = ", ".join(refusal.reasons) or f"{request.upstream} did not accept the values"
        return UpstreamValidationError(message, detail=refusal.detail)
    message, next_step = _in_words(refusal)
    return ApiError(
        message,
        detail=refusal.detail,
        context=request.context(statusCode=status, errorDetails=", ".join(refusal.reasons) or None),
        next_step=next_step,
        retry_after=refusal.retry_after,
    )


def _in_words(refusal: UpstreamRefusal) -> tuple[str, str]:
    request, upstream = refusal.request, refusal.request.upstream
    match refusal.status:
        case 301 | 302 | 303 | 307 | 308:
            target = shown_target(refusal.headers.get("location", ""))
            return (
                f"Failed to {request.operation}: {upstream} redirects to {target}, which is not followed",
                "The base URL of this connection is probably wrong: an operator should check it.",
            )
        case 401:
            return (
                f"Authentication failed: {upstream} does not accept the key of this connection",
                "An operator should check the key of this connection.",
            )
        case 403:
            return (
                f"Permission denied: {upstream} does not let this connection {request.operation}",
                "An operator can check the permissions of this connection's account.",
            )
        case 404:
            return f"Failed to {request.operation}: {upstream} has nothing at that URL", _OPERATOR
        case 408 | 429 | 502 | 503 | 504:
            return f"Failed to {request.operation}: {upstream} is busy or not available now", "Try again in a moment."
    return f"Failed to {request.operation}", ""


def shown_target(location: str) -> str:
    """The target of a redirect, without credentials and query, which may contain secrets."""
    place = location.partition("?")[0].partition("#")[0]
    scheme, separator, rest = place.partition("://")
    if separator:
        host, slash, path = rest.partition("/")
        place = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    return shortened(place) or "nowhere"


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """The seconds of a `Retry-After`; None if it is missing, invalid or implausibly long."""
    try:
        if value.strip().isdecimal():
            seconds = float(value)
        else:
            then = parsedate_to_datetime(value)
            seconds = ((then if then.tzinfo else then.replace(tzinfo=UTC)) - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, OverflowError):
        return None
    return round(seconds, 1) if 0 <= seconds <= MOST_WAIT else None


def words(body: Any, text: str, content_type: str) -> list[str]:
    """The error messages in an upstream's response, wherever it puts them."""
    if body is None:
        if "html" in content_type.lower() or text.lstrip()[:1] == "<":
            title = _TITLE.search(text)
            messages = [title[1]] if title else []
        else:
            messages = [text]
    else:
        messages = list(_messages(body, 0))
    clean = (shortened(" ".join(message.split()), _MOST_LETTERS) for message in messages)
    return list(dict.fromkeys(message for message in clean if message))[:_MOST_WORDS]


def _messages(body: Any, depth: int) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif depth < 4 and isinstance(body, list):
        for part in body[:_MOST_WORDS]:
            yield from _messages(part, depth + 1)
    elif depth < 4 and isinstance(body, dict):
        if isinstance(body.get("msg"), str):  # {"loc": ["body", "subject"], "msg": "field required"}
            place = body.get("loc")
            yield f"{'.'.join(map(str, place))}: {body['msg']}" if place and isinstance(place, list) else body["msg"]
            return
        message_keys = [key for key in _MESSAGE_KEYS if body.get(key)]
        for key in message_keys:
            yield from _messages(body[key], depth + 1)
        if not message_keys and depth:  # {"subject": ["cannot be blank"]}
            for key, value in list(body.items())[:_MOST_WORDS]:
                yield from (f"{key}: {message}" for message in _messages(value, depth + 1))


_MESSAGE_KEYS: Final = (
    "message",
    "error",
    "error_description",
    "errors",
    "detail",
    "description",
    "title",
    "reason",
    "hint",
)
