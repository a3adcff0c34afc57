"""Calls of operations, without the engine: a runner, a context, and a server that writes down each byte of a target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.faultd import Faultd, Seen, Wire
from tools_app.models import Source
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.hints import Hints
from tools_app.sdk.operation import Body, Operation, Parameter
from tools_app.sdk.outside import Origin
from tools_app.sdk.runner import Returned
from tools_app.sdk.spec import ToolSpec
from tools_app.upstream.upstreams import Upstreams

CALLER = Caller("key", "1", "agent")
LOCAL = Caller("local", "local", "local")


def spec(operation: Operation, **runtime: Any) -> ToolSpec:
    body = {
        "name": "shop_call",
        "description": "A tool.",
        "version": "",
        "inputSchema": {"type": "object"},
        "annotations": Hints().as_dict(),
        "untrusted": True,
    }
    known = {"original": f"{operation.method} {operation.path}", "upstream": "shop", "outside": True}
    return ToolSpec(body, {**known, "operation": operation.as_dict(), **runtime}, "hash")


@dataclass
class Service:
    """Calls operations of one origin."""

    upstreams: Upstreams
    origin: Origin
    server: Faultd
    # What the calls have noted of what was sent.
    sent: list[str] = field(default_factory=list)

    async def call(
        self,
        operation: Operation,
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float = 10.0,
        caller: Caller = CALLER,
        account: Any = None,
        files: Path | None = None,
        **runtime: Any,
    ) -> Any:
        tool = spec(operation, **runtime)
        context = Context(
            "id",
            tool.name,
            caller,
            Deadline(seconds),
            logging.getLogger("test"),
            account=account,
            files=files,
            on_sent=lambda sent, _: self.sent.append(sent),
        )
        runner = self.upstreams.runner(self.origin, tool)

        async def in_thread(work: Callable[[], Any]) -> Any:
            return await asyncio.to_thread(work)

        async with context.deadline.enforced():
            returned = await runner.run(context, runner.prepared(arguments or {}), in_thread)
        assert isinstance(returned, Returned)
        return returned.value

    async def request(self, operation: Operation, arguments: Mapping[str, Any] | None = None, **options: Any) -> Seen:
        """The request that a call makes."""
        self.server.requests.clear()
        await self.call(operation, arguments, **options)
        (seen,) = self.server.requests
        return seen

    async def target(self, parameter: Parameter, value: Any) -> str:
        """Path and query that the service gets for one parameter, below its base path."""
        path = f"/things/{{{parameter.name}}}" if parameter.place == "path" else "/things"
        seen = await self.request(Operation("GET", path, (parameter,)), {parameter.argument: value})
        return seen.target.removeprefix("/ok/things")

    def at(self, fault: str, **changes: Any) -> Service:
        """The service whose every path is a fault of the server."""
        return replace(self, origin=replace(self.origin, location=f"{self.server.url}/{fault}", **changes))


def query(style: str = "form", *, explode: bool = False, name: str = "color", **others: Any) -> Parameter:
    return Parameter(name, name, "query", style, explode, **others)


def in_path(*, explode: bool = False, name: str = "color", **others: Any) -> Parameter:
    return Parameter(name, name, "path", "simple", explode, **others)


def in_header(*, explode: bool = False, name: str = "X-Color", **others: Any) -> Parameter:
    return Parameter(name, name, "header", "simple", explode, **others)


def body(encoding: str, media_type: str, **parts: Mapping[str, Any]) -> Operation:
    return Operation("POST", "/things", body=Body("body", media_type, encoding, True, parts))


@pytest.fixture(scope="session")
def faultd() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


@pytest.fixture
async def service(faultd: Faultd) -> AsyncIterator[Service]:
    faultd.requests.clear()
    upstreams = Upstreams()
    origin = Origin("shop", Source.Kind.OPENAPI, 1, location=f"{faultd.url}/ok", internal=True)
    yield Service(upstreams, origin, faultd)
    await upstreams.aclose()


Says = Callable[..., Service]


@pytest.fixture
def says(service: Service) -> Says:
    """The service, which gives this answer to everything."""

    def at(content: bytes = b"", *, status: str = "200 OK", kind: str = "application/json", headers=()) -> Service:
        async def answer(wire: Wire) -> None:
            await wire.answer(content, status=status, kind=kind, headers=headers)

        service.server.answer("says", answer)
        return service.at("says")

    return at
