"""Calls of a real service through an OpenAPI document, without the engine."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import ToolError
from tools_app.sdk.outside import Origin
from tools_app.sources.foreign import described
from tools_app.sources.openapi import listing, read
from tools_app.upstream.upstreams import Upstreams


class Documented:
    def __init__(self, name: str, location: str, document: bytes) -> None:
        self.origin = Origin(name, "openapi", 1, location=location, internal=True)
        tools, problems = described(self.origin, listing(read(document)), {}, pin_defaults=True)
        assert not problems
        self.specs = {tool.spec.name.removeprefix(f"{name}_"): tool.spec for tool in tools}

    def call(self, headers: Mapping[str, str], operation: str, /, **arguments: Any) -> Any:
        """What an operation answers to valid arguments."""
        assert not self.specs[operation].checker.problems(arguments)
        return asyncio.run(self._call(headers, operation, arguments))

    def refusal(self, headers: Mapping[str, str], operation: str, /, **arguments: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.call(headers, operation, **arguments)
        return caught.value

    async def _call(self, headers: Mapping[str, str], operation: str, arguments: Mapping[str, Any]) -> Any:
        spec, name = self.specs[operation], self.origin.name
        secret = json.dumps(dict(headers))
        account = Account("main", name, ConnectionKind.outside(name), "", secret=secret, form="header", epoch=1)
        upstreams = Upstreams()
        try:
            runner = upstreams.runner(self.origin, spec)
            caller = Caller("key", "1", "agent")
            context = Context("id", spec.name, caller, Deadline(60), logging.getLogger("test"), account=account)

            async def in_thread(work: Callable[[], Any]) -> Any:
                return await asyncio.to_thread(work)

            returned: Any = await runner.run(context, runner.prepared(arguments), in_thread)
            return returned.value
        finally:
            await upstreams.aclose()
