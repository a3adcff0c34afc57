"""What every shipped tool says of its effect on data, and why. Keys, toolsets and approvals choose tools by this.

Destructive is what can change or remove what is there, stop what runs, or start what may do so. Only what adds is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.api.rest import Rest, failure
from tests.packs import test_builtin
from tests.packs.effects import ADDS, DESTROYS, HUB, OFTEN, ONCE, READS, WORLD, Effects
from tests.packs.n8n.fake import KEY, N8n, recorded
from tests.support.tools import Hub
from tests.test_contract import registries, shipped
from tools_app import engine, governance
from tools_app.packs.n8n import changes
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError
from tools_app.sdk.reach import Reach

PACKS: dict[str, Effects] = {
    "builtin": test_builtin.EFFECTS,
    "finding": {
        "search_tools": (READS, OFTEN, HUB, "reads the list of tools"),
        "describe_tool": (READS, OFTEN, HUB, "reads the definition of a tool"),
        "call_tool": (READS, OFTEN, WORLD, "forwards only to tools that read; theirs may reach other systems"),
        "call_many": (READS, OFTEN, WORLD, "calls only tools that read; theirs may reach other systems"),
        "call_writing_tool": (
            DESTROYS,
            ONCE,
            WORLD,
            "forwards to any tool; the hub checks the one it names",
        ),
    },
    "websearch": {
        "web_search": (READS, OFTEN, WORLD, "asks search engines"),
        "instant_answer": (READS, OFTEN, WORLD, "asks a search engine"),
        "read_page": (READS, OFTEN, WORLD, "GET of a public page, without cookies or keys"),
    },
    "n8n": {
        "list_workflows": (READS, OFTEN, WORLD, "GET"),
        "get_workflow": (READS, OFTEN, WORLD, "GET"),
        "get_workflow_connections": (READS, OFTEN, WORLD, "GET"),
        "get_workflow_node": (READS, OFTEN, WORLD, "GET"),
        "list_workflow_versions": (READS, OFTEN, WORLD, "GET"),
        "list_executions": (READS, OFTEN, WORLD, "GET"),
        "get_execution": (READS, OFTEN, WORLD, "GET"),
        "get_execution_by_node": (READS, OFTEN, WORLD, "GET"),
        "explain_execution": (READS, OFTEN, WORLD, "GET"),
        "create_workflow": (ADDS, ONCE, WORLD, "adds a workflow that is not active; a second call adds a second one"),
        "create_workflow_from_file": (ADDS, ONCE, WORLD, "as create_workflow"),
        "update_workflow": (
            DESTROYS,
            OFTEN,
            WORLD,
            "replaces nodes, connections, settings; nodes left out are deleted",
        ),
        "edit_workflow": (
            DESTROYS,
            ONCE,
            WORLD,
            "changes and removes nodes; a second call may meet what the first has changed",
        ),
        "validate_workflow": (READS, OFTEN, WORLD, "GET"),
        "replace_workflow_from_file": (DESTROYS, OFTEN, WORLD, "replaces all of a workflow"),
        "delete_workflow": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "activate_workflow": (
            DESTROYS,
            OFTEN,
            WORLD,
            "starts nodes that may delete, also of a new workflow",
        ),
        "deactivate_workflow": (DESTROYS, OFTEN, WORLD, "stops what works; events that arrive meanwhile are lost"),
        "list_n8n_resources": (READS, OFTEN, WORLD, "GET"),
        "delete_execution": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "save_execution_file": (ADDS, ONCE, WORLD, "creates a file, and never overwrites one"),
        "search_node_types": (READS, OFTEN, WORLD, "reads a file of this machine"),
        "get_node_type": (READS, OFTEN, WORLD, "reads a file of this machine"),
        "list_data_table_rows": (READS, OFTEN, WORLD, "GET"),
        "insert_data_table_rows": (ADDS, ONCE, WORLD, "adds rows; a second call adds them again"),
        "update_data_table_rows": (DESTROYS, ONCE, WORLD, "replaces values; with upsert, a second call may add a row"),
        "delete_data_table_rows": (DESTROYS, ONCE, WORLD, "deletes for good; n8n may use their ids again"),
        "run_workflow": (DESTROYS, ONCE, WORLD, "runs nodes that may delete; each call runs them again"),
        "retry_execution": (DESTROYS, ONCE, WORLD, "runs nodes that may delete; what has happened may happen twice"),
        "stop_execution": (DESTROYS, OFTEN, WORLD, "ends a run in the middle; what it held is lost"),
    },
    "redmine": {
        "list_issues": (READS, OFTEN, WORLD, "GET"),
        "get_issue": (READS, OFTEN, WORLD, "GET"),
        "search_redmine": (READS, OFTEN, WORLD, "GET"),
        "list_projects": (READS, OFTEN, WORLD, "GET"),
        "show_project": (READS, OFTEN, WORLD, "GET"),
        "list_project_statuses": (READS, OFTEN, WORLD, "GET"),
        "list_time_entries": (READS, OFTEN, WORLD, "GET"),
        "show_time_entry": (READS, OFTEN, WORLD, "GET"),
        "list_users": (READS, OFTEN, WORLD, "GET"),
        "show_user": (READS, OFTEN, WORLD, "GET"),
        "list_trackers": (READS, OFTEN, WORLD, "GET"),
        "list_priorities": (READS, OFTEN, WORLD, "GET"),
        "list_issue_statuses": (READS, OFTEN, WORLD, "GET"),
        "list_activities": (READS, OFTEN, WORLD, "GET"),
        "list_versions": (READS, OFTEN, WORLD, "GET"),
        "list_custom_fields": (READS, OFTEN, WORLD, "GET"),
        "create_issue": (ADDS, ONCE, WORLD, "adds an issue; a second call adds a second one"),
        "update_issue": (DESTROYS, ONCE, WORLD, "replaces values; moving drops some; each call adds its comment"),
        "delete_issue": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "add_issue_watcher": (ADDS, OFTEN, WORLD, "adds a watcher, who can be there only once"),
        "remove_issue_watcher": (DESTROYS, OFTEN, WORLD, "removes a watcher"),
        "create_project": (ADDS, ONCE, WORLD, "adds a project"),
        "update_project": (
            DESTROYS,
            ONCE,
            WORLD,
            "replaces values; its old name may then mean another one",
        ),
        "archive_project": (DESTROYS, ONCE, WORLD, "hides all of a project; its name may then mean another one"),
        "unarchive_project": (ADDS, OFTEN, WORLD, "brings a project back, and changes nothing in it"),
        "delete_project": (DESTROYS, ONCE, WORLD, "deletes all of a project; its name may then mean another one"),
        "create_time_entry": (ADDS, ONCE, WORLD, "adds spent time; a second call counts it twice"),
        "update_time_entry": (DESTROYS, OFTEN, WORLD, "replaces values, and Redmine keeps no history of them"),
        "delete_time_entry": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "create_user": (ADDS, ONCE, WORLD, "adds a user"),
        "update_user": (DESTROYS, ONCE, WORLD, "replaces values; each call may make a new password and send a mail"),
        "delete_user": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "get_attachment": (READS, OFTEN, WORLD, "GET"),
        "save_attachment": (ADDS, ONCE, WORLD, "creates a file, and never overwrites one"),
        "attach_file": (ADDS, ONCE, WORLD, "adds a file; a second call adds a second one"),
        "delete_attachment": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "list_wiki_pages": (READS, OFTEN, WORLD, "GET"),
        "get_wiki_page": (READS, OFTEN, WORLD, "GET"),
        "write_wiki_page": (DESTROYS, ONCE, WORLD, "replaces the text of a version, which is then an older one"),
        "delete_wiki_page": (DESTROYS, ONCE, WORLD, "deletes all versions; another page may get the title"),
        "list_members": (READS, OFTEN, WORLD, "GET"),
        "list_roles": (READS, OFTEN, WORLD, "GET"),
        "list_queries": (READS, OFTEN, WORLD, "GET"),
        "set_member": (DESTROYS, OFTEN, WORLD, "replaces roles, and gives access to a project"),
        "remove_member": (DESTROYS, OFTEN, WORLD, "takes roles and access away"),
        "summarize_issues": (READS, OFTEN, WORLD, "GET"),
        "summarize_time_entries": (READS, OFTEN, WORLD, "GET"),
        "summarize_project": (READS, OFTEN, WORLD, "GET"),
        "update_issues": (DESTROYS, ONCE, WORLD, "as update_issue, of several"),
        "copy_issue": (ADDS, ONCE, WORLD, "adds an issue; a second call adds a second one"),
        "edit_issue_note": (DESTROYS, OFTEN, WORLD, "replaces a comment, and Redmine keeps no history of it"),
        "create_issue_relation": (ADDS, OFTEN, WORLD, "adds a relation, which can be there only once"),
        "delete_issue_relation": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "create_version": (ADDS, ONCE, WORLD, "adds a version"),
        "update_version": (DESTROYS, OFTEN, WORLD, "replaces values, and Redmine keeps no history of them"),
        "delete_version": (DESTROYS, OFTEN, WORLD, "deletes for good; ids are not used again"),
        "create_issue_category": (ADDS, ONCE, WORLD, "adds a category"),
        "update_issue_category": (DESTROYS, OFTEN, WORLD, "replaces values, and Redmine keeps no history of them"),
        "delete_issue_category": (DESTROYS, OFTEN, WORLD, "deletes for good, also from its issues"),
    },
}
EFFECTS: Effects = {name: effect for effects in PACKS.values() for name, effect in effects.items()}


def test_ships_exactly_these_tools() -> None:
    shipped_packs: dict[str, set[str]] = {}
    for loaded in (loaded for registry in registries() for loaded in registry):
        shipped_packs.setdefault(loaded.pack, set()).add(loaded.spec.name)
    assert shipped_packs == {pack: set(effects) for pack, effects in PACKS.items()}
    assert [problem for registry in registries() for problem in registry.problems] == []


def test_every_shipped_tool_says_what_it_does_to_data() -> None:
    said = {
        tool.name: {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destroys,
            "idempotentHint": tool.hints.repeatable,
            "openWorldHint": tool.hints.open_world,
        }
        for tool in shipped()
    }
    meant = {
        name: {
            "readOnlyHint": effect == READS,
            "destructiveHint": effect == DESTROYS,
            "idempotentHint": repeated == OFTEN,
            "openWorldHint": place == WORLD,
        }
        for name, (effect, repeated, place, _) in EFFECTS.items()
    }
    assert said == meant
    assert {tool.name: tool.hints.as_dict() for tool in shipped()} == meant, "agents are told the same"
    assert all(reason for *_, reason in EFFECTS.values())


@pytest.fixture
def n8n(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[N8n]:
    with N8n("2") as upstream:
        monkeypatch.setenv("N8N_URL", upstream.url)
        monkeypatch.setenv("N8N_API_KEY", KEY)
        upstream.add(recorded("workflow_show", "2"))
        hub.add(changes.update_workflow, changes.create_workflow, changes.activate_workflow)
        yield upstream


EMPTIED = {"id": "wf0001", "nodes": [], "connections": {}}


@pytest.mark.django_db(transaction=True)
def test_a_key_without_destructive_access_empties_no_workflow(n8n: N8n) -> None:
    careful = Rest(
        governance.create_key("careful", scopes=["tools:execute"], may_destroy=False, actor=governance.trusted("t"))[1]
    )
    try:
        failed = failure(careful.call("update_workflow", EMPTIED), 403, "AUTHORIZATION_ERROR")
        assert "update_workflow can destroy" in json.dumps(failed)
        failure(careful.call("activate_workflow", {"id": "wf0001"}), 403, "AUTHORIZATION_ERROR")
        assert n8n.asked() == []
        new = {"name": "new", "nodes": [], "connections": {}, "settings": {}}
        assert careful.call("create_workflow", new).json()["success"] is True
    finally:
        careful.close()
    by = Caller("key", "key:7", "careful", frozenset({"tools:execute"}), Reach(destroys=False))
    with pytest.raises(AuthorizationError, match="update_workflow can destroy"):
        engine.call_sync("update_workflow", EMPTIED, by, door="code", options=engine.Options())
    assert [asked for asked in n8n.asked() if asked.startswith("PUT")] == []
