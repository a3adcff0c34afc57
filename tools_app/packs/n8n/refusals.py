"""Saying in n8n's words why it did not do something, where those are what somebody needs to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools_app.sdk.errors import UpstreamError


@contextmanager
def in_its_words(operation: str) -> Iterator[None]:
    """`Failed to activate workflow: There is a conflict with one of the webhooks.`

    Whatever else went wrong with n8n is said behind the same words.
    """
    failed = f"Failed to {operation}"
    try:
        yield
    except UpstreamError as error:
        if error.message == failed and (reason := error.context.get("errorDetails")):
            error.message = f"{failed}: {reason}"
        elif not error.message.startswith(failed):
            error.message = f"{failed}: {error.message}"
        raise
