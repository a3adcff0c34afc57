"""Rate limits of REST requests: counted before the request is processed, reported in response headers."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tools_app.access import limits
from tools_app.access.limits import Standing
from tools_app.sdk.context import Caller

HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


def count_caller(request: HttpRequest, caller: Caller) -> None:
    """Raises: RateLimitError."""
    _check(request, limits.count_caller(caller))


def count_stranger(request: HttpRequest) -> None:
    """Raises: RateLimitError."""
    _check(request, limits.count_stranger(request.META.get("REMOTE_ADDR", "")))


def add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Report the rate limit that the request counted against."""
    standing: Standing | None = getattr(request, "_toolhub_standing", None)
    if standing is not None:
        for name, value in zip(HEADERS, (standing.limit, standing.remaining, standing.reset), strict=True):
            response.headers[name] = str(value)


def _check(request: HttpRequest, standing: Standing | None) -> None:
    if standing is not None:
        request._toolhub_standing = standing  # type: ignore[attr-defined]
        standing.check()
