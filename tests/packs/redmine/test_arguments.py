"""What is refused before anything is sent."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.support.redmine import FakeRedmine
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.schemas import parts_of
from tools_app.sdk.tool import Tool

ISSUE: dict[str, Any] = {"project_id": "1", "subject": "x"}
TIME: dict[str, Any] = {"issue_id": 1, "hours": 1}


def _is_id_as_text(name: str, part: dict[str, Any]) -> bool:
    return (name == "id" or name.endswith("_id")) and part["type"] == "string"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("list_issues", {"limit": 0}, "limit: expected 1 or more"),
        ("list_issues", {"limit": 101}, "limit: expected 100 or less"),
        ("list_projects", {"offset": -1}, "offset: expected 0 or more"),
        ("list_users", {"limit": "x"}, "limit: expected number"),
        ("list_issues", {"include": "journals"}, "include: 'journals' is not one of attachments, relations"),
        (
            "get_issue",
            {"id": 1, "include": "notes"},
            "is not one of children, attachments, relations, changesets, journals,",
        ),
        ("show_project", {"id": "1", "include": "x"}, "is not one of trackers, issue_categories, enabled_modules,"),
        ("show_user", {"id": "5", "include": "x"}, "is not one of memberships, groups"),
        ("list_issues", {"sort": "id; drop"}, "sort"),
        ("list_issues", {"created_on": "yesterday"}, "created_on"),
        ("list_issues", {"created_on": "2026-02-31"}, "not a valid date"),
        ("list_issues", {"created_on": "><2026-01-01"}, "expected a date, also after >= or <=, or a range as"),
        ("list_issues", {"updated_on": ">2026-01-01"}, "updated_on"),
        ("list_issues", {"updated_on": "20260101"}, "'20260101' is not a date filter; expected a date, also after"),
        ("list_issues", {"updated_on": "2026-W01-1"}, "is not a date filter"),
        ("list_issues", {"updated_on": "2026-01-01T00:00:00+01:00"}, "is not a date filter"),
        ("list_issues", {"updated_on": "><2026-01-01|2026-02-30"}, "not a valid date"),
        (
            "list_issues",
            {"sort": "priorty:desc"},
            "'priorty' is not one of id, project, tracker, status, priority,",
        ),
        ("list_issues", {"sort": "id,cf_0"}, "'cf_0' is not one of"),
        ("list_issues", {"project_id": -1}, "project_id: expected an id from 1, or a name"),
        ("list_issues", {"project_id": "0"}, "project_id: expected an id from 1, or a name"),
        ("list_issues", {"tracker_id": 2**31}, "tracker_id: expected an id from 1, or a name"),
        ("list_issues", {"tracker_id": 1.5}, "tracker_id: expected string"),
        ("list_issues", {"tracker_id": True}, "tracker_id: expected string"),
        ("list_issues", {"assigned_to_id": "٣"}, "expected me, !*, *, an id, or a name together with project_id"),
        ("list_time_entries", {"user_id": "٣"}, "expected me, an id, or a name together with project_id"),
        ("show_user", {"id": 0}, "id: expected text that matches"),
        ("create_project", {"name": "x", "identifier": "2026"}, "digits alone are an id"),
        ("list_issues", {"cf_x": "1"}, "Unknown parameter: cf_x"),
        ("list_issues", {"cf_3": ""}, "cf_3: expected a value that is not empty"),
        ("list_issues", {"set_filter": "1"}, "Unknown parameter: set_filter"),
        ("list_issues", {"issue_id": "1,a"}, "issue_id"),
        ("list_issues", {"subproject_id": "*"}, "subproject_id"),
        ("list_issues", {"assigned_to_id": "Mara"}, "expected me, !*, *, an id, or a name together with project_id"),
        ("get_issue", {"id": 0}, "id: expected 1 or more"),
        ("get_issue", {"id": "one"}, "id: expected number"),
        ("get_issue", {"id": "01"}, "id: expected number"),
        ("show_user", {"id": "you"}, "id"),
        ("list_projects", {"status": 2}, "status: expected active or closed (1 or 5)"),
        ("list_projects", {"status": 9}, "Redmine's API never lists archived projects"),
        ("update_issue", {"id": 1, "fixed_version_id": None}, 'use update_issue with clear: ["fixed_version_id"]'),
        ("update_issue", {"id": 1, "fixed_version_id": ""}, 'use update_issue with clear: ["fixed_version_id"]'),
        ("update_issue", {"id": 1, "assigned_to_id": None}, 'use update_issue with clear: ["assigned_to_id"]'),
        ("update_issue", {"id": 1, "due_date": None}, 'use update_issue with clear: ["due_date"]'),
        ("update_issue", {"id": 1, "parent_issue_id": None}, 'use update_issue with clear: ["parent_issue_id"]'),
        ("update_issue", {"id": 1, "custom_fields": [{"value": "x"}]}, "expected the id or the name of a custom field"),
        ("create_issue", {"subject": "x"}, "Required parameter missing: project_id"),
        ("create_issue", {"project_id": "1"}, "Required parameter missing: subject"),
        ("create_issue", ISSUE | {"subject": " "}, "subject"),
        ("create_issue", ISSUE | {"start_date": "2026-13-01"}, "start_date: '2026-13-01' is not a valid date"),
        ("create_issue", ISSUE | {"done_ratio": 101}, "done_ratio: expected 100 or less"),
        ("create_issue", ISSUE | {"author_id": 1}, "Unknown parameter: author_id"),
        ("create_issue", ISSUE | {"lock_version": 0}, "Unknown parameter: lock_version"),
        ("create_issue", ISSUE | {"custom_fields": [{"id": 1, "value": "x", "role": "y"}]}, "role"),
        ("update_issue", {"id": 1}, "Nothing to change: give at least one field besides id"),
        ("update_issue", {"id": 1, "clear": ["subject"]}, "expected one of assigned_to_id, category_id"),
        ("create_project", {"name": "x", "identifier": "Bad Ident"}, "identifier"),
        ("create_project", {"name": "x", "identifier": "x", "status": 1}, "Unknown parameter: status"),
        (
            "create_project",
            {"name": "x", "identifier": "x", "enabled_module_names": ["shell"]},
            "expected one of boards",
        ),
        ("create_time_entry", {"hours": 1}, "Give exactly one of issue_id and project_id"),
        ("create_time_entry", TIME | {"project_id": "1"}, "Give exactly one of issue_id and project_id"),
        ("create_time_entry", TIME | {"hours": 0}, "hours: expected more than 0"),
        ("create_time_entry", TIME | {"comments": "x" * 256}, "comments: expected at most 255 characters"),
        ("update_time_entry", {"id": 1}, "Nothing to change"),
        ("list_time_entries", {"from": "2026-02-30"}, "not a valid date"),
        ("list_time_entries", {"user_id": "Mara"}, "expected me, an id, or a name together with project_id"),
        ("create_user", {"login": "a", "firstname": "a", "lastname": "b", "mail": "x"}, "mail"),
        (
            "create_user",
            {"login": "a", "firstname": "a", "lastname": "b", "mail": "a@b", "admin": True},
            "Unknown parameter: admin",
        ),
        ("update_user", {"id": 5, "api_key": "x"}, "Unknown parameter: api_key"),
        ("search_redmine", {"query": " "}, "query"),
    ],
)
def test_is_refused_and_nothing_is_sent(
    office: Office,
    redmine: FakeRedmine,
    name: str,
    arguments: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "environment")
    error = office.refusal("admin", name, **arguments)
    assert isinstance(error, InvalidArgumentsError)
    assert any(message in problem.message for problem in error.details)
    assert redmine.requests == []


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"cf_3": "High", "cf_12": "~part"}, {"cf_3": "High", "cf_12": "~part"}),
        ({"created_on": "><2026-01-01|2026-01-31"}, {"created_on": "><2026-01-01|2026-01-31"}),
        ({"status_id": "closed", "sort": "priority:desc,id"}, {"status_id": "closed", "sort": "priority:desc,id"}),
        ({"issue_id": "1,2"}, {"issue_id": "1,2", "status_id": "*"}),
        ({"assigned_to_id": "me", "author_id": "5"}, {"assigned_to_id": "me", "author_id": "5"}),
        ({"project_id": 1, "tracker_id": 2, "status_id": 5}, {"project_id": "1", "tracker_id": "2", "status_id": "5"}),
        ({"issue_id": 2, "subproject_id": 2}, {"issue_id": "2", "subproject_id": "2", "status_id": "*"}),
        ({"created_on": ">=2026-01-01T08:00:00Z"}, {"created_on": ">=2026-01-01T08:00:00Z"}),
        ({"sort": "cf_3:desc,fixed_version.cf_12,due_date"}, {"sort": "cf_3:desc,fixed_version.cf_12,due_date"}),
        ({"project_id": "Closed project"}, {"project_id": "6"}),
        ({"project_id": "Alpha", "tracker_id": "feature"}, {"project_id": "1", "tracker_id": "2"}),
        ({"project_id": "alpha", "fixed_version_id": "0.9"}, {"project_id": "alpha", "fixed_version_id": "2"}),
    ],
)
def test_filters_reach_redmine_as_it_knows_them(
    office: Office, redmine: FakeRedmine, arguments: dict[str, Any], query: dict[str, str]
) -> None:
    office.call("admin", "list_issues", **arguments)
    sent = [seen.target for seen in redmine.requests if seen.target.startswith("/tracker/issues.json")]
    assert dict(parse_qsl(urlsplit(sent[0]).query)) == query | {"limit": "25", "offset": "0"}


def test_an_ambiguous_name_is_refused_with_the_candidates(office: Office, redmine: FakeRedmine) -> None:
    redmine.projects[5]["name"] = "alpha SUB"
    error = office.refusal("admin", "list_issues", project_id="Alpha Sub")
    assert error.message == (
        "Invalid value for parameter project_id: Alpha Sub is the name of more than one project; "
        "expected one of Alpha sub (alpha-sub), alpha SUB (empty)"
    )
    assert not [seen for seen in redmine.requests if "issues" in seen.target]


@pytest.mark.parametrize("given", ["docs", "DOCS"])
def test_an_ambiguous_name_is_refused_also_where_it_could_be_an_identifier(
    office: Office, redmine: FakeRedmine, given: str
) -> None:
    redmine.projects[2]["name"], redmine.projects[5]["name"] = "Docs", "dOCS"
    error = office.refusal("admin", "list_issues", project_id=given)
    assert "is the name of more than one project; expected one of Docs (alpha-sub), dOCS (empty)" in error.message
    assert not [seen for seen in redmine.requests if "issues" in seen.target]


def test_what_is_spelt_just_so_comes_first(office: Office, redmine: FakeRedmine) -> None:
    redmine.projects[2]["name"], redmine.projects[5]["name"] = "Docs", "DOCS"
    assert office.call("admin", "show_project", id="Docs")["project"]["id"] == 2
    assert office.call("admin", "show_project", id="DOCS")["project"]["id"] == 5


def test_a_version_can_be_named_like_a_number(office: Office, redmine: FakeRedmine) -> None:
    versions = [{"id": 2, "name": "2026"}, {"id": 7, "name": "2"}]
    redmine.breaks("GET /projects/alpha/versions", json.dumps({"versions": versions, "total_count": 2}).encode())
    for given, sent in (("2026", "2"), ("2", "2"), (7, "7"), (8, "8")):
        redmine.requests.clear()
        office.call("admin", "list_issues", project_id="alpha", fixed_version_id=given)
        asked = [seen.target for seen in redmine.requests if seen.target.startswith("/tracker/issues.json")]
        assert dict(parse_qsl(urlsplit(asked[0]).query))["fixed_version_id"] == sent


# By tool, the parameters that take ids as texts, and what else the tool needs.
TEXT_IDS = {
    tool.name: [name for name, part in tool.input_schema["properties"].items() if _is_id_as_text(name, part)]
    for tool in TOOLS.values()
}


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, ids in TEXT_IDS.items() for one in ids])
def test_every_id_that_is_a_text_can_be_sent_as_a_number(name: str, parameter: str) -> None:
    tool = TOOLS[name]
    arguments = dict(tool.examples[0].parameters) | {parameter: 1}
    if name == "create_time_entry":
        arguments.pop("project_id" if parameter != "project_id" else "issue_id", None)
    with_defaults = tool.spec.checker.with_defaults(arguments)
    assert with_defaults[parameter] == "1"
    tool.checked(with_defaults)


PATHS = [
    *("../users/1", "..", ".", "...", "%2e%2e%2fusers", "%2e%2e", "1/../../users/1", "/users/1", "//host/x", "1?x=1"),
    *("1#x", "1;x", "1%00", "a\\b", "a\x00b", "a\nb", "a\uff0fb", "a\u2215b", "1.json", "x" * 255, "x" * 10_000, "-1"),
]
# Every parameter that may become part of a path, or the value of a filter, as a text.
TEXTS = [
    (name, parameter)
    for name, parameters in TEXT_IDS.items()
    for parameter in parameters
    if parameter not in ("subproject_id", "issue_id") and name not in ("create_user", "update_user", "delete_user")
]


@pytest.mark.parametrize(("name", "parameter"), TEXTS)
def test_no_id_leads_anywhere_else(office: Office, redmine: FakeRedmine, name: str, parameter: str) -> None:
    needed = {"project_id": "1", "tracker_id": "Bug", "id": 1, "subject": "x", "hours": 1, "query": "x", "name": "x"}
    needed |= {"title": "Wiki", "text": "x", "wiki_page": "Wiki", "filename": "x", "ids": [1], "notes": "x"}
    needed |= {"user_id": "5", "roles": ["Manager"], "group_by": ["status"]}
    known = TOOLS[name].input_schema["properties"]
    sent = {key: value for key, value in needed.items() if key in known}
    if name == "create_project":
        sent["identifier"] = "new"
    if name == "create_time_entry" and parameter != "project_id":
        sent["issue_id"] = 1
        del sent["project_id"]
    for path in PATHS:
        error = office.refusal("admin", name, **sent | {parameter: path})
        assert isinstance(error, InvalidArgumentsError), path
    asked = {seen.target.partition("?")[0] for seen in redmine.requests}
    lists = r"/(trackers|issue_statuses|projects|enumerations/[a-z_]+|users|users/current|roles|queries|issues/1"
    lists += r"|time_entries/1|issue_categories/1)\.json"
    of_project = r"/projects/1(/(memberships|versions|issue_categories))?\.json"
    assert all(re.fullmatch(f"/tracker({lists}|{of_project})", path) for path in asked), asked
    assert {seen.method for seen in redmine.requests} <= {"GET"}


@pytest.mark.parametrize("name", ["get_wiki_page", "write_wiki_page", "delete_wiki_page"])
def test_no_title_leads_out_of_the_wiki(office: Office, redmine: FakeRedmine, name: str) -> None:
    beside = {"text": "x", "version": 1} if name == "write_wiki_page" else {}
    for path in PATHS:
        office.refusal("admin", name, project_id="1", title=path, **beside)
    asked = {seen.target.partition("?")[0] for seen in redmine.requests} - {
        "/tracker/users/current.json",
        "/tracker/projects/1.json",
    }
    assert all(re.fullmatch(r"/tracker/projects/1/wiki/[^/]+\.json", path) for path in asked), asked
    assert not [path for path in asked if ".." in path]
    assert {seen.method for seen in redmine.requests} == {"GET"}


def test_no_parameter_is_of_one_type_or_another() -> None:
    for tool in TOOLS.values():
        for part in parts_of(tool.input_schema):
            assert not isinstance(part.body.get("type"), list), (tool.name, str(part))
            assert not part.body.keys() & {"anyOf", "oneOf"}, (tool.name, str(part))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("x", "x"), (8, "8"), (8.0, "8"), (99.5, "99.5"), (True, "1"), (False, "0"), (None, None), ("", ""),
        (["a", 5, True], ["a", "5", "1"]), ([], []),
    ],
)  # fmt: skip
def test_values_of_custom_fields_are_sent_as_redmine_keeps_them(
    office: Office, redmine: FakeRedmine, given: Any, sent: Any
) -> None:
    fields = [{"id": 3, "value": given}]
    office.call("admin", "create_issue", project_id="alpha", subject="x", custom_fields=fields)
    (made,) = [seen for seen in redmine.requests if seen.method == "POST"]
    assert json.loads(made.body)["issue"]["custom_fields"] == [{"id": 3, "value": sent}]


WRITING = [tool for tool in TOOLS.values() if tool.hints.writes]
# What would make more of whoever is named, or of what is made.
FOREIGN = (
    *("role", "is_superuser", "enabled", "owner", "definition_approved", "admin", "api_key", "status", "author_id"),
    *("lock_version", "created_on", "user", "issue", "project", "issue[author_id]", "X-Redmine-Switch-User", "_method"),
)


@pytest.mark.parametrize("tool", WRITING, ids=lambda tool: tool.name)
def test_nothing_is_passed_on_that_a_tool_does_not_name(
    office: Office, redmine: FakeRedmine, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "true")
    foreign = [name for name in FOREIGN if name not in tool.input_schema["properties"]]
    assert len(foreign) >= len(FOREIGN) - 1
    for name in foreign:
        error = office.refusal("admin", tool.name, **dict(tool.examples[0].parameters) | {name: True})
        assert [problem.message for problem in error.details] == [f"Unknown parameter: {name}"]
    assert redmine.requests == []
