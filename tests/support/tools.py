"""Tools whose behaviour a test decides, and a hub to put them into."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from tools_app import sources
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.sdk.context import Context
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.tool import Hints, Tool
from tools_app.sources import sync
from tools_app.sources.registry import Loaded, Origin


class Programmable:
    """A tool that does what it is told: each call takes the next outcome, an error, a value or a function."""

    def __init__(self, name: str = "programmable", **declared: Any) -> None:
        self.outcomes: list[Any] = []
        self.calls: list[dict[str, Any]] = []
        self.contexts: list[Context] = []

        async def run(ctx: Context, value: int = 0, text: str = "") -> Any:
            self.calls.append({"value": value, "text": text})
            self.contexts.append(ctx)
            outcome = self.outcomes.pop(0) if self.outcomes else {"value": value}
            if isinstance(outcome, BaseException):
                raise outcome
            if callable(outcome):
                outcome = outcome()
                return await outcome if asyncio.iscoroutine(outcome) else outcome
            return outcome

        declared.setdefault("hints", Hints(read_only=True))
        self.tool: FunctionTool = tool(name=name, description="Does what a test tells it.", **declared)(run)


def blocking_tool(name: str, release: threading.Event, started: threading.Event | None = None) -> FunctionTool:
    """A tool that holds its thread until it is released."""

    def run() -> str:
        """Block."""
        if started is not None:
            started.set()
        release.wait(10)
        return "released"

    return tool(name=name, hints=Hints(read_only=True))(run)


class Hub:
    """The hub under test."""

    def add(self, *tools: Tool, origin: Origin = Origin.CODE) -> None:
        for one in tools:
            sources.loaded().add(one, origin)
            loaded = sources.loaded().get(one.name)
            assert loaded is not None
            sync.register(loaded, actor="test")

    def loaded(self, name: str) -> Loaded:
        loaded = sources.loaded().get(name)
        assert loaded is not None
        return loaded

    def entry(self, name: str) -> Entry:
        entry = catalog.current().find(name)
        assert entry is not None
        return entry


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for something that another thread or process does."""
    never = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        never.wait(0.01)
    return condition()
