"""A cache for each account, as accounts have different permissions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tools_app.sdk.context import Context

_MOST_CACHED: Final = 500


async def cached_answer(
    ctx: Context,
    key: str,
    seconds: float,
    ask: Callable[[], Awaitable[Any]],
    *,
    enough: Callable[[Any], bool] = lambda cached: True,
) -> Any:
    """A cached answer. It is requested again after `seconds`, or if it is not `enough`.

    Concurrent calls may both send the request, which is harmless.
    """
    memory = ctx.http.memory
    cached = memory.get(key)
    if cached is not None and cached[0] > time.monotonic() and enough(cached[1]):
        return cached[1]
    answer = await ask()
    memory.pop(key, None)
    while len(memory) >= _MOST_CACHED:
        del memory[next(iter(memory))]
    memory[key] = (time.monotonic() + seconds, answer)
    return answer


def forget(ctx: Context) -> None:
    """Clear the cache after a change."""
    ctx.http.memory.clear()
