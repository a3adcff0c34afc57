"""Add n8n's own reason to errors, where agents need it to continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools_app.sdk.errors import UpstreamError


@contextmanager
def in_its_words(operation: str) -> Iterator[None]:
    """`Failed to activate workflow: There is a conflict with one of the webhooks.`

    Any other upstream error gets the same prefix.
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
