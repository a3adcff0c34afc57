"""What the pack is, to agents and operators."""

from __future__ import annotations

import json

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.support.redmine import FakeRedmine
from toolhub import testing
from tools_app.packs.redmine import pack
from tools_app.sdk.published import faults
from tools_app.sdk.tool import Tool

READING = {
    *("list_issues", "get_issue", "list_projects", "show_project", "list_project_statuses", "list_time_entries"),
    *("show_time_entry", "list_users", "show_user", "list_trackers", "list_issue_statuses", "list_priorities"),
    *("list_activities", "list_versions", "list_custom_fields", "search_redmine"),
    *("get_attachment", "list_wiki_pages", "get_wiki_page"),
    *("list_members", "list_roles", "list_queries"),
    *("summarize_issues", "summarize_time_entries", "summarize_project"),
}
WRITING = {
    *("create_issue", "update_issue", "delete_issue", "add_issue_watcher", "remove_issue_watcher"),
    *("create_project", "update_project", "archive_project", "unarchive_project", "delete_project"),
    *("create_time_entry", "update_time_entry", "delete_time_entry", "create_user", "update_user", "delete_user"),
    *("save_attachment", "attach_file", "delete_attachment", "write_wiki_page", "delete_wiki_page"),
    *("create_issue_relation", "delete_issue_relation", "create_version", "update_version", "delete_version"),
    *("set_member", "remove_member"),
    *("update_issues", "copy_issue", "edit_issue_note"),
    *("create_issue_category", "update_issue_category", "delete_issue_category"),
}


def test_the_pack_holds_these_tools() -> None:
    assert pack.broken == []
    assert {tool.name for tool in pack.tools if tool.hints.read_only} == READING
    assert {tool.name for tool in pack.tools if tool.hints.writes} == WRITING
    assert {alias: tool.name for tool in pack.tools for alias in tool.aliases} == {
        "show_issue": "get_issue",
        "create_time_entry_for_project": "create_time_entry",
        "create_time_entry_for_issue": "create_time_entry",
    }
    assert [offer.name for offer in pack.offers] == ["plan_my_day"]
    assert testing.findings(pack.offers[0]) == []


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tool_reads_well_to_an_agent(tool: Tool) -> None:
    assert testing.findings(tool) == []
    assert faults(tool.input_schema) == []
    assert tool.input_schema["additionalProperties"] is False
    assert tool.input_schema["properties"]["format"]["enum"] == ["xml", "json"]
    assert tool.output_schema is not None
    assert faults(tool.output_schema) == []
    assert "$ref" not in json.dumps(tool.input_schema)
    assert tool.examples
    # Users are told nothing that only Redmine should know.
    assert "api_key" not in json.dumps(tool.output_schema)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_example_works_as_shown(
    office: Office, redmine: FakeRedmine, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    redmine.projects[1]["identifier"], redmine.projects[5]["identifier"] = "website", "old-site"
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "true")
    with office.as_("admin"):
        testing.assert_contract(tool)


def test_the_prompt_names_what_it_was_given() -> None:
    told = testing.call(pack.offers[0].tool, project="alpha", hours=3)
    assert "project_id=alpha" in json.dumps(told)
    assert "3 hours" in json.dumps(told)
