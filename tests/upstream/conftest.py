"""Calls of tools of a source outside, without the engine: a runner, a context, and a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tools_app.models import Source
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.hints import Hints
from tools_app.sdk.outside import Origin
from tools_app.sdk.questions import NO_CLIENT, Ask
from tools_app.sdk.runner import Returned
from tools_app.sdk.spec import ToolSpec
from tools_app.upstream.upstreams import Upstreams

CALLER = Caller("key", "1", "agent")


def spec(name: str, **runtime: Any) -> ToolSpec:
    body = {
        "name": f"up_{name}",
        "description": "A tool.",
        "version": "",
        "inputSchema": {"type": "object"},
        "annotations": Hints().as_dict(),
        "untrusted": True,
        "kind": runtime.pop("kind", "tool"),
    }
    return ToolSpec(body, {"original": name, "upstream": "up", "outside": True, **runtime}, "hash")


@dataclass
class Client:
    """A client that writes down what it is told."""

    heard: list[Any] = field(default_factory=list)

    def can(self, capability: str) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.heard.append((done, total, message))

    def tell(self, level: str, message: str, data: Mapping[str, Any]) -> None:
        self.heard.append((level, message))

    async def ask(self, questions: Mapping[str, Any]) -> Mapping[str, Any]:
        return await NO_CLIENT.ask(questions)


@dataclass
class Calls:
    """Calls tools of one origin."""

    upstreams: Upstreams
    origin: Origin
    # What the last call has noted: (sent, session).
    noted: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Returned:
        return await self.run(spec(name), arguments, **options)

    async def run(self, tool: ToolSpec, arguments: Mapping[str, Any] | None = None, **options: Any) -> Returned:
        outcome = await self.outcome(tool, arguments, **options)
        assert isinstance(outcome, Returned)
        return outcome

    async def outcome(
        self,
        tool: ToolSpec,
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float = 10.0,
        client: Any = NO_CLIENT,
        caller: Caller = CALLER,
        account: Any = None,
    ) -> Returned | Ask:
        context = Context(
            "id",
            tool.name,
            caller,
            Deadline(seconds),
            logging.getLogger("test"),
            client=client,
            account=account,
            on_sent=lambda sent, session: self.noted.append((sent, session)),
        )
        runner = self.upstreams.runner(self.origin, tool)

        async def in_thread(work: Callable[[], Any]) -> Any:
            return await asyncio.to_thread(work)

        async with context.deadline.enforced():
            return await runner.run(context, runner.prepared(arguments or {}), in_thread)

    def to(self, **changes: Any) -> Calls:
        return Calls(self.upstreams, replace(self.origin, **changes))


def text_of(outcome: Returned) -> str:
    return "\n".join(block.in_words() for block in outcome.value)


@pytest.fixture
def server() -> Iterator[McpUpstream]:
    with mcp_upstream.running() as running:
        yield running


@pytest.fixture
async def upstreams() -> AsyncIterator[Upstreams]:
    connections = Upstreams()
    yield connections
    await connections.aclose()


@pytest.fixture
def origin(server: McpUpstream) -> Origin:
    return Origin("up", Source.Kind.MCP_HTTP, 1, location=server.url, internal=True)


@pytest.fixture
def call(upstreams: Upstreams, origin: Origin) -> Calls:
    return Calls(upstreams, origin)


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 – what it waits for is in another thread
            await asyncio.sleep(0.005)
