"""What the pack is, and that the fake n8n says what real ones have said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import KEY, READER, N8n, recorded
from tests.packs.n8n.script import Script
from toolhub import testing
from tools_app.http import ApiClient
from tools_app.packs.n8n import N8N, pack
from tools_app.packs.n8n.prompts import fix_workflow
from tools_app.sdk.tool import Tool

TOOLS = {tool.name for tool in pack.tools}
SHORT_AND_FULL = {
    *("list_workflows", "get_workflow", "get_workflow_connections", "get_workflow_node", "list_executions"),
    *("create_workflow", "create_workflow_from_file", "update_workflow", "replace_workflow_from_file"),
    *("activate_workflow", "deactivate_workflow"),
}


def test_has_thirty_tools_and_says_all_there_is_to_say_of_each() -> None:
    assert len(TOOLS) == 30
    assert pack.broken == []
    for tool in pack.tools:
        assert tool.done, tool.name
        assert tool.output_schema is not None, tool.name
        assert tool.examples, tool.name
        assert tool.title, tool.name
    assert {tool.name for tool in pack.tools if tool.minimal is not None} == SHORT_AND_FULL


@pytest.mark.parametrize("tool", [tool for tool in pack.tools if tool.hints.read_only], ids=lambda tool: tool.name)
def test_keeps_what_it_promises(n8n: N8n, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setenv("N8N_URL", n8n.url)
    monkeypatch.setenv("N8N_API_KEY", KEY)
    n8n.add(recorded("workflow_show", n8n.line) | {"name": "Monthly invoices", "active": True})
    n8n.hold("chain")
    testing.assert_contract(tool)


def test_only_tools_that_read_are_called_so() -> None:
    reads = {tool.name for tool in pack.tools if tool.hints.read_only}
    assert reads == {name for name in TOOLS if name.startswith(("get_", "list_", "explain_", "validate_", "search_"))}


def test_costs_an_agent_few_tokens() -> None:
    shown = {
        tool.name: json.dumps(
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
                "annotations": tool.hints.as_dict(),
            },
            separators=(",", ":"),
        )
        for tool in pack.tools
    }
    tokens = {name: len(text) / 3 for name, text in shown.items()}
    assert max(tokens.values()) < 700, tokens
    assert sum(tokens.values()) < 11_300, tokens


@pytest.mark.parametrize("entered", ["", "/", "/api/v1", "/api/v1/"])
def test_takes_the_address_as_people_know_it(entered: str) -> None:
    assert ApiClient.of_kind(N8N, f"https://host.test/n8n{entered}", "key").base.path == "/n8n/api/v1"


def test_says_the_same_as_n8n_did(ask: Ask, n8n: N8n, settings: LazySettings, tmp_path: Path) -> None:
    settings.TOOLHUB_FILE_ROOT = tmp_path
    told = json.loads((Path(__file__).parent / f"v{n8n.line}" / "transcript.json").read_text())
    for said, expected in zip(Script(ask, tmp_path).run(), told, strict=True):
        assert said == expected


def test_the_key_goes_to_n8n_and_nowhere_else(ask: Ask, n8n: N8n, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    n8n.add(recorded("workflow_show"))
    ask("list_workflows", raw=True)
    assert [seen.headers["x-n8n-api-key"] for seen in n8n.requests] == [KEY]
    assert KEY not in ask.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("line", ["2"])
def test_a_read_only_key_is_reported(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N8N_API_KEY", READER)
    assert ask("list_workflows")["count"] == 0
    error = ask.error("create_workflow", name="x", nodes=[], connections={}, settings={})
    assert error.message == "Permission denied: n8n does not let this connection create workflow"


def test_a_read_only_connection_refuses_to_write(ask: Ask, n8n: N8n, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N8N_READ_ONLY", "true")
    n8n.add(recorded("workflow_show"))
    assert ask("list_workflows")["count"] == 1
    assert ask.error("delete_workflow", id="wf0001").code == "TOOL_DISABLED"
    assert n8n.asked()[1:] == []


@pytest.mark.parametrize("line", ["2"])
def test_asks_n8n_anew_every_time(ask: Ask, n8n: N8n) -> None:
    one = n8n.hold("chain")
    ask("get_execution", id=one)
    ask("get_execution", id=one)
    assert n8n.asked() == [f"GET /executions/{one}?includeData=true"] * 2


def test_the_prompt_says_where_to_begin() -> None:
    named = testing.call(fix_workflow, workflow="Invoices", execution="12")
    assert "'Invoices' failed, in execution 12" in named[0]["content"]["text"]
    assert "list_executions" in testing.call(fix_workflow)[0]["content"]["text"]
