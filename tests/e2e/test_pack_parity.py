"""What reads in the packs of upstreams says the same through every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_parity import Asked, by_command, over_http, over_rest, over_stdio
from tests.packs.n8n.fake import KEY, N8n
from tests.packs.n8n.node_types import exported
from tests.packs.n8n.test_workflows import shown
from tests.packs.redmine.office import TOOLS as REDMINE_TOOLS
from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.processes import Home
from tests.support.redmine import FakeRedmine
from tools_app.packs.n8n import (
    changes,
    edits,
    execution_files,
    executions,
    files,
    lists,
    node_docs,
    resources,
    tables,
    triggers,
    versions,
    workflows,
)
from tools_app.packs.n8n import pack as n8n_pack

# A pack has the tools of its modules, once these are imported.
N8N_MODULES = (
    *(changes, edits, execution_files, executions, files, lists, node_docs, resources, tables, triggers, versions),
    workflows,
)

REDMINE: list[Asked] = [
    ("get_issue", {"id": 1, "include": "journals"}),
    ("get_issue", {"id": 999}),
    ("get_attachment", {"id": 1}),
    ("get_wiki_page", {"project_id": "alpha", "title": "Wiki"}),
    ("list_activities", {}),
    ("list_custom_fields", {}),
    ("list_issue_statuses", {}),
    ("list_issues", {"sort": "priority:desc,due_date"}),
    ("list_members", {"project_id": "alpha"}),
    ("list_priorities", {}),
    ("list_project_statuses", {"project_id": "alpha", "tracker_id": "Bug"}),
    ("list_projects", {}),
    ("list_queries", {}),
    ("list_roles", {}),
    ("list_time_entries", {"user_id": "me"}),
    ("list_trackers", {}),
    ("list_users", {}),
    ("list_versions", {"project_id": "alpha"}),
    ("list_wiki_pages", {"project_id": "alpha"}),
    ("search_redmine", {"query": "login"}),
    ("show_project", {"id": "alpha", "include": "trackers"}),
    ("show_time_entry", {"id": 1}),
    ("show_user", {"id": "current"}),
    ("summarize_issues", {"group_by": ["status", "assigned_to"]}),
    ("summarize_project", {"id": "alpha"}),
    ("summarize_time_entries", {"group_by": ["user"]}),
]


def n8n_calls(workflow: str, execution: str, table: str) -> list[Asked]:
    return [
        ("list_workflows", {}),
        ("get_workflow", {"id": workflow}),
        ("get_workflow", {"id": workflow, "raw": True}),
        ("get_workflow", {"id": "nothing"}),
        ("get_workflow_connections", {"id": workflow}),
        ("get_workflow_node", {"workflowId": workflow, "nodeId": "Make items"}),
        ("validate_workflow", {"id": workflow}),
        ("list_n8n_resources", {"kind": "tags"}),
        ("list_workflow_versions", {"id": workflow}),
        ("list_executions", {"limit": 5}),
        ("get_execution", {"id": execution}),
        ("get_execution_by_node", {"id": execution, "nodeName": "Make items"}),
        ("explain_execution", {"id": execution}),
        ("list_data_table_rows", {"id": table, "sort": "order:desc"}),
        ("search_node_types", {"query": "slack"}),
        ("get_node_type", {"type": "n8n-nodes-base.slack"}),
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, list[Asked]]]:
    with N8n() as n8n, FakeRedmine() as redmine:
        table = n8n.data.add("orders", order="number")
        n8n.data.rows[table] += [{"order": number, "id": number} for number in (1, 2)]
        asked = n8n_calls(n8n.add(shown()), n8n.hold("chain"), table)
        # As data at every door: REST gives it so anyway, the others give XML unless they are asked.
        asked += [(name, {**arguments, "format": "json"}) for name, arguments in REDMINE]
        accounts = {
            "N8N_URL": n8n.url,
            "N8N_API_KEY": KEY,
            "REDMINE_HOST": redmine.url,
            "REDMINE_API_KEY": "key-of-admin",
        }
        files = tmp_path_factory.mktemp("files")
        (files / "nodes.json").write_text(exported())
        accounts |= {"TOOLHUB_FILE_ROOT": str(files), "N8N_NODE_TYPES": "nodes.json"}
        made = Home(tmp_path_factory.mktemp("packs") / "home", accounts)
        assert made.run("synctools").returncode == 0
        yield made, asked


@pytest.mark.mcp
def test_every_tool_that_reads_says_the_same_through_every_door(home: tuple[Home, list[Asked]]) -> None:
    hub, asked = home
    reading = {tool.name for tool in (*n8n_pack.tools, *REDMINE_TOOLS.values()) if tool.hints.read_only}
    assert {name for name, _ in asked} == reading, "call every one of them"
    rest = over_rest(hub, asked)
    for (name, arguments), outcome in zip(asked, rest, strict=True):
        assert isinstance(outcome, dict) or arguments.get("id") in ("nothing", 999), (name, outcome)
    assert over_stdio(hub, asked) == rest
    assert over_http(hub, LEGACY, asked) == rest
    assert over_http(hub, MODERN, asked) == rest
    for outcome, expected in zip(by_command(hub, asked), rest, strict=True):
        if isinstance(expected, dict):
            assert outcome == expected
        else:
            assert outcome[0] == 1
            assert expected[1] in outcome[1]


@pytest.mark.mcp
def test_xml_is_the_text_and_data_is_beside_it(home: tuple[Home, list[Asked]], tmp_path: Path) -> None:
    hub, _ = home
    arguments: dict[str, Any] = {"id": 1}
    with Agent(hub) as agent:
        agent.connect()
        result = agent.answer(agent.ask_tool("get_issue", **arguments))["result"]
        agent.leave()
    text = result["content"][0]["text"]
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>')
    assert hub.run("calltool", "get_issue", '{"id": 1}').stdout.strip() == text.strip()
    assert over_rest(hub, [("get_issue", arguments)]) == [result["structuredContent"]]
