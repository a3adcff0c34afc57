"""Breaks a hub under test at one step of a call: by an unexpected exception, or by the end of the process.

Loaded with the tools. TRIALS_FAULT names a file; while it holds, say, `before shape raise` or `after commit exit`, the
first call that gets there removes it and is hit.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

SAID: Final = "broken on purpose"

# The steps of a call in their order, as functions that it passes through.
STEPS: Final = {
    "find": "tools_app.engine.calls:_find",
    "allow": "tools_app.engine.calls:_allowed",
    "given": "tools_app.engine.running:RunningCall.receive",
    "connect": "tools_app.engine.running:RunningCall.connected",
    "check": "tools_app.engine.arguments:Arguments.check",
    "plan": "tools_app.engine.running:RunningCall.plan",
    "count": "tools_app.engine.guards:Guards.count",
    "attempt": "tools_app.engine.running:RunningCall.attempt",
    "insert": "tools_app.journal.rows:insert_calls",
    "run": "tools_app.engine.attempts:Attempts._once",
    "shape": "tools_app.engine.answers:shaped",
    "fit": "tools_app.shelf.fitting:AnswersOfCall.fitted",
    "succeed": "tools_app.engine.running:RunningCall.succeeded",
    "upsert": "tools_app.journal.rows:upsert_calls",
    "figures": "tools_app.journal.rows:insert_counts",
    "result": "tools_app.engine.calls:_result",
}
MOMENTS: Final = [f"{when} {step}" for step in STEPS for when in ("before", "after")]


def strike(armed: Path, moment: str) -> None:
    try:
        here, _, how = armed.read_text().rpartition(" ")
    except FileNotFoundError:
        return
    if here == moment:
        armed.unlink()
        if how == "exit":
            os._exit(70)
        raise RuntimeError(SAID)


def fragile(step: str, function: Callable[..., Any], armed: Path) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def broken_later(*args: Any, **kwargs: Any) -> Any:
            strike(armed, f"before {step}")
            returned = await function(*args, **kwargs)
            strike(armed, f"after {step}")
            return returned

        return broken_later

    @functools.wraps(function)
    def broken(*args: Any, **kwargs: Any) -> Any:
        strike(armed, f"before {step}")
        returned = function(*args, **kwargs)
        strike(armed, f"after {step}")
        return returned

    return broken


def install(armed: Path) -> None:
    for step, place in STEPS.items():
        module, _, path = place.partition(":")
        *outer, name = path.split(".")
        owner = functools.reduce(getattr, outer, importlib.import_module(module))
        setattr(owner, name, fragile(step, getattr(owner, name), armed))


if "TRIALS_FAULT" in os.environ:
    install(Path(os.environ["TRIALS_FAULT"]))
