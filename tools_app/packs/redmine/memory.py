"""What an account has told is remembered for a while, for that account: what one may see, another is not told."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tools_app.sdk.context import Context

_MOST_KEPT: Final = 500


async def remembered(
    ctx: Context,
    what: str,
    seconds: float,
    ask: Callable[[], Awaitable[Any]],
    *,
    enough: Callable[[Any], bool] = lambda kept: True,
) -> Any:
    """An answer that is good for a while, unless what was remembered is not `enough`: then it is asked for again.

    Two calls at once may both ask; nothing is wrong with that.
    """
    memory = ctx.http.memory
    kept = memory.get(what)
    if kept is not None and kept[0] > time.monotonic() and enough(kept[1]):
        return kept[1]
    found = await ask()
    memory.pop(what, None)
    while len(memory) >= _MOST_KEPT:
        del memory[next(iter(memory))]
    memory[what] = (time.monotonic() + seconds, found)
    return found


def forget(ctx: Context) -> None:
    """After a change to what is remembered."""
    ctx.http.memory.clear()
