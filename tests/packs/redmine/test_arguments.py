"""What is refused before anything is sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.packs.redmine.office import Office
from tests.support.redmine import FakeRedmine
from tools_app.errors import InvalidArgumentsError

ISSUE: dict[str, Any] = {"project_id": "1", "subject": "x"}
TIME: dict[str, Any] = {"issue_id": 1, "hours": 1}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("list_issues", {"limit": 0}, "limit: expected 1 or more"),
        ("list_issues", {"limit": 101}, "limit: expected 100 or less"),
        ("list_projects", {"offset": -1}, "offset: expected 0 or more"),
        ("list_users", {"limit": "x"}, "limit: expected integer"),
        ("list_issues", {"include": "journals"}, "include: 'journals' is none of attachments, relations"),
        (
            "get_issue",
            {"id": 1, "include": "notes"},
            "is none of children, attachments, relations, changesets, journals,",
        ),
        ("show_project", {"id": "1", "include": "x"}, "is none of trackers, issue_categories, enabled_modules,"),
        ("show_user", {"id": "5", "include": "x"}, "is none of memberships, groups"),
        ("list_issues", {"sort": "id; drop"}, "sort"),
        ("list_issues", {"created_on": "yesterday"}, "created_on"),
        ("list_issues", {"created_on": "2026-02-31"}, "no date of the calendar"),
        ("list_issues", {"created_on": "><2026-01-01"}, "expected a date, or one behind >= or <=, or two as"),
        ("list_issues", {"updated_on": ">2026-01-01"}, "updated_on"),
        ("list_issues", {"cf_x": "1"}, "Unknown parameter: cf_x"),
        ("list_issues", {"set_filter": "1"}, "Unknown parameter: set_filter"),
        ("list_issues", {"issue_id": "1,a"}, "issue_id"),
        ("list_issues", {"subproject_id": "*"}, "subproject_id"),
        ("list_issues", {"assigned_to_id": "Mara"}, "expected me, !*, *, an id, or a name together with project_id"),
        ("get_issue", {"id": 0}, "id: expected 1 or more"),
        ("get_issue", {"id": "1"}, "id: expected integer"),
        ("show_user", {"id": "me"}, "id"),
        ("list_projects", {"status": 2}, "status: expected one of 1, 5, 9"),
        ("create_issue", {"subject": "x"}, "Required parameter missing: project_id"),
        ("create_issue", {"project_id": "1"}, "Required parameter missing: subject"),
        ("create_issue", ISSUE | {"subject": " "}, "subject"),
        ("create_issue", ISSUE | {"start_date": "2026-13-01"}, "start_date: '2026-13-01' is no date of the calendar"),
        ("create_issue", ISSUE | {"done_ratio": 101}, "done_ratio: expected 100 or less"),
        ("create_issue", ISSUE | {"author_id": 1}, "Unknown parameter: author_id"),
        ("create_issue", ISSUE | {"lock_version": 0}, "Unknown parameter: lock_version"),
        ("create_issue", ISSUE | {"custom_fields": [{"id": 1, "value": "x", "role": "y"}]}, "role"),
        ("update_issue", {"id": 1}, "Nothing to change: give at least one field beside id"),
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
        ("list_time_entries", {"from": "2026-02-30"}, "no date of the calendar"),
        ("list_time_entries", {"user_id": "Mara"}, "expected me, or the id of a user"),
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
    "path",
    [
        "../users/1",
        "..",
        ".",
        "%2e%2e%2fusers",
        "1/../../users/1",
        "1?x=1",
        "1#x",
        "1;x",
        "a\\b",
        "a\x00b",
        "a\uff0fb",
        "x" * 255,
    ],
)
def test_no_identifier_leads_anywhere_else(office: Office, redmine: FakeRedmine, path: str) -> None:
    office.refusal("admin", "show_project", id=path)
    targets = [seen.target.partition("?")[0] for seen in redmine.requests]
    allowed = ("/tracker/projects.json", "/tracker/users/current.json")
    assert all(target in allowed or "/" not in target.removeprefix("/tracker/projects/") for target in targets)


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"cf_3": "High", "cf_12": "~part"}, {"cf_3": "High", "cf_12": "~part"}),
        ({"created_on": "><2026-01-01|2026-01-31"}, {"created_on": "><2026-01-01|2026-01-31"}),
        ({"status_id": "closed", "sort": "priority:desc,id"}, {"status_id": "closed", "sort": "priority:desc,id"}),
        ({"issue_id": "1,2"}, {"issue_id": "1,2", "status_id": "*"}),
        ({"assigned_to_id": "me", "author_id": "5"}, {"assigned_to_id": "me", "author_id": "5"}),
        ({"project_id": 1, "tracker_id": 2, "status_id": 5}, {"project_id": "1", "tracker_id": "2", "status_id": "5"}),
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
