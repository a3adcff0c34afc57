"""A hub with the n8n pack, and n8n on loopback behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.packs.n8n.fake import KEY, N8n
from tests.support.tools import Hub
from tools_app import engine
from tools_app.access import access
from tools_app.packs.n8n import (  # noqa: F401 - these declare the tools
    changes,
    edits,
    execution_files,
    executions,
    files,
    lists,
    node_docs,
    pack,
    resources,
    tables,
    triggers,
    versions,
    workflows,
)
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError


class Ask:
    """Calls tools through the engine, as a user of this machine. Each is recorded at its first call, because
    recording all of them takes longer than most tests."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.lock = threading.Lock()
        self.unrecorded = {tool.name: tool for tool in pack.tools}
        self.caller: Caller = access.caller_of_process()
        self.text = ""
        self.message = ""

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        self.record(name)
        answer = engine.call_sync(name, arguments, self.caller, door="code").answer
        self.text = answer.text
        self.message = answer.value["message"]
        assert answer.value["success"] is True
        assert json.loads(answer.text) == answer.value
        # What is said of every answer of this pack.
        assert answer.value["data"]["_guidance"].keys() == {"message", "example"}
        assert len(answer.text.encode()) <= 75_000
        return answer.value["data"]

    def record(self, name: str) -> None:
        with self.lock:
            if (tool := self.unrecorded.pop(name, None)) is not None:
                self.hub.add(tool)

    def error(self, name: str, /, **arguments: Any) -> ToolError:
        with pytest.raises(ToolError) as raised:
            self(name, **arguments)
        return raised.value


@pytest.fixture(params=["2", "1"])
def line(request: pytest.FixtureRequest) -> str:
    """Which line of n8n; a test that is about one of them says so."""
    return str(request.param)


@pytest.fixture
def n8n(line: str) -> Iterator[N8n]:
    with N8n(line) as running:
        yield running


@pytest.fixture
def ask(n8n: N8n, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("N8N_URL", n8n.url)
    monkeypatch.setenv("N8N_API_KEY", KEY)
    return Ask(hub)
