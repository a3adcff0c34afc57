"""What can go wrong with a search, in the words of this pack. Causes are for the error log, and never sent."""

from __future__ import annotations

import logging
from typing import Final

from tools_app.errors import (
    ApiError,
    ToolError,
    ToolTimeoutError,
    UpstreamError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
)

log: Final = logging.getLogger("tools_app.packs.websearch")

NOT_FETCHED: Final = "Failed to fetch search results. Please try again later."
PAGE_UNREADABLE: Final = "Failed to parse search results. The page structure may have changed."
ANSWER_UNREADABLE: Final = "Failed to parse API response."
TOO_SLOW: Final = "Request timed out. Please try again."
CHALLENGED: Final = "Search provider refused the request (bot challenge). Try again later."
NO_QUERY: Final = "Query must not be empty."

OPERATION: Final = "search the web"
_BEFORE_LONG: Final = "Search less often, and not again within some minutes."
_INSTEAD: Final = "An operator can set WEBSEARCH_SEARXNG_URL to search through a SearXNG of their own."
_MENDING: Final = "An operator should see whether there is a newer version of this hub, or set another engine."


def unreadable_page(why: str, page: str = "") -> UpstreamInvalidResponseError:
    log.error("Failed to parse HTML response: %s", why)
    return UpstreamInvalidResponseError(PAGE_UNREADABLE, detail=f"{why}\n\n{page}", next_step=_MENDING)


def unreadable_answer(why: str) -> UpstreamInvalidResponseError:
    log.error("Failed to parse JSON response: %s", why)
    return UpstreamInvalidResponseError(ANSWER_UNREADABLE, detail=why)


def challenged(status: int) -> ApiError:
    """Not tried again: that would only make it last longer."""
    context = {"operation": OPERATION, "statusCode": status}
    return ApiError(CHALLENGED, context=context, next_step=f"{_BEFORE_LONG} {_INSTEAD}")


def in_our_words(error: ToolError, unreadable: str) -> ToolError:
    """An error of the way out, as callers of this pack are told it. `unreadable` is what to say of an odd answer.

    Only what did not arrive is worth another try; an engine that answered would answer the same.
    """
    detail = f"{error.message}\n{error.detail or ''}"
    match error:
        case ToolTimeoutError():
            return ToolTimeoutError(TOO_SLOW, detail=detail)
        case UpstreamInvalidResponseError():
            return UpstreamInvalidResponseError(unreadable, detail=detail)
        case UpstreamTlsError():
            return UpstreamTlsError(NOT_FETCHED, detail=detail, next_step=error.next_step)
        case ApiError():
            return refused(
                error.context.get("statusCode"), error.context.get("errorDetails"), detail, error.retry_after
            )
        case UpstreamError():
            return UpstreamUnavailableError(NOT_FETCHED, detail=detail)
    # The address is ours: whatever is wrong with it is wrong with where its name leads.
    return UpstreamTlsError(NOT_FETCHED, detail=detail, next_step="An operator should check how names are resolved.")


def refused(
    status: int | None, said: str | None = None, detail: object = None, retry_after: float | None = None, cure: str = ""
) -> ApiError:
    """An engine answered that it will not."""
    context = {"operation": OPERATION, "statusCode": status, "errorDetails": said}
    step = cure or f"{_BEFORE_LONG} {_INSTEAD}"
    error = ApiError(NOT_FETCHED, detail=detail, context=context, next_step=step, retry_after=retry_after)
    error.retryable = False
    return error
