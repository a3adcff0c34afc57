"""Data tables, node types and files of a real n8n, and what users with fewer rights get."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
from django.conf import LazySettings

from tests.packs.n8n import script
from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n
from tests.real.n8n.server import Server
from tests.support.state import rebuild_catalog
from tools_app.packs.n8n import pack
from tools_app.packs.n8n.node_types import NodeTypes, documentation
from tools_app.packs.n8n.sizes import size
from tools_app.sdk.errors import ToolError

pytestmark = pytest.mark.real

COLUMNS = {"order": "number", "status": "string", "paid": "boolean", "due": "date"}
OPEN = [{"column": "status", "value": "open"}]
UNKNOWN = "ABCDEFGHIJKLMNOP"


def conversation(table: str) -> list[tuple[str, dict[str, Any]]]:
    rows = [{"order": 1, "status": "open", "paid": False}, {"order": 2, "status": "closed"}, {"order": 3}]
    condition = {"column": "order", "value": 9}
    of_9 = {"filter": [condition], "values": {"order": 9, "status": "open"}, "upsert": True}
    return [
        ("insert_data_table_rows", {"id": table, "rows": rows}),
        ("insert_data_table_rows", {"id": table, "rows": [{"nope": 1}]}),
        ("insert_data_table_rows", {"id": table, "rows": [{"order": "x"}]}),
        ("list_data_table_rows", {"id": table}),
        ("list_data_table_rows", {"id": table, "limit": 2}),
        ("list_data_table_rows", {"id": table, "filter": OPEN, "search": "pe", "sort": "order:desc"}),
        ("list_data_table_rows", {"id": table, "filter": [{"column": "status", "op": "ilike", "value": "%O%"}]}),
        ("list_data_table_rows", {"id": table, "filter": [{"column": "status", "op": "isEmpty"}]}),
        ("list_data_table_rows", {"id": table, "filter": [{"column": "nope", "value": 1}]}),
        ("list_data_table_rows", {"id": table, "filter": [{"column": "order", "op": "gt"}]}),
        ("list_data_table_rows", {"id": table, "sort": "nope:asc"}),
        ("update_data_table_rows", {"id": table, "filter": OPEN, "values": {"paid": True}}),
        ("update_data_table_rows", {"id": table, "filter": OPEN, "values": {"nope": True}}),
        ("update_data_table_rows", {"id": table, **of_9}),
        ("update_data_table_rows", {"id": table, **of_9}),
        ("delete_data_table_rows", {"id": table, "filter": [*OPEN, condition], "match": "any"}),
        ("delete_data_table_rows", {"id": table, "filter": OPEN}),
        ("list_data_table_rows", {"id": table, "sort": "id:desc"}),
        ("list_data_table_rows", {"id": UNKNOWN}),
        ("list_data_table_rows", {"id": "orders"}),
    ]


def said(ask: Ask, name: str, arguments: dict[str, Any], table: str) -> Any:
    try:
        answer = ask(name, **arguments)
    except ToolError as error:
        answer = error.as_dict()
    return plain(answer, table)


def plain(value: Any, table: str) -> Any:
    if isinstance(value, dict):
        left = ("createdAt", "updatedAt", "nextCursor", "errorId")
        return {key: plain(each, table) for key, each in value.items() if key not in left}
    if isinstance(value, list):
        return [plain(each, table) for each in value]
    return value.replace(table, "<table>") if isinstance(value, str) else value


def new_table(n8n: Server, name: str) -> str:
    columns = [{"name": key, "type": kind} for key, kind in COLUMNS.items()]
    with n8n.api as api:
        # Names are unique.
        named = {"name": f"{name} {token_hex(4)}", "columns": columns}
        made = api.post("/data-tables", json=named).raise_for_status().json()
    return str(made["id"])


def test_rows_of_tables_are_those_of_the_fake(
    ask: Ask, n8n: Server, line: str, fake: N8n, turned: Callable[[], None]
) -> None:
    if line == "1":
        for name, arguments in conversation(UNKNOWN):
            if arguments.get("sort") is None:
                assert "too old" in ask.error(name, **arguments).message
        return
    table = new_table(n8n, "orders")
    really = [said(ask, name, arguments, table) for name, arguments in conversation(table)]
    shown = ask("list_n8n_resources", kind="dataTables")["resources"]
    assert next(each for each in shown if each["id"] == table)["columns"] == COLUMNS
    turned()
    made_up = fake.data.add("orders", **COLUMNS)
    for number, (name, arguments) in enumerate(conversation(made_up)):
        assert said(ask, name, arguments, made_up) == really[number], (name, arguments)


def test_node_types_are_refused_to_keys_and_read_from_an_export(
    ask: Ask, n8n: Server, tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = httpx.get(f"{n8n.url}/types/nodes.json", headers={"X-N8N-API-KEY": n8n.key})
    assert refused.status_code == 401, "then the hub could ask for them itself"
    path = tmp_path / "nodes.json"
    n8n.command("export:nodes", f"--output={path}")
    assert n8n.web.get("/types/nodes.json").content.splitlines() == path.read_bytes().splitlines()
    settings.TOOLHUB_FILE_ROOT = tmp_path
    monkeypatch.setenv("N8N_NODE_TYPES", "nodes.json")
    found = {
        query: ask("search_node_types", query=query)["nodeTypes"][0]["type"].rpartition(".")[2]
        for query in ("send slack message", "http request", "append row google sheets", "postgres query", "if", "code")
    }
    assert list(found.values()) == ["slack", "httpRequest", "googleSheets", "postgres", "if", "code"]
    chosen = {"resource": "message", "operation": "post", "select": "channel"}
    parameters = ask("get_node_type", type="n8n-nodes-base.slack", parameters=chosen)["parameters"]
    assert {"channelId", "text"} <= {each["name"] for each in parameters}
    types = NodeTypes(path.read_bytes())
    assert len(types.by_name) > 500
    for one in types.by_name.values():
        for version in one.versions:
            described = documentation(one, version, {})
            assert size(described) <= 12_000, one.name
            for resource, operations in described.get("operations", {}).items():
                values = {"resource": resource, "operation": operations[0]}
                assert size(documentation(one, version, values)) <= 12_000, (one.name, values)


def test_a_new_node_as_documented_is_taken(
    ask: Ask, n8n: Server, tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    n8n.command("export:nodes", f"--output={tmp_path / 'nodes.json'}")
    settings.TOOLHUB_FILE_ROOT = tmp_path
    monkeypatch.setenv("N8N_NODE_TYPES", "nodes.json")
    documented = ask("get_node_type", type="n8n-nodes-base.if")
    condition = next(each for each in documented["parameters"] if each["type"] == "filter")["value"]
    node = {
        "id": "i",
        "name": "If",
        "type": documented["type"],
        "typeVersion": documented["typeVersion"],
        "position": [200, 0],
        "parameters": {"conditions": condition},
    }
    nodes = [script.webhook("toolhub-if"), script.code("Make", "return [{json: {a: 2}}, {json: {a: 0}}];"), node]
    links = {"Webhook": script.to("Make"), "Make": script.to("If")}
    one = ask("create_workflow", name="if", nodes=nodes, connections=links, settings={})["id"]
    ask("activate_workflow", id=one)
    n8n.rest()
    ran = ask("run_workflow", id=one)
    branches = ask("get_execution_by_node", id=ran["id"], nodeName="If")["output"]["branches"]
    assert [each["items"] for each in branches] == [1, 1]
    ask("deactivate_workflow", id=one)
    n8n.rest()
    ask("delete_workflow", id=one)


def test_files_are_saved_where_n8n_keeps_them_in_executions(
    ask: Ask, n8n: Server, line: str, settled: partial[None], tmp_path: Path, settings: LazySettings
) -> None:
    settings.TOOLHUB_FILE_ROOT = tmp_path
    code = (
        "const made = await this.helpers.prepareBinaryData(Buffer.from('hello, bytes'), 'hello.txt', 'text/plain');\n"
        "return [{json: {}}, {json: {}, binary: {data: made}}];"
    )
    nodes = [script.webhook("toolhub-file"), script.code("File", code)]
    one = ask("create_workflow", name="file", nodes=nodes, connections={"Webhook": script.to("File")}, settings={})
    ask("activate_workflow", id=one["id"])
    settled("toolhub-file")
    ran = ask("run_workflow", id=one["id"])["id"]
    if line == "1":
        saved = ask("save_execution_file", id=ran, nodeName="File", item=1)
        assert (saved["filePath"], saved["bytes"]) == ("hello.txt", 12)
        assert (tmp_path / "hello.txt").read_bytes() == b"hello, bytes"
    else:
        error = ask.error("save_execution_file", id=ran, nodeName="File", item=1)
        assert "n8n keeps it in its storage (filesystem-v2)" in error.message
    ask("deactivate_workflow", id=one["id"])
    n8n.rest()
    ask("delete_workflow", id=one["id"])


def test_projects_and_folders_need_a_license(ask: Ask, n8n: Server, line: str) -> None:
    assert "license" in ask.error("list_n8n_resources", kind="projects").message
    error = ask.error("list_n8n_resources", kind="folders", projectId="personal")
    assert ("license" if line == "2" else "too old") in error.message


class TestWithFewerRights:
    """What every tool answers to those who may do less: a refusal that says so, and nothing has changed."""

    @pytest.fixture
    def owned(self, ask: Ask, n8n: Server, settled: partial[None], line: str) -> dict[str, str]:
        """What belongs to the owner: a workflow, an execution, a table."""
        nodes = [script.webhook("toolhub-owned"), script.code("Work", "return [{json: {a: 1}}];")]
        links = {"Webhook": script.to("Work")}
        one = ask("create_workflow", name="owned", nodes=nodes, connections=links, settings={})["id"]
        ask("activate_workflow", id=one)
        settled("toolhub-owned")
        ran = ask("run_workflow", id=one)["id"]
        ask("deactivate_workflow", id=one)
        return {"workflow": one, "execution": ran, "table": new_table(n8n, "owned") if line == "2" else UNKNOWN}

    @pytest.fixture
    def file_root(self, tmp_path: Path, settings: LazySettings) -> Path:
        settings.TOOLHUB_FILE_ROOT = tmp_path
        (tmp_path / "one.json").write_text('{"name": "x", "nodes": [], "connections": {}, "settings": {}}')
        return tmp_path

    def test_a_member_sees_and_changes_nothing_of_the_owner(
        self, ask: Ask, n8n: Server, owned: dict[str, str], file_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = _state(n8n, owned)
        _turn(monkeypatch, n8n.key_of_member())
        for name, arguments in _of_others(owned):
            if name == "list_executions":
                assert ask(name, **arguments)["executions"] == []
                continue
            error = ask.error(name, **arguments)
            assert error.code in ("NOT_FOUND", "API_ERROR", "AUTHORIZATION_ERROR"), (name, error.as_dict())
        assert _state(n8n, owned) == before
        assert owned["workflow"] not in str(ask("list_workflows"))
        assert owned["execution"] not in [each["id"] for each in ask("list_executions")["executions"]]
        # What is their own they may have.
        mine = ask("create_workflow", name="mine", nodes=[script.MANUAL], connections={}, settings={})["id"]
        rename = [{"op": "rename_workflow", "name": "still mine"}]
        ask("edit_workflow", id=mine, operations=rename)
        assert [each["name"] for each in ask("list_workflows")["workflows"]] == ["still mine"]
        ask("delete_workflow", id=mine)

    def test_a_key_that_reads_changes_nothing(
        self, ask: Ask, n8n: Server, line: str, owned: dict[str, str], file_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if line == "1":
            pytest.skip("n8n 1 does not enforce scopes without a license")
        before = _state(n8n, owned)
        _turn(monkeypatch, n8n.key_that_reads())
        writes = {tool.name for tool in pack.tools if not tool.hints.read_only}
        for name, arguments in _of_others(owned):
            if name not in writes or name == "save_execution_file":
                continue
            if name == "run_workflow":
                continue  # it calls the trigger of an active workflow, without the key
            error = ask.error(name, **arguments)
            assert error.context.get("statusCode") == 403, (name, error.as_dict())
        assert _state(n8n, owned) == before
        assert ask("get_workflow", id=owned["workflow"])["name"] == "owned"
        assert ask("get_execution", id=owned["execution"])["status"] == "success"
        assert ask("list_data_table_rows", id=owned["table"])["count"] == 0


def _turn(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("N8N_API_KEY", key)
    rebuild_catalog()


def _state(n8n: Server, owned: dict[str, str]) -> Any:
    with n8n.api as api:
        workflow = api.get(f"/workflows/{owned['workflow']}").raise_for_status().json()
        execution = api.get(f"/executions/{owned['execution']}").raise_for_status().json()
        rows = api.get(f"/data-tables/{owned['table']}/rows").json()
    return {key: workflow[key] for key in ("name", "nodes", "connections", "active")}, execution, rows


def _of_others(owned: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """A call of every tool that is about one workflow, execution or table."""
    workflow, execution, table = owned["workflow"], owned["execution"], owned["table"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_workflow", {"id": workflow}),
        ("get_workflow_node", {"workflowId": workflow, "nodeId": "Work"}),
        ("get_workflow_connections", {"id": workflow}),
        ("update_workflow", {"id": workflow, "name": "taken"}),
        ("edit_workflow", {"id": workflow, "operations": [{"op": "rename_workflow", "name": "taken"}]}),
        ("validate_workflow", {"id": workflow}),
        ("list_workflow_versions", {"id": workflow}),
        ("replace_workflow_from_file", {"id": workflow, "filePath": "one.json"}),
        ("activate_workflow", {"id": workflow}),
        ("deactivate_workflow", {"id": workflow}),
        ("delete_workflow", {"id": workflow}),
        ("list_executions", {"workflowId": workflow}),
        ("get_execution", {"id": execution}),
        ("get_execution_by_node", {"id": execution, "nodeName": "Work"}),
        ("explain_execution", {"id": execution}),
        ("save_execution_file", {"id": execution, "nodeName": "Work"}),
        ("run_workflow", {"id": workflow}),
        ("retry_execution", {"id": execution}),
        ("stop_execution", {"id": execution}),
        ("delete_execution", {"id": execution}),
        ("list_data_table_rows", {"id": table}),
        ("insert_data_table_rows", {"id": table, "rows": [{"order": 1}]}),
        ("update_data_table_rows", {"id": table, "filter": OPEN, "values": {"order": 1}}),
        ("delete_data_table_rows", {"id": table, "filter": OPEN}),
    ]
    about_none = {"list_workflows", "create_workflow", "create_workflow_from_file", "list_n8n_resources"}
    about_none |= {"search_node_types", "get_node_type"}
    assert {name for name, _ in calls} | about_none == {tool.name for tool in pack.tools}
    return calls
