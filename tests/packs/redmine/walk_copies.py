"""Many issues at once, copies and comments, on a real Redmine and ours."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.packs.redmine.office import Office
from tools_app.sdk.errors import InvalidArgumentsError, UpstreamValidationError


@pytest.fixture
def issues(office: Office) -> Iterator[list[int]]:
    """Two new issues of alpha, which are gone after the test."""
    made = [
        office.call("manager", "create_issue", project_id="alpha", subject=uuid4().hex)["response"]["issue"]["id"]
        for _ in range(2)
    ]
    yield made
    for number in made:
        office.call("manager", "delete_issue", id=number)


def test_several_issues_are_changed_and_each_is_answered(office: Office, issues: list[int]) -> None:
    said = office.call(
        "manager",
        "update_issues",
        ids=[*issues, 999999, issues[0]],
        priority_id="High",
        assigned_to_id="Mara Manager",
        custom_fields=[{"name": "Severity", "value": "High"}],
        notes="All of them",
    )["response"]
    assert (said["status"], said["message"]) == ("partial", "2 of 3 issues were changed.")
    assert [(one["id"], one["status"]) for one in said["results"]] == [
        (issues[0], "success"),
        (issues[1], "success"),
        (999999, "failed"),
    ]
    assert said["results"][2]["message"] == "Issue #999999 not found"
    for number in issues:
        issue = office.call("manager", "get_issue", id=number, include="journals")["issue"]
        fields = {field["name"]: field["value"] for field in issue["custom_fields"]}
        assert (issue["priority"]["name"], issue["assigned_to"]["name"]) == ("High", "Mara Manager")
        assert (fields["Severity"], [one.get("notes") for one in issue["journals"]]) == ("High", ["All of them"])


def test_what_redmine_ignores_is_told_for_each_issue(office: Office, issues: list[int]) -> None:
    said = office.call("limited", "update_issues", ids=issues, due_date="2026-12-24", notes="late")["response"]
    assert [one["status"] for one in said["results"]] == ["partial", "partial"]
    assert said["results"][0]["warnings"][0].startswith("due_date: is still")
    nothing = office.refusal("limited", "update_issues", ids=issues, due_date="2026-12-24")
    assert isinstance(nothing, UpstreamValidationError)
    assert nothing.message == "None of 2 issues was changed"
    assert f"#{issues[1]}: Issue #{issues[1]} was not changed" in nothing.next_step


def test_a_name_that_is_wrong_for_all_is_refused_once(office: Office, issues: list[int]) -> None:
    unknown = office.refusal("manager", "update_issues", ids=issues, status_id="Closd")
    assert isinstance(unknown, InvalidArgumentsError)
    assert "there is no status Closd" in unknown.message
    assert isinstance(office.refusal("manager", "update_issues", ids=issues), InvalidArgumentsError)


def test_an_issue_is_copied_with_its_fields_and_files(office: Office) -> None:
    made = office.call("manager", "copy_issue", id=1, subject="A copy", done_ratio=0)["response"]
    assert (made["status"], made.get("warnings")) == ("success", None)
    number = made["issue"]["id"]
    copy = office.call("manager", "get_issue", id=number, include="attachments,relations,journals")["issue"]
    original = office.call("manager", "get_issue", id=1, include="attachments")["issue"]
    for name in ("description", "tracker", "fixed_version", "category", "assigned_to", "estimated_hours"):
        assert copy[name] == original[name], name
    values = [{one["name"]: one["value"] or "" for one in issue["custom_fields"]} for issue in (copy, original)]
    assert values[0] == values[1]
    assert (copy["subject"], copy["done_ratio"]) == ("A copy", 0)
    assert [one["filename"] for one in copy["attachments"]] == [one["filename"] for one in original["attachments"]]
    assert [one["relation_type"] for one in copy["relations"]] == ["copied_to"]
    assert not [one for one in copy.get("journals", ()) if one.get("notes")]
    office.call("manager", "delete_issue", id=number)


def test_a_copy_in_another_project_has_to_do_without_some_fields(office: Office) -> None:
    refused = office.refusal("manager", "copy_issue", id=1, project_id="Empty")
    assert isinstance(refused, UpstreamValidationError)
    assert "Target version is not included in the list" in refused.message
    assert refused.next_step.startswith("Give values that the target project has, or clear these fields")
    gone = [{"name": "Reviewers", "value": []}, {"name": "Found in", "value": None}]
    made = office.call(
        "manager",
        "copy_issue",
        id=1,
        project_id="Empty",
        assigned_to_id="me",
        clear=["fixed_version_id", "category_id"],
        custom_fields=gone,
        attachments=False,
        link=False,
    )["response"]
    copy = office.call("manager", "get_issue", id=made["issue"]["id"], include="attachments,relations")["issue"]
    assert (copy["project"]["name"], copy["subject"]) == ("Empty", "Full issue with every field")
    assert not {"fixed_version", "category"} & copy.keys()
    assert not copy.get("attachments")
    assert not copy.get("relations")
    office.call("manager", "delete_issue", id=made["issue"]["id"])


def test_what_cannot_be_copied_is_explained(office: Office) -> None:
    assert office.refusal("manager", "copy_issue", id=999999).message == "Issue #999999 not found"
    closed = office.refusal("manager", "copy_issue", id=2, project_id="closed")
    assert closed.message == "Failed to copy issue: project “Closed project” is closed"


def test_a_comment_is_edited_and_quoted(office: Office, issues: list[int]) -> None:
    office.call("manager", "update_issue", id=issues[0], notes="Frist <line>\n\nSecond")

    def journals() -> list[dict[str, object]]:
        found: list[dict[str, object]] = office.call("manager", "get_issue", id=issues[0], include="journals")["issue"][
            "journals"
        ]
        return found

    note = journals()[-1]["id"]
    said = office.call("manager", "edit_issue_note", issue_id=issues[0], note_id=note, notes="First <line>\n\nSecond")
    assert said["response"]["journal"] == {"id": note, "private_notes": False, "notes": "First <line>\n\nSecond"}
    private = office.call(
        "manager",
        "edit_issue_note",
        issue_id=issues[0],
        note_id=note,
        notes="First <line>\n\nSecond",
        private_notes=True,
    )
    assert private["response"]["status"] == "success"
    office.call("manager", "update_issue", id=issues[0], quote_note_id=note, notes="I agree")
    answer = journals()[-1]
    text = "Mara Manager wrote:\n> First <line>\n>\n> Second\n\nI agree"
    assert (str(answer["notes"]).replace("\r", ""), answer["private_notes"]) == (text, True)
    for name, arguments in (
        ("edit_issue_note", {"issue_id": issues[0], "note_id": 999999, "notes": "x"}),
        ("update_issue", {"id": issues[0], "quote_note_id": 999999}),
    ):
        error = office.refusal("manager", name, **arguments)
        assert isinstance(error, InvalidArgumentsError)
        assert (
            f"issue #{issues[0]} has no comment with this id; expected one of {note}, {answer['id']}" in error.message
        )


def test_comments_of_others_are_edited_only_with_a_permission(office: Office) -> None:
    denied = office.refusal("limited", "edit_issue_note", issue_id=1, note_id=4, notes="x")
    assert denied.message.startswith("Permission denied: requires the permission “Edit notes” in this project")
