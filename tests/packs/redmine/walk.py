"""Every tool of the pack, as an administrator and as a user with few permissions, for a real Redmine and ours.

What is written is read back by Redmine's own interface, through the tools that read.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.packs.redmine.office import TOOLS, Office, parsed
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, UpstreamValidationError


def test_an_issue_is_shown_in_the_words_of_the_document(office: Office) -> None:
    data = office.call("admin", "get_issue", id=1, include="journals,relations,watchers,attachments,allowed_statuses")
    issue = parsed(data)
    assert [child.tag for child in issue][:8] == [
        *("id", "subject", "project", "tracker", "status", "priority", "author", "assigned_to"),
    ]
    assert (issue.findtext("version"), issue.findtext("progress"), issue.findtext("category")) == (
        "1.0",
        "60%",
        "Backend",
    )
    assert issue.findtext("assigned_to") == "Δημήτρης O'Dev & Søn"
    fields = {field.findtext("name"): field.findtext("value") for field in issue.iterfind("custom_fields/field")}
    assert fields["Customer"] == "ACME & Söhne <GmbH>"
    assert fields["Platforms"] == "Linux, Windows"
    notes = [journal.findtext("notes") for journal in issue.iterfind("journals/journal")]
    assert notes == ['Plain note with <xml> & "quotes" and 日本語', "Private note", "Change of status and fields"]
    assert [one.text for one in issue.iterfind("watchers/watcher")] == [
        "Mara Manager",
        "Δημήτρης O'Dev & Søn",
        "Lim Ited",
    ]


def test_a_user_with_fewer_permissions_sees_less(office: Office) -> None:
    issue = office.call("limited", "get_issue", id=1, include="journals")["issue"]
    assert "Private note" not in str(issue)
    denied = office.refusal("limited", "get_issue", id=8)
    assert denied.message == "Permission denied: requires a role that can see this issue"


@pytest.mark.parametrize("number", [2, 3, 11])
def test_any_content_of_an_issue_is_well_formed(office: Office, number: int) -> None:
    data = office.call("admin", "get_issue", id=number)
    assert "".join(parsed(data).itertext()).strip()


def test_issues_are_found_by_names(office: Office) -> None:
    data = office.call(
        "manager",
        "list_issues",
        project_id="Alpha",
        tracker_id="bug",
        status_id="in progress",
        assigned_to_id="Δημήτρης O'Dev & Søn",
    )
    assert [issue["id"] for issue in data["issues"]] == [1]
    root = parsed(data)
    assert root.attrib == {"type": "array", "total_count": "1", "offset": "0", "limit": "25"}


def test_a_custom_field_that_redmine_does_not_filter_by_is_refused(office: Office) -> None:
    found = office.call("admin", "list_issues", project_id="alpha", cf_1="~ACME")
    assert [issue["id"] for issue in found["issues"]] == [1]
    assert office.call("admin", "list_issues", project_id="alpha", cf_3="!*")["issues"]
    assert office.call("admin", "list_issues", project_id="alpha", cf_1="nobody")["issues"] == []
    fields = {field["id"]: field for field in office.call("admin", "list_custom_fields")["custom_fields"]}
    for name in ("cf_5", "cf_999"):
        error = office.refusal("admin", "list_issues", project_id="alpha", **{name: "8"})
        assert isinstance(error, InvalidArgumentsError)
        assert f"parameter {name}: Redmine ignores it" in error.message
    assert [fields[number]["is_filter"] for number in (1, 3, 5)] == [True, True, False]


def test_a_project_that_is_closed_can_be_named_and_read(office: Office) -> None:
    assert office.call("limited", "show_project", id="Closed project")["project"]["status"] == "closed"
    found = office.call("limited", "list_issues", project_id="closed project")["issues"]
    assert [issue["subject"] for issue in found] == ["Issue of a closed project"]


def test_no_issues_are_a_list_without_any(office: Office) -> None:
    data = office.call("admin", "list_issues", project_id="Empty")
    assert data == {"issues": [], "total_count": 0, "offset": 0, "limit": 25}
    assert len(parsed(data)) == 0


def test_a_page_is_the_page_that_was_asked_for(office: Office) -> None:
    first = office.call("admin", "list_issues", status_id="*", limit=2)
    second = office.call("admin", "list_issues", status_id="*", limit=2, offset=2)
    assert len(first["issues"]) == len(second["issues"]) == 2
    assert not {issue["id"] for issue in first["issues"]} & {issue["id"] for issue in second["issues"]}


def test_an_issue_lives_and_dies(office: Office) -> None:
    subject = f"<b>Tmp</b> & 日本語 {uuid4().hex}"
    made = office.call(
        "manager",
        "create_issue",
        project_id="alpha",
        subject=subject,
        tracker_id="Feature",
        priority_id="High",
        assigned_to_id="me",
        category_id="Backend",
        fixed_version_id="1.0",
        custom_fields=[{"id": 3, "value": "High"}, {"id": 4, "value": ["Linux", "macOS"]}],
        watcher_user_ids=[6],
        start_date="2026-11-20",
        due_date="2026-12-01",
        estimated_hours=2.5,
        done_ratio=20,
    )["response"]
    number = made["issue"]["id"]
    assert (made["status"], made["message"]) == ("success", f"Issue #{number} was successfully created.")
    issue = office.call("manager", "get_issue", id=number, include="watchers")["issue"]
    assert (issue["subject"], issue["tracker"]["name"], issue["priority"]["name"]) == (subject, "Feature", "High")
    assert [watcher["id"] for watcher in issue["watchers"]] == [6]
    changed = office.call("manager", "update_issue", id=number, status_id="Resolved", notes="Done & <dusted>")[
        "response"
    ]
    assert changed["status"] == "success"
    cleared = office.call("manager", "update_issue", id=number, clear=["assigned_to_id", "due_date"])["response"]
    assert not {"assigned_to", "due_date"} & cleared["issue"].keys()
    issue = office.call("manager", "get_issue", id=number, include="journals")["issue"]
    assert "Done & <dusted>" in [journal.get("notes") for journal in issue["journals"]]
    gone = office.call("manager", "delete_issue", id=number)
    assert gone == {"response": {"status": "success", "message": f"Issue #{number} was successfully deleted."}}
    missing = office.refusal("manager", "get_issue", id=number)
    assert isinstance(missing, NotFoundError)
    assert missing.message == f"Issue #{number} not found"


def test_a_change_that_redmine_only_pretends_to_make_is_a_failure(office: Office) -> None:
    before = office.call("limited", "get_issue", id=2)["issue"]["subject"]
    error = office.refusal("limited", "update_issue", id=2, subject="mine now")
    assert isinstance(error, UpstreamValidationError)
    assert error.message == "Issue #2 was not changed: Redmine accepted the request but ignored subject"
    assert office.call("limited", "get_issue", id=2)["issue"]["subject"] == before
    partly = office.call("limited", "update_issue", id=2, subject="mine now", notes="a note")["response"]
    assert (partly["status"], len(partly["warnings"])) == ("partial", 1)
    moved = office.refusal("limited", "update_issue", id=2, project_id="empty")
    assert moved.message == "Issue #2 was not changed: Redmine accepted the request but ignored project_id"
    public = office.call("limited", "update_issue", id=2, notes="Between us", private_notes=True)["response"]
    assert public["message"] == "Issue #2 was updated, but Redmine ignored private_notes."


def test_an_unknown_name_or_number_is_refused_with_the_choices(office: Office) -> None:
    for wrong in ("Bgu", "99"):
        error = office.refusal("manager", "create_issue", project_id="alpha", subject="x", tracker_id=wrong)
        assert isinstance(error, InvalidArgumentsError)
        assert "expected one of Bug (1), Feature (2), Support (3)" in error.message


def test_unknown_ids_are_reported(office: Office) -> None:
    for name, arguments in (
        ("create_project", {"name": "x", "identifier": "xx1"}),
        ("update_project", {"id": "alpha"}),
    ):
        error = office.refusal("admin", name, **arguments, tracker_ids=[1, 99])
        assert error.message == (
            "Invalid value for parameter tracker_ids: there is no tracker 99; "
            "expected one of Bug (1), Feature (2), Support (3)"
        )
    error = office.refusal("manager", "create_issue", project_id="alpha", subject="x", watcher_user_ids=[6, 999])
    assert error.message == "Failed to create issue: Redmine does not have all of the given ids"
    assert "list_users" in error.next_step


def test_watchers_come_and_go(office: Office) -> None:
    for name, preposition in (("add_issue_watcher", "added to"), ("remove_issue_watcher", "removed from")):
        said = office.call("manager", name, issue_id=3, user_id=5)["response"]
        assert said["message"] == f"User #5 was successfully {preposition} the watchers of issue #3."
    ignored = office.refusal("manager", "add_issue_watcher", issue_id=3, user_id=999)
    assert "Redmine accepted the request but ignored it" in ignored.message
    denied = office.refusal("limited", "remove_issue_watcher", issue_id=1, user_id=5)
    assert denied.message == "Permission denied: requires the permission “Delete watchers” in this project"


def test_projects_are_shown_in_the_words_of_the_document(office: Office) -> None:
    listed = office.call("admin", "list_projects")
    assert {"Alpha", "Beta (private)"} <= {project["name"] for project in listed["projects"]}
    shown = office.call("admin", "show_project", id="Alpha", include="trackers,enabled_modules,issue_categories")
    project = parsed(shown)
    assert [project.findtext(tag) for tag in ("identifier", "status", "is_public")] == ["alpha", "active", "yes"]
    assert [one.text for one in project.iterfind("trackers/tracker")] == ["Bug", "Feature", "Support"]
    assert (
        office.refusal("limited", "show_project", id="3").message
        == "Permission denied: requires a role in this project"
    )


def test_a_project_lives_and_dies(office: Office) -> None:
    key = f"tmp-{uuid4().hex[:12]}"
    made = office.call(
        "admin",
        "create_project",
        name=f"<{key}>",
        identifier=key,
        parent_id="alpha",
        tracker_ids=[1],
        enabled_module_names=["wiki", "issue_tracking"],
        is_public=False,
    )["response"]
    assert (made["status"], made["project"]["is_public"]) == ("success", False)
    changed = office.call("admin", "update_project", id=f"<{key}>", description="a & b", tracker_ids=[2])["response"]
    assert (changed["status"], changed["project"]["description"]) == ("success", "a & b")
    moved = office.call("admin", "update_project", id=key, parent_id="alpha-sub")["response"]
    assert (moved["status"], moved["project"]["parent"]["name"]) == ("success", "Alpha sub")
    statuses = office.call("admin", "list_project_statuses", project_id=key, tracker_id="Feature")
    assert (statuses["statuses"], statuses["message"][:24]) == ([], "The project has no issue")
    assert office.call("admin", "archive_project", id=key)["response"]["message"].endswith("successfully archived.")
    assert office.refusal("admin", "show_project", id=key).message == (
        f"Failed to get project: project #{key} is archived"
    )
    office.call("admin", "unarchive_project", id=key)
    assert office.call("admin", "show_project", id=key)["project"]["name"] == f"<{key}>"
    office.call("admin", "delete_project", id=key)
    assert office.refusal("admin", "show_project", id=key).message == f"Project #{key} not found"


def test_projects_are_for_administrators_to_change(office: Office) -> None:
    for name, arguments, required in (
        ("create_project", {"name": "x", "identifier": "xx1"}, "the permission “Create project”"),
        ("update_project", {"id": "alpha", "description": "x"}, "the permission “Edit project” in this project"),
        ("archive_project", {"id": "alpha"}, "an administrator of Redmine"),
    ):
        error = office.refusal("limited", name, **arguments)
        assert error.message == f"Permission denied: requires {required}"


def test_time_is_logged_and_taken_back(office: Office) -> None:
    made = office.call("manager", "create_time_entry", issue_id=1, hours=1.25, activity_id="design", comments="ü <x>")
    entry = made["response"]["time_entry"]
    assert (entry["hours"], entry["activity"]["name"], entry["issue"]) == (1.25, "Design", {"id": 1})
    number = entry["id"]
    changed = office.call("manager", "update_time_entry", id=number, hours=0.5, activity_id="Development")["response"]
    assert (changed["status"], changed["message"]) == ("success", f"Time entry #{number} was successfully updated.")
    assert office.call("manager", "show_time_entry", id=number)["time_entry"]["hours"] == 0.5
    mine = office.call("manager", "list_time_entries", user_id="me", limit=100)
    assert number in [one["id"] for one in mine["time_entries"]]
    assert mine["total_hours"] == sum(one["hours"] for one in mine["time_entries"])
    assert office.refusal("limited", "delete_time_entry", id=number).message.startswith("Permission denied: requires")
    office.call("manager", "delete_time_entry", id=number)
    assert office.refusal("manager", "show_time_entry", id=number).message == f"Time entry #{number} not found"


def test_users_are_shown_without_their_keys(office: Office) -> None:
    for login, arguments in (("admin", {"id": "5", "include": "memberships,groups"}), ("limited", {"id": "current"})):
        user = office.call(login, "show_user", **arguments)["user"]
        assert "api_key" not in str(user)
    assert [one["login"] for one in office.call("admin", "list_users", name="dev")["users"]] == ["dev"]
    assert office.refusal("limited", "list_users").message == "Permission denied: requires an administrator of Redmine"


def test_a_user_lives_and_dies_where_that_is_allowed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    login = f"t{uuid4().hex[:10]}"
    new = {
        "login": login,
        "firstname": "Ann",
        "lastname": "Lee",
        "mail": f"{login}@example.org",
        "password": "Quite-long-1",
    }
    off = office.refusal("admin", "create_user", **new)
    assert off.message == "Permission denied: user administration is off for the connection environment"
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "other, environment")
    made = office.call("admin", "create_user", **new)["response"]
    assert "Quite-long-1" not in str(made)
    number = made["user"]["id"]
    assert office.call("admin", "update_user", id=number, lastname="Park")["response"]["user"]["lastname"] == "Park"
    office.call("admin", "delete_user", id=number)
    assert office.refusal("admin", "show_user", id=str(number)).message == f"User #{number} not found"


@pytest.mark.parametrize(
    ("name", "arguments", "first"),
    [
        ("list_trackers", {}, "Bug"),
        ("list_issue_statuses", {}, "New"),
        ("list_priorities", {}, "Low"),
        ("list_activities", {}, "Design"),
        ("list_activities", {"project_id": "Alpha"}, "Design"),
        ("list_versions", {"project_id": "alpha"}, "1.0"),
        ("list_custom_fields", {}, "Customer"),
    ],
)
@pytest.mark.parametrize("login", ["admin", "limited"])
def test_lists_say_what_there_is(office: Office, login: str, name: str, arguments: dict[str, Any], first: str) -> None:
    data = office.call(login, name, **arguments)
    things = next(iter(data.values()))
    assert things[0]["name"] == first
    assert data["total_count"] == len(things)


def test_statuses_are_seen_from_an_issue(office: Office) -> None:
    data = office.call("admin", "list_project_statuses", project_id="alpha", tracker_id="Bug")
    assert "New" in [status["name"] for status in data["statuses"]]


def test_searching_finds_something_or_nothing(office: Office) -> None:
    assert office.call("admin", "search_redmine", query="issue", limit=2)["results"]
    assert office.call("admin", "search_redmine", query="nowhere", project_id="alpha")["results"] == []


def test_a_key_that_redmine_does_not_know_is_noticed(office: Office) -> None:
    for name, arguments in (
        ("list_issues", {}),
        ("get_issue", {"id": 2}),
        ("list_trackers", {}),
        ("create_issue", {"project_id": "alpha", "subject": "x"}),
        ("create_issue", {"project_id": "Beta (private)", "subject": "x"}),
        ("list_issues", {"project_id": "alpha", "tracker_id": "No such"}),
    ):
        error = office.refusal("somebody", name, **arguments)
        assert isinstance(error, ApiError)
        assert error.message == "Authentication failed: Redmine does not accept the API key of this connection"


# What somebody says who may report and comment in one project, by tool: nothing, or why not.
DENIED = "Permission denied: requires "
LIMITED: dict[str, tuple[dict[str, Any], str]] = {
    "list_issues": ({"project_id": "alpha"}, ""),
    "get_issue": ({"id": 2}, ""),
    "create_issue": ({"project_id": "beta", "subject": "x"}, f"{DENIED}a role in this project"),
    "update_issue": (
        {"id": 2, "due_date": "2026-12-24"},
        "Issue #2 was not changed: Redmine accepted the request but",
    ),
    "delete_issue": ({"id": 2}, f"{DENIED}the permission “Delete issues” in this project"),
    "add_issue_watcher": ({"issue_id": 2, "user_id": 5}, f"{DENIED}the permission “Add watchers” in this project"),
    "remove_issue_watcher": ({"issue_id": 2, "user_id": 5}, f"{DENIED}the permission “Delete watchers”"),
    "list_projects": ({}, ""),
    "show_project": ({"id": "alpha"}, ""),
    "create_project": ({"name": "x", "identifier": "xx1"}, f"{DENIED}the permission “Create project”"),
    "update_project": ({"id": "alpha", "name": "x"}, f"{DENIED}the permission “Edit project” in this project"),
    "archive_project": ({"id": "alpha"}, f"{DENIED}an administrator of Redmine"),
    "unarchive_project": ({"id": "alpha"}, f"{DENIED}an administrator of Redmine"),
    "delete_project": ({"id": "alpha"}, f"{DENIED}an administrator of Redmine"),
    "list_project_statuses": ({"project_id": "alpha", "tracker_id": "Bug"}, ""),
    "list_time_entries": ({}, ""),
    "show_time_entry": ({"id": 1}, ""),
    "create_time_entry": ({"project_id": 3, "hours": 1, "activity_id": 8}, f"{DENIED}the permission “Log spent time”"),
    "update_time_entry": ({"id": 1, "hours": 2}, f"{DENIED}the permission “Edit time logs” in this project"),
    "delete_time_entry": ({"id": 1}, f"{DENIED}the permission “Edit time logs” in this project"),
    "list_users": ({}, f"{DENIED}an administrator of Redmine"),
    "show_user": ({"id": 5}, ""),
    "create_user": (
        {"login": "x", "firstname": "x", "lastname": "x", "mail": "x@example.org"},
        f"{DENIED}an administrator of Redmine",
    ),
    "update_user": ({"id": 5, "lastname": "x"}, f"{DENIED}an administrator of Redmine"),
    "delete_user": ({"id": 5}, f"{DENIED}an administrator of Redmine"),
    "list_trackers": ({}, ""),
    "list_issue_statuses": ({}, ""),
    "list_priorities": ({}, ""),
    "list_activities": ({"project_id": "alpha"}, ""),
    "list_versions": ({"project_id": "alpha"}, ""),
    "list_custom_fields": ({"project_id": "alpha"}, ""),
    "search_redmine": ({"query": "issue"}, ""),
    "get_attachment": ({"id": 1}, ""),
    "save_attachment": ({"id": 1}, "TOOLHUB_FILE_ROOT is not set"),
    "attach_file": (
        {"project_id": "alpha", "wiki_page": "Wiki", "filename": "x", "text": "x"},
        f"{DENIED}the permission “Edit wiki pages” in this project",
    ),
    "delete_attachment": ({"id": 1}, f"{DENIED}the permission to edit what it is attached to"),
    "list_members": ({"project_id": "alpha"}, ""),
    "list_roles": ({}, ""),
    "list_queries": ({}, ""),
    "set_member": (
        {"project_id": "alpha", "user_id": 7, "roles": ["Manager"]},
        f"{DENIED}the permission “Manage members” in this project",
    ),
    "remove_member": (
        {"project_id": "alpha", "user_id": 7},
        f"{DENIED}the permission “Manage members” in this project",
    ),
    "summarize_issues": ({"group_by": ["status"]}, ""),
    "summarize_time_entries": ({"group_by": ["user"]}, ""),
    "summarize_project": ({"id": "alpha"}, ""),
    "update_issues": (
        {"ids": [2, 8], "due_date": "2026-12-24"},
        "None of 2 issues was changed",
    ),
    "copy_issue": ({"id": 1}, f"{DENIED}the permissions “Copy issues” and “Add issues” in this project"),
    "edit_issue_note": ({"issue_id": 1, "note_id": 4, "notes": "x"}, f"{DENIED}the permission “Edit notes”"),
    "create_issue_relation": (
        {"issue_id": 2, "related_issue_id": 10},
        f"{DENIED}the permission “Manage issue relations” in this project",
    ),
    "delete_issue_relation": ({"id": 1}, f"{DENIED}the permission “Manage issue relations” in this project"),
    "create_version": ({"project_id": "alpha", "name": "x"}, f"{DENIED}the permission “Manage versions”"),
    "update_version": ({"id": 1, "status": "closed"}, f"{DENIED}the permission “Manage versions”"),
    "delete_version": ({"id": 1}, f"{DENIED}the permission “Manage versions”"),
    "create_issue_category": (
        {"project_id": "alpha", "name": "x"},
        f"{DENIED}the permission “Manage issue categories”",
    ),
    "update_issue_category": ({"id": 1, "name": "x"}, f"{DENIED}the permission “Manage issue categories”"),
    "delete_issue_category": ({"id": 1}, f"{DENIED}the permission “Manage issue categories”"),
    "list_wiki_pages": ({"project_id": "alpha"}, ""),
    "get_wiki_page": ({"project_id": "alpha", "title": "Wiki"}, ""),
    "write_wiki_page": (
        {"project_id": "alpha", "title": "Wiki", "text": "x", "version": 2},
        f"{DENIED}the permission “Edit wiki pages” in this project",
    ),
    "delete_wiki_page": (
        {"project_id": "alpha", "title": "Wiki"},
        f"{DENIED}the permission “Delete wiki pages” in this project",
    ),
}


def test_every_tool_reports_missing_permissions(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "true")
    assert LIMITED.keys() == TOOLS.keys()
    for name, (arguments, refused) in LIMITED.items():
        if refused:
            assert office.refusal("limited", name, **arguments).message.startswith(refused), name
        else:
            assert office.call("limited", name, **arguments), name


def test_an_administrator_can_use_every_tool(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "true")
    key, used = f"tmp-{uuid4().hex[:12]}", set()

    def call(name: str, /, **arguments: Any) -> Any:
        used.add(name)
        data = office.call("admin", name, **arguments)
        assert data.get("response", {}).get("status", "success") == "success"
        return next(iter(data.values()))

    call("create_project", name=key, identifier=key, enabled_module_names=["issue_tracking", "time_tracking"])
    call("update_project", id=key, homepage="https://example.org/?a=1&b=2")
    assert key in [project["identifier"] for project in call("list_projects", limit=100)]
    made = call("create_issue", project_id=key, subject="<a> & b", tracker_id="Bug", priority_id="High")
    number = made["issue"]["id"]
    call("update_issue", id=number, done_ratio=50, notes="half", private_notes=True)
    assert [issue["id"] for issue in call("list_issues", project_id=key)] == [number]
    call("add_issue_watcher", issue_id=number, user_id=5)
    call("remove_issue_watcher", issue_id=number, user_id=5)
    watchers = call("get_issue", id=number, include="watchers,journals").get("watchers", [])
    assert 5 not in [watcher["id"] for watcher in watchers]
    call("list_project_statuses", project_id=key, tracker_id="Bug")
    spent = call("create_time_entry", issue_id=number, hours=1.5, activity_id="Design", spent_on="2026-11-18")
    entry = spent["time_entry"]["id"]
    call("update_time_entry", id=entry, comments="ü & <x>")
    assert call("show_time_entry", id=entry)["comments"] == "ü & <x>"
    assert entry in [one["id"] for one in call("list_time_entries", user_id="me", limit=100)]
    assert call("summarize_time_entries", group_by=["user"], project_id=key)[0]["hours"] == 1.5
    assert call("summarize_issues", group_by=["tracker"], project_id=key)[0]["by"] == {"tracker": "Bug"}
    assert call("summarize_project", id=key)["open"] == 1
    call("delete_time_entry", id=entry)
    file = call("attach_file", issue_id=number, filename="a.txt", text="a")["attachment"]["id"]
    assert call("get_attachment", id=file)["text"] == "a"
    call("delete_attachment", id=file)
    call("update_project", id=key, enabled_module_names=["issue_tracking", "time_tracking", "wiki"])
    call("write_wiki_page", project_id=key, title="Start", text="h1. Start")
    assert [page["title"] for page in call("list_wiki_pages", project_id=key)] == ["Start"]
    assert call("get_wiki_page", project_id=key, title="Start")["text"] == "h1. Start"
    call("delete_wiki_page", project_id=key, title="Start")
    other = call("create_issue", project_id=key, subject="other", tracker_id="Bug")["issue"]["id"]
    call("update_issues", ids=[number, other], priority_id="Urgent", notes="Both")
    note = call("get_issue", id=other, include="journals")["journals"][-1]["id"]
    call("edit_issue_note", issue_id=other, note_id=note, notes="Both of them")
    assert call("copy_issue", id=other, subject="copy")["issue"]["subject"] == "copy"
    relation = call("create_issue_relation", issue_id=number, related_issue_id=other, relation_type="blocks")
    call("delete_issue_relation", id=relation["relation"]["id"])
    version = call("create_version", project_id=key, name="1.0", sharing="system")["version"]["id"]
    call("update_version", id=version, status="locked")
    call("delete_version", id=version)
    category = call("create_issue_category", project_id=key, name="Area")["issue_category"]["id"]
    call("update_issue_category", id=category, name="Field")
    call("delete_issue_category", id=category)
    call("delete_issue", id=number)
    call("set_member", project_id=key, user_id=5, roles=["Manager"])
    assert [one["user"]["id"] for one in call("list_members", project_id=key)] == [5]
    call("remove_member", project_id=key, user_id="Mara Manager")
    call("archive_project", id=key)
    call("unarchive_project", id=key)
    assert call("show_project", id=key)["homepage"] == "https://example.org/?a=1&b=2"
    call("delete_project", id=key)
    new = {"login": key, "firstname": "Ann", "lastname": "x" * 30, "mail": f"{key}@example.org"}
    user = call("create_user", **new, generate_password=True)["user"]["id"]
    call("update_user", id=user, lastname="Lee", admin=True)
    assert call("show_user", id=user)["admin"] is True
    call("list_users", name=key)
    call("delete_user", id=user)
    for name in ("list_trackers", "list_issue_statuses", "list_priorities", "list_activities", "list_custom_fields"):
        assert call(name)
    assert [role["name"] for role in call("list_roles")] == ["Manager", "Developer", "Reporter"]
    assert call("list_queries")[0]["name"] == "Issues assigned to me"
    assert call("list_versions", project_id="alpha")
    assert call("search_redmine", query="issue")
    # test_files.py calls what needs a directory.
    assert used == TOOLS.keys() - {"save_attachment"}
