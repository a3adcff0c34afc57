"""Rate limits of REST requests: counted before the request is processed, reported in response headers."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from tools_app.access import limits
from tools_app.access.limits import LimitStatus
from tools_app.sdk.context import Caller

HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


async def count_caller(request: HttpRequest, caller: Caller) -> None:
    """Raises: RateLimitError."""
    _check(request, await limits.count_caller(caller))


async def count_stranger(request: HttpRequest) -> None:
    """Raises: RateLimitError."""
    _check(request, await limits.count_stranger(request.META.get("REMOTE_ADDR", "")))


def add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Report the rate limit that the request counted against."""
    caller = getattr(request, "auth", None)
    if request.method == "GET" and isinstance(caller, Caller) and isinstance(response, HttpResponse):
        limits.count_answer(caller, len(response.content))
    status: LimitStatus | None = getattr(request, "_toolhub_limit_status", None)
    if status is not None:
        for name, value in zip(HEADERS, (status.limit, status.remaining, status.reset), strict=True):
            response.headers[name] = str(value)


def _check(request: HttpRequest, status: LimitStatus | None) -> None:
    if status is not None:
        request._toolhub_limit_status = status  # type: ignore[attr-defined]
        status.check()
