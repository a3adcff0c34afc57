"""Calls, and how a client's cancelling reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")
CANCEL_SECONDS: Final = 0.4


async def whole(call: Coroutine[Any, Any, T]) -> T:
    """Run a call in a task of its own, so that being cancelled reaches it once.

    The SDK cancels whatever awaits, again and again until it has ended; the engine then could not write down that
    the call was cancelled.
    """
    task = asyncio.create_task(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(_forget)
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            await asyncio.wait([task])
        raise


def _forget(task: asyncio.Task[T]) -> None:
    """Whoever waited is gone; asking for the exception keeps asyncio from complaining that nobody did."""
    if not task.cancelled():
        task.exception()
