"""Changes that wait for something outside the hub: they must not occupy one of the few database threads."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tools_app.sources.threads import in_thread

P = ParamSpec("P")
R = TypeVar("R")


async def run_apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`database.run` in a thread of its own, for work that takes seconds."""
    # With the context variables of the caller: audit entries record where a request came from.
    return await in_thread(functools.partial(contextvars.copy_context().run, work, *args, **kwargs))
