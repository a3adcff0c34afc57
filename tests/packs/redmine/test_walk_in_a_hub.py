"""The walk in a hub: every result that an agent is sent is looked at as the document asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.packs.redmine.office import TOOLS, Office, assert_is_a_tool_response, read
from tests.packs.redmine.walk import *  # noqa: F403
from tests.packs.redmine.walk_copies import *  # noqa: F403
from tests.packs.redmine.walk_documents import *  # noqa: F403
from tests.packs.redmine.walk_members import *  # noqa: F403
from tests.packs.redmine.walk_names import *  # noqa: F403
from tests.packs.redmine.walk_plans import *  # noqa: F403
from tests.packs.redmine.walk_reasons import *  # noqa: F403
from tests.packs.redmine.walk_sums import *  # noqa: F403
from tests.support.redmine import KEYS, FakeRedmine
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import engine
from tools_app.mcp_server import results
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError

LOCAL = Caller("local", "local:test", "test", frozenset({"tools:list", "tools:read", "tools:execute"}))


@dataclass
class HubOffice(Office):
    @contextmanager
    def as_(self, login: str) -> Iterator[None]:
        with super().as_(login):
            # What is in the environment is read once by a process.
            rebuild_catalog()
            yield
        rebuild_catalog()

    def call(self, login: str, name: str, /, **arguments: Any) -> Any:
        with self.as_(login):
            result = engine.call_sync(name, arguments, LOCAL, door="code", options=engine.Options())
        wire = results.success_result(result)
        assert_is_a_tool_response(wire)
        assert wire["isError"] is False
        data = wire["structuredContent"]
        output = TOOLS[name].spec.output_checker
        assert output is not None
        assert output.problems(data) == []
        text = wire["content"][0]["text"]
        assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
        assert read(text).tag == next(iter(data))
        assert not [key for key in self.keys.values() if key in str(wire)]
        return data

    def refusal(self, login: str, name: str, /, **arguments: Any) -> ToolError:
        with self.as_(login), pytest.raises(ToolError) as caught:
            engine.call_sync(name, arguments, LOCAL, door="code", options=engine.Options())
        wire = results.error_result(caught.value)
        assert_is_a_tool_response(wire)
        assert wire["isError"] is True
        assert wire["content"][0]["text"] == caught.value.message
        assert not [key for key in self.keys.values() if key in str(wire)]
        return caught.value


@pytest.fixture
def office(hub: Hub, redmine: FakeRedmine) -> Office:
    hub.add(*TOOLS.values())
    return HubOffice(redmine.url, {login: key for key, login in KEYS.items()})
