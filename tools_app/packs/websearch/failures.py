"""Errors of searches, with this pack's messages. Causes are only for the error log and never sent."""

from __future__ import annotations

import logging
from typing import Final

from tools_app.packs.websearch import settings
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    Problem,
    ToolError,
    ToolTimeoutError,
    UpstreamError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
    UpstreamValidationError,
)

log: Final = logging.getLogger("tools_app.packs.websearch")

NOT_FETCHED: Final = "Failed to fetch search results. Please try again later."
PAGE_UNREADABLE: Final = "Failed to parse search results. The page structure may have changed."
ANSWER_UNREADABLE: Final = "Failed to parse API response."
TOO_SLOW: Final = "Request timed out. Please try again."
CHALLENGED: Final = "Search provider refused the request (bot challenge). Try again later."
NO_QUERY: Final = "Query must not be empty."

NOTHING_FOUND: Final = "No results found."

OPERATION: Final = "search the web"
# The only error context for callers: responses of engines are for the log.
_CONTEXT: Final = {"operation": OPERATION}
_BEFORE_LONG: Final = "Search less often, and wait some minutes before the next search."
_ANOTHER_ENGINE: Final = "An operator can set WEBSEARCH_SEARXNG_URL to search through their own SearXNG."
_UPDATE: Final = "An operator should check for a newer version of this hub, or set another engine."
_CHECK_SEARXNG: Final = "An operator should check that SearXNG works."
_ENGINES_SILENT: Final = "An operator should check why the engines of SearXNG do not respond."
_NO_JSON: Final = "An operator of SearXNG should add `json` to `search.formats` in its settings.yml."
_NAMES: Final = "An operator should check DNS resolution."
_CERTIFICATES: Final = "An operator should check the certificates between this hub and its search engines."


def unreadable_page(reason: str, page: str = "") -> UpstreamInvalidResponseError:
    log.error("Failed to parse HTML response: %s", reason)
    return UpstreamInvalidResponseError(PAGE_UNREADABLE, detail=f"{reason}\n\n{page}", next_step=_UPDATE)


def unreadable_answer(reason: str) -> UpstreamInvalidResponseError:
    log.error("Failed to parse JSON response: %s", reason)
    return UpstreamInvalidResponseError(ANSWER_UNREADABLE, detail=reason)


def challenged(status: int) -> ApiError:
    """Not retried: that would only prolong the challenge."""
    error = ApiError(CHALLENGED, detail=f"HTTP {status}", context=_CONTEXT, next_step=_search_less())
    error.blames_upstream = False
    return error


def of_duckduckgo(error: ToolError, unreadable: str) -> ToolError:
    return _in_our_words(error, unreadable, _search_less())


def of_searxng(error: ToolError) -> ToolError:
    forbidden = isinstance(error, ApiError) and error.context.get("statusCode") == 403
    return _in_our_words(error, ANSWER_UNREADABLE, _NO_JSON if forbidden else _CHECK_SEARXNG)


def silent_engines(words: str) -> ApiError:
    """SearXNG responded, but none of its engines did."""
    return _refused(200, f"engines that did not answer: {words}", _ENGINES_SILENT)


def no_region(engine: str, region: str, others: str) -> InvalidArgumentsError:
    """The engine would ignore this region without an error."""
    error = InvalidArgumentsError(
        problems=[Problem("/region", f"{engine} has no region {region}", others or "another region")],
        next_step="Use one that it has, or search without region, in the language of the country.",
    )
    error.blames_upstream = False
    return error


def _in_our_words(error: ToolError, unreadable: str, next_step: str) -> ToolError:
    """An HTTP client error with this pack's message. `unreadable` is the message for an invalid response.

    Only network errors are retryable; an engine that responded would respond the same again.
    """
    detail = "\n".join(filter(None, (error.message, _context_of(error), str(error.detail or ""))))
    match error:
        case ToolTimeoutError():
            return ToolTimeoutError(TOO_SLOW, detail=detail)
        case UpstreamInvalidResponseError():
            return UpstreamInvalidResponseError(unreadable, detail=detail)
        case UpstreamTlsError():
            return UpstreamTlsError(NOT_FETCHED, detail=detail, next_step=_CERTIFICATES)
        case ApiError():
            return _refused(error.context.get("statusCode"), detail, next_step, error.retry_after)
        case UpstreamValidationError():
            return _refused(error.status, detail, next_step)
        case UpstreamError():
            return UpstreamUnavailableError(NOT_FETCHED, detail=detail)
    # The URL is ours, so the problem must be its DNS resolution.
    return UpstreamTlsError(NOT_FETCHED, detail=detail, next_step=_NAMES)


def _refused(status: int | None, detail: str, next_step: str, retry_after: float | None = None) -> ApiError:
    """An engine refused the request."""
    error = ApiError(NOT_FETCHED, detail=detail, context=_CONTEXT, next_step=next_step, retry_after=retry_after)
    error.retryable = False
    error.blames_upstream = status is None or status >= 500
    return error


def _context_of(error: ToolError) -> str:
    """The status and the upstream's message from the error's context."""
    return ", ".join(f"{name}: {value}" for name, value in error.context.items() if value is not None)


def _search_less() -> str:
    """The next step after a refusal; suggests another engine, if none is set yet."""
    return _BEFORE_LONG if settings.current().searxng_url else f"{_BEFORE_LONG} {_ANOTHER_ENGINE}"
