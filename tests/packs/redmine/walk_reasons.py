"""Why Redmine said no, or did not do all that was asked for: what callers are told.

The same for a real Redmine and ours.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.packs.redmine.office import Office

CLOSED = "project “Closed project” is closed"
# Whoever asks for it, what they ask for, and what they are told. `{issue}` is an issue of the closed project.
UNUSABLE: list[tuple[str, str, dict[str, Any], str]] = [
    ("manager", "create_issue", {"project_id": "nowhere", "subject": "x"}, "Project #nowhere not found"),
    ("admin", "create_issue", {"project_id": "closed", "subject": "x"}, f"Failed to create issue: {CLOSED}"),
    ("limited", "create_issue", {"project_id": "beta", "subject": "x"}, "Permission denied: requires a role in this"),
    ("admin", "update_issue", {"id": "{issue}", "subject": "x"}, f"Failed to update issue: {CLOSED}"),
    ("limited", "update_issue", {"id": "{issue}", "notes": "x"}, f"Failed to update issue: {CLOSED}"),
    ("admin", "delete_issue", {"id": "{issue}"}, f"Failed to delete issue: {CLOSED}"),
    ("admin", "add_issue_watcher", {"issue_id": "{issue}", "user_id": 5}, f"Failed to add watcher: {CLOSED}"),
    ("admin", "add_issue_watcher", {"issue_id": 999999, "user_id": 5}, "Issue #999999 not found"),
    ("manager", "add_issue_watcher", {"issue_id": 999999, "user_id": "me"}, "Issue #999999 not found"),
    ("admin", "remove_issue_watcher", {"issue_id": 999999, "user_id": 5}, "Issue #999999 not found"),
    ("limited", "add_issue_watcher", {"issue_id": 8, "user_id": 5}, "Permission denied: requires a role that can see"),
    ("admin", "update_project", {"id": "closed", "description": "x"}, f"Failed to update project: {CLOSED}"),
    ("admin", "create_time_entry", {"project_id": "closed", "hours": 1, "activity_id": 8},
     f"Failed to create time entry: {CLOSED}"),
    ("admin", "create_time_entry", {"issue_id": "{issue}", "hours": 1, "activity_id": 8},
     f"Failed to create time entry: {CLOSED}"),
    ("admin", "create_time_entry", {"issue_id": 999999, "hours": 1, "activity_id": 8}, "Issue #999999 not found"),
]  # fmt: skip


@pytest.mark.parametrize(("login", "name", "arguments", "message"), UNUSABLE)
def test_closed_hidden_and_missing_things_are_reported_as_such(
    office: Office, login: str, name: str, arguments: dict[str, Any], message: str
) -> None:
    (issue,) = office.call("admin", "list_issues", project_id="closed", status_id="*")["issues"]
    arguments = {key: issue["id"] if value == "{issue}" else value for key, value in arguments.items()}
    assert office.refusal(login, name, **arguments).message.startswith(message)


def test_archived_projects_are_reported_as_such(office: Office) -> None:
    key = f"tmp-{uuid4().hex[:12]}"
    office.call("admin", "create_project", name=key, identifier=key)
    issue = office.call("admin", "create_issue", project_id=key, subject="x")["response"]["issue"]["id"]
    office.call("admin", "archive_project", id=key)
    try:
        for name, arguments in (
            ("show_project", {"id": key}),
            ("list_issues", {"project_id": key}),
            ("list_versions", {"project_id": key}),
            ("update_project", {"id": key, "description": "x"}),
            ("create_issue", {"project_id": key, "subject": "x"}),
        ):
            error = office.refusal("admin", name, **arguments)
            assert error.message.endswith(f": project #{key} is archived"), name
            # Redmine tells nobody else.
            denied = office.refusal("limited", name, **arguments)
            assert denied.message.startswith("Permission denied"), name
            assert "archived" in denied.next_step
        for name, arguments in (("get_issue", {"id": issue}), ("update_issue", {"id": issue, "subject": "x"})):
            told = office.refusal("admin", name, **arguments).message
            assert f"the project of issue #{issue} is archived" in told
    finally:
        office.call("admin", "unarchive_project", id=key)
        office.call("admin", "delete_project", id=key)


def test_the_reason_why_an_issue_cannot_be_closed_is_reported(office: Office) -> None:
    parent = office.refusal("manager", "update_issue", id=4, status_id="Closed")
    assert parent.message == "Issue #4 was not changed: Redmine accepted the request but ignored status_id"
    assert "It cannot be closed while its subtasks are open: #6, #5." in parent.next_step
    assert "permission" not in parent.next_step
    blocked = office.refusal("manager", "update_issue", id=1, status_id="Closed")
    assert "It cannot be closed while issues that block it are open: #3." in blocked.next_step


def test_computed_values_of_an_issue_with_subtasks_are_reported(office: Office) -> None:
    error = office.refusal("manager", "update_issue", id=4, start_date="2026-01-01", priority_id="Immediate")
    assert error.next_step.count("Redmine computes it from the subtasks: change it there.") == 2
    assert "permission" not in error.next_step


def test_a_move_into_a_closed_project_is_reported_as_such(office: Office) -> None:
    error = office.refusal("manager", "update_issue", id=2, project_id="closed")
    assert error.message == "Issue #2 was not changed: Redmine accepted the request but ignored project_id"
    assert "Project “Closed project” is closed." in error.next_step


def test_values_that_an_issue_loses_by_a_move_are_reported(office: Office) -> None:
    made = office.call(
        "manager",
        "create_issue",
        project_id="alpha",
        subject="x",
        tracker_id="Bug",
        category_id="Backend",
        fixed_version_id="1.0",
        custom_fields=[{"name": "Root cause", "value": "a <typo>"}, {"name": "Customer", "value": "ACME"}],
    )["response"]
    assert made["status"] == "success"
    number = made["issue"]["id"]
    moved = office.call("manager", "update_issue", id=number, project_id="empty")["response"]
    assert moved["status"] == "partial"
    assert moved["message"] == (
        f"Issue #{number} was updated, but Redmine also changed or dropped category_id, fixed_version_id, Root cause."
    )
    assert moved["warnings"] == [
        "category_id: was Backend, is empty now.",
        "fixed_version_id: was 1.0, is empty now.",
        "Root cause: was a <typo>, is gone.",
    ]
    back = office.call("manager", "update_issue", id=number, project_id="alpha", category_id="Backend")["response"]
    assert back["status"] == "success"
    tracker = office.call("manager", "update_issue", id=number, custom_fields=[{"id": "Root cause", "value": "b"}])
    assert tracker["response"]["status"] == "success"
    other = office.call("manager", "update_issue", id=number, tracker_id="Feature")["response"]
    assert other["warnings"] == ["Root cause: was b, is gone."]
    office.call("manager", "delete_issue", id=number)
