"""Event loops, addressed from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def post(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    """Call `callback` on `loop`; nothing waits on a closed loop, so nothing is called.

    Asking whether the loop is closed before the call would be a race condition: it can be closed in between.
    """
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
