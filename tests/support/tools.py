"""Tools whose behaviour a test decides, and a hub to put them into."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from django.db import connection

from tools_app import sources
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.models import Source
from tools_app.sdk.context import Context
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.hints import Hints
from tools_app.sdk.offer import Offer
from tools_app.sdk.tool import Tool
from tools_app.sources import sync
from tools_app.sources.python import PythonProvider
from tools_app.sources.registry import Loaded, Registry


class Programmable:
    """A tool with prepared outcomes: each call takes the next one, an error, a value or a function."""

    def __init__(self, name: str = "programmable", *, speaks: bool = True, **declared: Any) -> None:
        """`speaks`: it takes a context."""
        self.outcomes: list[Any] = []
        self.calls: list[dict[str, Any]] = []
        self.contexts: list[Context] = []

        async def run(value: int = 0, text: str = "") -> Any:
            self.calls.append({"value": value, "text": text})
            outcome = self.outcomes.pop(0) if self.outcomes else {"value": value}
            if isinstance(outcome, BaseException):
                raise outcome
            if callable(outcome):
                outcome = outcome()
                return await outcome if asyncio.iscoroutine(outcome) else outcome
            return outcome

        async def speak(ctx: Context, value: int = 0, text: str = "") -> Any:
            self.contexts.append(ctx)
            return await run(value, text)

        declared.setdefault("hints", Hints(read_only=True))
        make = tool(name=name, description="Does what a test tells it.", **declared)
        self.tool: FunctionTool = make(speak if speaks else run)


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

    def add(self, *tools: Tool, kind: Source.Kind = Source.Kind.CODE) -> None:
        for one in tools:
            registry = self._provider(kind).loaded()
            registry.add(one)
            if kind is Source.Kind.CODE:
                sync.register(one.name, actor="test")
        if kind is not Source.Kind.CODE:
            sync.sync_source(self._provider(kind), actor="test")

    def offer(self, *offers: Offer) -> None:
        for one in offers:
            sources.current().code.loaded().offer(one)
        sync.sync_source(sources.current().code, actor="test")

    def _provider(self, kind: Source.Kind) -> PythonProvider:
        """The source of this kind for the tools of a test."""
        if kind is Source.Kind.CODE:
            return sources.current().code
        name = f"test:{kind}"
        return sources.current().providers.setdefault(name, PythonProvider(name, kind, ""))

    def loaded_by(self, kind: Source.Kind) -> Registry:
        """The code of the source of this kind."""
        return self._provider(kind).loaded()

    def loaded(self, name: str) -> Loaded:
        loaded = sources.current().loaded(name)
        assert loaded is not None
        return loaded

    def entry(self, name: str) -> Entry:
        entry = catalog.current().find(name)
        assert entry is not None
        return entry


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait for something that another thread or process does."""
    never = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        never.wait(0.01)
    return condition()


def database_url() -> str:
    """The database of the tests, for another process."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    return f"postgres://{database['USER']}@{database['HOST']}:{database['PORT'] or 5432}/{database['NAME']}"
