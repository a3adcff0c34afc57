"""Workflows and lists, as they are read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n, recorded
from tests.packs.n8n.script import code, to, webhook


def shown() -> dict[str, Any]:
    """A recorded workflow, on any fake."""
    return {key: recorded("workflow_show")[key] for key in ("name", "nodes", "connections", "settings")}


class TestOneWorkflow:
    def test_short_and_full(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(shown() | {"tags": [{"id": "1", "name": "sales"}, {"id": "2", "name": "old"}]})
        short = ask("get_workflow", id=one)
        del short["_guidance"]
        assert short == {
            "id": one,
            "name": "toolhub chain: 8 nodes, unicode names",
            "active": False,
            "nodeCount": 10,
            "tags": "sales, old",
        }
        full = ask("get_workflow", id=one, raw=True)
        # Whole, so that it can be sent back.
        assert full["nodes"] == shown()["nodes"]
        assert full["connections"]["Start"] == to("Make items")
        assert full["settings"]["executionOrder"] == "v1"

    @pytest.mark.parametrize("node", ["e5d6934f-0000-4000-8000-000000000001", "Make items"])
    def test_a_node_by_id_or_by_name(self, ask: Ask, n8n: N8n, node: str) -> None:
        one = n8n.add(shown())
        short = ask("get_workflow_node", workflowId=one, nodeId=node)
        assert short["parameters"]["jsCode"].startswith("return Array")
        assert "position" not in short
        assert ask("get_workflow_node", workflowId=one, nodeId=node, raw=True)["position"] == [240, 0]

    @pytest.mark.parametrize("line", ["2"])
    def test_no_such_node(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(shown())
        error = ask.error("get_workflow_node", workflowId=one, nodeId="Nope")
        assert error.message == f"Node 'Nope' not found in workflow '{one}'"
        assert "Make items" in error.next_step

    @pytest.mark.parametrize("line", ["2"])
    def test_a_node_and_a_workflow_of_any_size_fit(self, ask: Ask, n8n: N8n) -> None:
        script = code("Large", "x" * 2_000_000)
        nodes = [code(f"Node {number} " + "ü" * 100, "y" * 300) for number in range(1_000)]
        chain = {node["name"]: to(nodes[number - 1]["name"]) for number, node in enumerate(nodes)}
        one = n8n.add({"name": "n", "nodes": [script, *nodes], "connections": chain, "settings": {}})
        assert ask("get_workflow", id=one)["nodeCount"] == 1_001
        assert (
            "2,000,000 characters" in ask("get_workflow_node", workflowId=one, nodeId="Large")["parameters"]["jsCode"]
        )
        graph = ask("get_workflow_connections", id=one)
        assert graph["truncated"] is True
        assert 50 < len(graph["graph"]) < 1_001
        # Of what is asked for in full, the hub sends an outline, and keeps the rest to be read.
        for name, arguments in {
            "get_workflow": {"id": one},
            "get_workflow_node": {"workflowId": one, "nodeId": "Large"},
            "get_workflow_connections": {"id": one},
            "update_workflow": {"id": one, "name": "m"},
        }.items():
            assert "read_result" in str(ask(name, **arguments, raw=True)["_guidance"])

    @pytest.mark.parametrize("line", ["2"])
    def test_the_graph_says_where_every_node_leads(self, ask: Ask, n8n: N8n) -> None:
        nodes = [webhook("x"), code("Yes", ""), code("No", ""), code("Model", ""), code("Alone", "")]
        end = {"node": "No", "type": "main", "index": 0}
        ghost = {"node": "Ghost", "type": "main", "index": 1}
        connections = {
            "Webhook": {"main": [[{"node": "Yes", "type": "main", "index": 0}], [end, ghost], None]},
            "Model": {"ai_languageModel": [[{"node": "Yes", "type": "ai_languageModel", "index": 0}]]},
        }
        one = n8n.add({"name": "n", "nodes": nodes, "connections": connections, "settings": {}})
        graph = {each["node"]: each for each in ask("get_workflow_connections", id=one)["graph"]}
        assert graph["Webhook"]["outputs"] == [
            {"node": "Yes"},
            {"node": "No", "output": 1},
            {"node": "Ghost", "output": 1, "input": 1},
        ]
        assert graph["Yes"]["inputs"] == [{"node": "Webhook"}, {"node": "Model", "type": "ai_languageModel"}]
        assert graph["Alone"]["inputs"] == graph["Alone"]["outputs"] == []
        assert graph["Ghost"]["missing"] is True
        assert "rawConnections" not in ask.text
        assert ask("get_workflow_connections", id=one, raw=True)["rawConnections"] == connections


class TestLists:
    def test_short_and_full(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(shown() | {"tags": [{"id": "1", "name": "sales"}, {"id": "2", "name": "old"}]})
        data = ask("list_workflows")
        assert data["count"] == 1
        assert data["workflows"] == [{"id": one, "name": "toolhub chain: 8 nodes, unicode names", "active": False}]
        full = ask("list_workflows", raw=True)["workflows"][0]
        assert full.keys() == {"id", "name", "active", "tags", "createdAt", "updatedAt", "nodeCount"}
        assert (full["tags"], full["nodeCount"]) == ("sales, old", 10)

    def test_page_by_page_and_by_offset(self, ask: Ask, n8n: N8n) -> None:
        ids = [n8n.add({"name": f"w{number}", "nodes": [], "connections": {}, "settings": {}}) for number in range(25)]
        first = ask("list_workflows", limit=10)
        second = ask("list_workflows", limit=10, cursor=first["nextCursor"])
        third = ask("list_workflows", limit=10, cursor=second["nextCursor"])
        seen = [each["id"] for page in (first, second, third) for each in page["workflows"]]
        assert (seen, third["nextCursor"]) == (ids, None)
        part = ask("list_workflows", limit=10, offset=12)
        assert ([each["id"] for each in part["workflows"]], part["nextOffset"]) == (ids[12:22], 22)
        rest = ask("list_workflows", limit=10, offset=22)
        assert ([each["id"] for each in rest["workflows"]], rest["nextOffset"]) == (ids[22:], None)
        assert ask("list_workflows", offset=100)["count"] == 0

    def test_only_some(self, ask: Ask, n8n: N8n) -> None:
        empty: dict[str, Any] = {"nodes": [], "connections": {}, "settings": {}}
        n8n.add({"name": "Invoices", "active": True, **empty})
        n8n.add({"name": "Other", "tags": [{"name": "a"}, {"name": "b"}], **empty})
        assert [each["name"] for each in ask("list_workflows", active=True)["workflows"]] == ["Invoices"]
        assert [each["name"] for each in ask("list_workflows", active=False)["workflows"]] == ["Other"]
        assert [each["name"] for each in ask("list_workflows", tags=["a", "b"])["workflows"]] == ["Other"]
        assert [each["name"] for each in ask("list_workflows", name="invoice")["workflows"]] == ["Invoices"]
        assert "No workflows found" in ask("list_workflows", name="nope")["_guidance"]["message"]

    def test_executions_newest_first_and_page_by_page(self, ask: Ask, n8n: N8n) -> None:
        for name in ("chain", "error_code", "pinned", "canceled"):
            n8n.hold(name)
        data = ask("list_executions", limit=3)
        assert [each["id"] for each in data["executions"]] == ["24", "5", "4"]
        assert data["executions"][1].keys() == {"id", "workflowId", "status", "startedAt"}
        assert data["_guidance"]["example"] == "explain_execution(id: '5')"
        then = ask("list_executions", limit=3, cursor=data["nextCursor"])
        assert ([each["id"] for each in then["executions"]], then["nextCursor"]) == (["1"], None)
        full = ask("list_executions", status="error", raw=True)["executions"]
        assert [each["mode"] for each in full] == ["webhook"]

    def test_what_is_in_no_list_unless_asked_for(self, ask: Ask, n8n: N8n) -> None:
        n8n.executions["29"] = recorded("execution_running")
        data = ask("list_executions")
        assert data["count"] == 0
        assert data["_guidance"]["example"] == "list_executions(status: 'running')"
        assert ask("list_executions", status="running")["count"] == 1

    @pytest.mark.parametrize(("line", "count"), [("2", 1), ("1", 0)])
    def test_n8n_1_never_lists_those_that_wait(self, ask: Ask, n8n: N8n, count: int) -> None:
        n8n.hold("waiting")
        data = ask("list_executions", status="waiting")
        assert data["count"] == count
        assert ("warnings" in data) == (n8n.line == "1")

    @pytest.mark.parametrize("line", ["2"])
    def test_lists_of_the_largest_length_fit(self, ask: Ask, n8n: N8n) -> None:
        tags = [{"name": "t" * 40} for _ in range(100)]
        for _ in range(100):
            n8n.add({"name": "日" * 128, "tags": tags, "nodes": [], "connections": {}, "settings": {}})
        assert ask("list_workflows", limit=100, raw=True)["count"] == 100
