"""The tools on an n8n of your own: `N8N_URL=… N8N_API_KEY=… make test-real-n8n`.

What is there is only read; one workflow is made, changed and deleted again, and it is never active. Where the key, the
license or the version does not allow something, that part is skipped with n8n's reason.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest

from tests.packs.n8n import script
from tests.packs.n8n.conftest import Ask
from tests.support.tools import Hub
from tools_app.sdk.errors import ToolError

ADDRESS, KEY = (os.environ.get(name, "") for name in ("N8N_URL", "N8N_API_KEY"))
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (ADDRESS and KEY), reason="N8N_URL and N8N_API_KEY name no n8n of your own"),
]


@pytest.fixture(autouse=True)
def only_loopback() -> None:
    """Not here: the address is the one that the caller has named."""


@pytest.fixture
def yours(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("N8N_URL", ADDRESS)
    monkeypatch.setenv("N8N_API_KEY", KEY)
    return Ask(hub)


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    try:
        yield
    except ToolError as error:
        if error.context.get("statusCode") == 403 or "too old" in error.message:
            pytest.skip(error.message)
        raise


@pytest.fixture
def mine(yours: Ask) -> Iterator[str]:
    nodes = [script.MANUAL, script.code("Work", "return [{json: {a: 1}}];")]
    links = {"Start": script.to("Work")}
    with allowed():
        made = yours(
            "create_workflow", name=f"toolhub test {token_hex(4)}", nodes=nodes, connections=links, settings={}
        )
    yield made["id"]
    with contextlib.suppress(ToolError):  # the test itself may have deleted it
        yours("delete_workflow", id=made["id"])


def test_its_workflows_are_read(yours: Ask) -> None:
    with allowed():
        listed = yours("list_workflows", limit=3)["workflows"]
        for each in listed:
            whole = yours("get_workflow", id=each["id"], raw=True)
            assert whole["id"] == each["id"]
            yours("get_workflow_connections", id=each["id"])
            yours("validate_workflow", id=each["id"])
            for node in whole["nodes"][:1]:
                assert yours("get_workflow_node", workflowId=each["id"], nodeId=node["id"])


def test_its_executions_are_read(yours: Ask) -> None:
    with allowed():
        for each in yours("list_executions", limit=3)["executions"]:
            summary = yours("get_execution", id=each["id"])
            assert summary["id"] == each["id"]
            yours("explain_execution", id=each["id"])
            for node in summary["availableNodes"][:1]:
                yours("get_execution_by_node", id=each["id"], nodeName=_name(node), itemLimit=1)


def _name(node: Any) -> str:
    return str(node["nodeName"] if isinstance(node, dict) else node)


@pytest.mark.parametrize("kind", ["credentials", "tags", "variables", "projects", "dataTables"])
def test_its_resources_are_listed(yours: Ask, kind: str) -> None:
    with allowed():
        listed = yours("list_n8n_resources", kind=kind, limit=5)
        assert listed["count"] == len(listed["resources"])
        for each in listed["resources"] if kind == "dataTables" else ():
            yours("list_data_table_rows", id=each["id"], limit=1)


def test_a_workflow_is_made_edited_restored_and_deleted(yours: Ask, mine: str) -> None:
    with allowed():
        fix = {"op": "replace_text", "node": "Work", "old": "a: 1", "new": "a: 2"}
        edited = yours("edit_workflow", id=mine, operations=[fix])
        assert "a: 2" in str(yours("get_workflow_node", workflowId=mine, nodeId="Work", raw=True))
        assert yours("validate_workflow", id=mine)["findings"] == []
        yours("update_workflow", id=mine, restore=edited["previousState"]["handle"])
        assert "a: 1" in str(yours("get_workflow_node", workflowId=mine, nodeId="Work", raw=True))
        assert yours("get_workflow", id=mine)["active"] is False
        assert yours.error("run_workflow", id=mine).code == "CONFLICT"
        assert yours("delete_workflow", id=mine)["id"] == mine
    assert yours.error("get_workflow", id=mine).code == "NOT_FOUND"


def test_a_wrong_key_is_said_to_be_one(yours: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N8N_API_KEY", "wrong")
    assert yours.error("list_workflows").message.startswith("Authentication failed")
