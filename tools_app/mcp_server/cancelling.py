"""Passing a client's cancellation on to a call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")
CANCEL_SECONDS: Final = 0.4


async def whole(call: Coroutine[Any, Any, T]) -> T:
    """Run a call in a task of its own, so that it is cancelled only once.

    The SDK cancels an awaiting handler repeatedly until it has ended, which would keep the engine from recording that
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
    """Retrieve the exception, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()
