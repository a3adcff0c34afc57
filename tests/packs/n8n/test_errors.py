"""Every way to fail, for every tool: the texts are the user's, and nothing else of an error leaves the hub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n
from tests.packs.n8n.script import MANUAL
from toolhub import testing
from tools_app.mcp_server.results import error_result
from tools_app.packs.n8n import pack
from tools_app.sdk.errors import ToolError

NODES: dict[str, Any] = {"nodes": [MANUAL], "connections": {}, "settings": {}}
TABLE = "9" * 16
FILE = {"filePath": "one.json"}
# tool: its arguments, what n8n lacks, what is wrong with the arguments, what failed
TOOLS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "list_workflows": ({"limit": 5}, "", "limit", "Failed to list workflows"),
    "get_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to get workflow"),
    "get_workflow_connections": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to get workflow"),
    "get_workflow_node": (
        *({"workflowId": "abc123", "nodeId": "x"}, "Workflow 'abc123' not found"),
        *("workflowId", "Failed to get workflow"),
    ),
    "create_workflow": ({"name": "x", **NODES}, "", "name", "Failed to create workflow"),
    "create_workflow_from_file": (FILE, "", "filePath", "Failed to create workflow"),
    "update_workflow": ({"id": "abc123", "name": "x"}, "Workflow 'abc123' not found", "", "Failed to update workflow"),
    "edit_workflow": (
        {"id": "abc123", "operations": [{"op": "rename_workflow", "name": "x"}]},
        *("Workflow 'abc123' not found", "", "Failed to update workflow"),
    ),
    "validate_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to get workflow"),
    "replace_workflow_from_file": (
        {"id": "abc123", **FILE},
        *("Workflow 'abc123' not found", "", "Failed to update workflow"),
    ),
    "delete_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to delete workflow"),
    "activate_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to activate workflow"),
    "deactivate_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to deactivate workflow"),
    "list_workflow_versions": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to list versions"),
    "run_workflow": ({"id": "abc123"}, "Workflow 'abc123' not found", "", "Failed to run workflow"),
    "delete_execution": ({"id": "404"}, "Execution '404' not found", "", "Failed to delete execution"),
    "list_n8n_resources": ({"kind": "tags", "limit": 5}, "", "limit", "Failed to list tags"),
    "list_executions": ({"limit": 5}, "", "limit", "Failed to list executions"),
    "get_execution": ({"id": "404"}, "Execution '404' not found", "", "Failed to fetch execution"),
    "get_execution_by_node": (
        *({"id": "404", "nodeName": "x"}, "Execution '404' not found", "", "Failed to fetch execution"),
    ),
    "explain_execution": ({"id": "404"}, "Execution '404' not found", "", "Failed to fetch execution"),
    "retry_execution": ({"id": "404"}, "Execution '404' not found", "", "Failed to retry execution"),
    "stop_execution": ({"id": "404"}, "Execution '404' not found", "", "Failed to stop execution"),
    "save_execution_file": (
        *({"id": "404", "nodeName": "x"}, "Execution '404' not found", "", "Failed to fetch execution"),
    ),
    "list_data_table_rows": ({"id": TABLE}, f"Data table '{TABLE}' not found", "", "Failed to list data table rows"),
    "insert_data_table_rows": (
        {"id": TABLE, "rows": [{"a": 1}]},
        *(f"Data table '{TABLE}' not found", "", "Failed to insert data table rows"),
    ),
    "update_data_table_rows": (
        {"id": TABLE, "filter": [{"column": "a", "value": 1}], "values": {"a": 1}},
        *(f"Data table '{TABLE}' not found", "", "Failed to update data table rows"),
    ),
    "delete_data_table_rows": (
        {"id": TABLE, "filter": [{"column": "a", "value": 1}]},
        *(f"Data table '{TABLE}' not found", "", "Failed to delete data table rows"),
    ),
}
MISSING = {
    "name": "Workflow name is required, with at most 128 characters",
    "filePath": "File path is required",
    "workflowId": "Workflow ID is required",
}
# They need nothing of what n8n says once it has done what it was told to.
WRITING = {
    *("create_workflow", "delete_workflow", "activate_workflow", "deactivate_workflow"),
    *("retry_execution", "stop_execution", "delete_execution"),
    *("insert_data_table_rows", "update_data_table_rows", "delete_data_table_rows"),
}
STACK = re.compile(r'Traceback|File "|\bat .*\(.*:\d+')

pytestmark = pytest.mark.parametrize("line", ["2"])


@pytest.fixture(autouse=True)
def file(tmp_path: Path, settings: LazySettings) -> None:
    settings.TOOLHUB_FILE_ROOT = tmp_path
    (tmp_path / "one.json").write_text(json.dumps({"name": "x", **NODES}))


def on_the_wire(error: ToolError) -> str:
    """What an agent is sent of it."""
    sent = error_result(error)
    assert sent["isError"] is True
    assert "structuredContent" not in sent
    assert sent["content"][0] == {"type": "text", "text": error.message}
    text = json.dumps(sent, ensure_ascii=False)
    assert not STACK.search(text), text
    return text


@pytest.mark.parametrize("name", [name for name, (_, message, _, _) in TOOLS.items() if message])
def test_not_found(ask: Ask, name: str) -> None:
    arguments, message, _, _ = TOOLS[name]
    error = ask.error(name, **arguments)
    assert (error.message, error.code) == (message, "NOT_FOUND")
    assert error.context.keys() >= {"operation", "resourceType", "resourceId"}
    on_the_wire(error)


@pytest.mark.parametrize("name", ["list_workflows", "list_executions", "create_workflow", "create_workflow_from_file"])
def test_a_path_that_is_not_there(ask: Ask, n8n: N8n, name: str) -> None:
    n8n.fail(404, {"message": "not found"})
    arguments, _, _, message = TOOLS[name]
    error = ask.error(name, **arguments)
    assert error.message == f"{message}: n8n has nothing at that URL"
    on_the_wire(error)


@pytest.mark.parametrize("name", TOOLS)
def test_arguments_that_are_wrong(ask: Ask, n8n: N8n, name: str) -> None:
    arguments, _, parameter, _ = TOOLS[name]
    if parameter == "limit":
        error = ask.error(name, **arguments | {"limit": 0})
        assert "limit" in error.message
    else:
        parameter = parameter or "id"
        kind = "Execution" if "execution" in name else "Data table" if "table" in name else "Workflow"
        expected = MISSING.get(parameter) or f"{kind} ID is required"
        for given in ({parameter: ""}, {}):
            rest = {key: value for key, value in arguments.items() if key != parameter}
            error = ask.error(name, **rest | given)
            assert error.message == expected
    assert error.code == "VALIDATION_ERROR"
    assert n8n.requests == []
    on_the_wire(error)


@pytest.mark.parametrize("name", TOOLS)
def test_n8n_fails(ask: Ask, n8n: N8n, name: str) -> None:
    n8n.fail(400, {"message": "Field 'settings' is required"})
    arguments, _, _, message = TOOLS[name]
    error = ask.error(name, **arguments)
    said = ("fetch", "activate", "deactivate", "retry", "stop", "delete execution")
    in_its_words = message.removeprefix("Failed to ").startswith(said) or "table" in name
    assert error.message == (f"{message}: Field 'settings' is required" if in_its_words else message)
    assert error.code == "API_ERROR"
    assert error.context["statusCode"] == 400
    assert error.context["errorDetails"] == "Field 'settings' is required"
    assert "Field 'settings' is required" in on_the_wire(error)


@pytest.mark.parametrize("name", TOOLS)
def test_an_unexpected_error_reveals_nothing(ask: Ask, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from tools_app.http import ApiClient

    async def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(ApiClient, "request", breaks)
    error = ask.error(name, **TOOLS[name][0])
    assert (error.message, error.code) == (f"Tool execution failed: {name}", "TOOL_EXECUTION_ERROR")
    assert error.error_id
    assert "secret of the inside" not in on_the_wire(error)


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (500, "<!DOCTYPE html><pre>Error<br>    at parse (x.js:1:2)</pre>", "text/html", "Failed to"),
        (200, "<!DOCTYPE html><title>Sign in</title>", "text/html", "the response of n8n is a web page"),
        (401, {"message": "unauthorized"}, "application/json", "Authentication failed"),
        (503, {"message": "n8n is starting up"}, "application/json", "not available now"),
        (200, [1, 2], "application/json", "unexpected response"),
    ],
)
def test_nonsense_and_bad_days(ask: Ask, n8n: N8n, status: int, body: Any, kind: str, words: str) -> None:
    n8n.fail(status, body, kind)
    for tool in pack.tools:
        if tool.name.endswith("_from_file") or "node_type" in tool.name:
            continue  # they fail as those that they use; these do not ask n8n
        arguments = TOOLS[tool.name][0]
        if status == 200 and kind == "application/json" and tool.name in WRITING:
            # A change was made, and what was said of it could not be read.
            assert testing.call(tool, **arguments)
            continue
        # Without the hub, which would soon hold calls back.
        with pytest.raises(ToolError, match=words) as raised:
            testing.call(tool, **arguments)
        assert raised.value.code in ("API_ERROR", "UPSTREAM_INVALID_RESPONSE"), tool.name
        assert "Sign in" not in on_the_wire(raised.value), tool.name


def test_an_n8n_that_is_not_there(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N8N_URL", "http://127.0.0.1:9")
    error = ask.error("get_execution", id="1")
    assert error.message == "Failed to fetch execution: Network error: n8n refuses connections"
    assert error.code == "UPSTREAM_UNAVAILABLE"


def test_arguments_are_not_in_the_log(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ask.error("get_execution_by_node", id="404", nodeName="a very private name")
    ask.error("update_workflow", id="abc123", name="a very private name")
    assert "very private" not in caplog.text


@pytest.mark.parametrize("given", ["a b", "../x", "a/b", "é", "x" * 65])
def test_ids_are_letters_and_digits(ask: Ask, n8n: N8n, given: str) -> None:
    for name in ("get_workflow", "get_execution"):
        assert ask.error(name, id=given).code == "VALIDATION_ERROR"
    assert n8n.requests == []
