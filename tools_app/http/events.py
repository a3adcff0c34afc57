"""Logging of requests: URL and response size at DEBUG, response bodies at TRACE.

URLs and bodies contain input of callers: above DEBUG only the host is logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tools_app.http.bodies import text
from tools_app.sdk.levels import TRACE
from tools_app.text import redaction

if TYPE_CHECKING:
    import httpx

    from tools_app.http.responses import UpstreamRefusal, UpstreamRequest
    from tools_app.http.secrecy import Secrets
    from tools_app.sdk.errors import ToolError

log = logging.getLogger("tools_app.http")

MOST_TRACED: Final = 64 * 1024
# Number of characters that fit into a log line, whatever they are.
_PART: Final = 1_500
_BINARY: Final = 1_000


def request_sent(request: httpx.Request, secrets: Secrets) -> None:
    if log.isEnabledFor(logging.DEBUG):
        url = secrets.hidden_in(str(request.url))
        log.debug("Sending HTTP request", extra={"method": request.method, "url": url})


def request_ended(request: httpx.Request, response: httpx.Response | None, size: int, seconds: float) -> None:
    """The end of a request, with the `size` of its body after decompression."""
    if log.isEnabledFor(logging.DEBUG):
        status = response.status_code if response is not None else "no response"
        about = {"method": request.method, "host": request.url.host, "status": status}
        log.debug("HTTP response", extra={**about, "bytes": size, "ms": round(seconds * 1000)})


def body(content: bytes, content_type: str, secrets: Secrets) -> None:
    """Log a whole body in several lines. Secrets are masked before it is split, so that no part of one remains."""
    if not log.isEnabledFor(TRACE):
        return
    if b"\x00" in content[:_BINARY]:
        log.log(TRACE, "HTTP response body: %d bytes of binary data", len(content))
        return
    # Slightly more than is logged, so that no secret is split before it is masked.
    masked = secrets.masked_in(text(content[: MOST_TRACED + _PART], content_type))
    masked = redaction.redacted_beginning(masked, MOST_TRACED)
    parts = [masked[start : start + _PART] for start in range(0, len(masked), _PART)]
    for number, part in enumerate(parts, 1):
        log.log(TRACE, "HTTP response body %d/%d: %s", number, len(parts), part)
    if len(content) > MOST_TRACED:
        log.log(TRACE, "HTTP response body: truncated, it has %d bytes", len(content))


def no_response(upstream_request: UpstreamRequest, request: httpx.Request, error: ToolError, secrets: Secrets) -> None:
    """Log a request without a usable response."""
    cause = error.__cause__
    behind = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    _log_failure(upstream_request, request, error.log_level, secrets.hidden_in(f"{error.message}{behind}"))


def request_refused(request: httpx.Request, refusal: UpstreamRefusal) -> None:
    """Log a server error (5xx). Other refusals are in the log line of the call."""
    if refusal.status >= 500:
        _log_failure(refusal.request, request, logging.ERROR, f"HTTP {refusal.status}")


def _log_failure(upstream_request: UpstreamRequest, request: httpx.Request, level: int, error: str) -> None:
    about = {"upstream": upstream_request.upstream, "method": request.method, "host": request.url.host}
    log.log(level, "HTTP request failed", extra={**about, "error": error})
