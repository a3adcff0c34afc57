"""What is said of a change after it was read back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.packs.redmine.office import Office
from tests.support.redmine import FakeRedmine
from tools_app.sdk.errors import UpstreamValidationError


def test_a_comment_that_did_not_become_private_is_reported(office: Office) -> None:
    said = office.call("limited", "update_issue", id=2, notes="Between us", private_notes=True)["response"]
    assert said["status"] == "partial"
    assert said["message"] == "Issue #2 was updated, but Redmine ignored private_notes."
    assert said["warnings"] == [
        "private_notes: the comment was added, but it is not private: all who see the issue can read it."
    ]


@pytest.mark.parametrize(
    ("changes", "query"),
    [
        ({"subject": "x"}, ""),
        ({"subject": "x", "status_id": 2}, "include=allowed_statuses"),
        ({"notes": "x", "private_notes": True, "status_id": 2}, "include=allowed_statuses%2Cjournals"),
    ],
)
def test_only_what_is_to_be_compared_is_read_back(
    office: Office, redmine: FakeRedmine, changes: dict[str, Any], query: str
) -> None:
    office.call("manager", "update_issue", id=2, **changes)
    assert redmine.requests[-1].target.partition("?")[::2] == ("/tracker/issues/2.json", query)


def test_a_comment_that_became_private_is_a_success(office: Office) -> None:
    said = office.call("manager", "update_issue", id=2, notes="Between us", private_notes=True)["response"]
    assert (said["status"], said.get("warnings")) == ("success", None)


def test_a_private_comment_that_its_author_cannot_read_is_no_failure(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("GET /issues/2.json", b'{"issue": {"id": 2, "journals": []}}')
    said = office.call("manager", "update_issue", id=2, notes="Between us", private_notes=True)["response"]
    assert said["status"] == "success"
    assert said["warnings"] == ["notes, private_notes: the account of this connection cannot see the result."]


@pytest.mark.parametrize("project", ["empty", "Empty", 5])
def test_a_move_that_redmine_ignored_is_reported_for_each_kind_of_project_name(office: Office, project: Any) -> None:
    error = office.refusal("limited", "update_issue", id=2, project_id=project)
    assert isinstance(error, UpstreamValidationError)
    assert error.message == "Issue #2 was not changed: Redmine accepted the request but ignored project_id"
    moved = office.call("manager", "update_issue", id=2, project_id=project)["response"]
    assert (moved["status"], moved["issue"]["project"]["name"]) == ("success", "Empty")


def test_watchers_that_redmine_does_not_show_are_reported(office: Office) -> None:
    made = office.call("limited", "create_issue", project_id="alpha", subject="x", watcher_user_ids=[6])["response"]
    assert made["status"] == "success"
    assert made["warnings"] == ["watcher_user_ids: the account of this connection cannot see the result."]


def test_more_watchers_than_were_asked_for_are_no_failure(office: Office, redmine: FakeRedmine) -> None:
    watchers = b'{"issue": {"id": 12, "watchers": [{"id": 5, "name": "Mara"}, {"id": 6, "name": "D"}]}}'
    redmine.breaks("GET /issues/12.json", watchers)
    made = office.call("manager", "create_issue", project_id="alpha", subject="x", watcher_user_ids=[6])["response"]
    assert "Redmine ignored" not in made["message"]


@pytest.mark.parametrize(
    ("there", "asked", "took"),
    [
        ([], None, True),
        ([], "", True),
        ([], [], True),
        ([], [""], True),
        (None, "", True),
        (None, [], True),
        ("Linux", ["Linux"], True),
        (["Linux"], "Linux", True),
        (["Linux", "macOS"], ["macOS", "Linux"], True),
        (["5"], [5], True),
        (["Linux"], "macOS", False),
        (["Linux"], None, False),
        ("1", True, True),
        ("0", False, True),
        ("8", 8, True),
        ("a\r\nb", "a\nb", True),
        ({"plugin": [1]}, "x", False),
        ([{"plugin": 1}], "x", False),
    ],
)
def test_values_are_compared_as_redmine_keeps_them(
    office: Office, redmine: FakeRedmine, there: Any, asked: Any, took: bool
) -> None:
    redmine.issues[2]["custom_fields"] = [{"id": 78, "name": "x", "value": there}]
    redmine.keeps_custom_fields = True
    fields = [{"id": 78, "value": asked}]
    said = office.call("manager", "update_issue", id=2, subject="x", custom_fields=fields)["response"]
    assert said["status"] == ("success" if took else "partial")
    assert said.get("warnings") == (None if took else ["custom_fields: the value of 78 was not applied."])


@pytest.mark.parametrize("nonsense", ["x", 7, ["x"], [["x"]], {"x": "y"}, [{"x": {}}], True])
def test_nonsense_that_is_read_back_is_no_fault_of_ours(office: Office, redmine: FakeRedmine, nonsense: Any) -> None:
    named = ("custom_fields", "journals", "watchers", "allowed_statuses", "status", "project", "assigned_to", "parent")
    redmine.issues[2] |= dict.fromkeys(named, nonsense) | {"project": {"id": 1, "name": "Alpha"}}
    redmine.breaks("PUT /issues/2", b"", status="204 No Content")
    changes = {"notes": "x", "private_notes": True, "status_id": 2, "assigned_to_id": 5, "parent_issue_id": 3}
    said = office.call("manager", "update_issue", id=2, subject="x", custom_fields=[{"id": 1, "value": "x"}], **changes)
    assert said["response"]["status"] == "partial"
    assert office.call("limited", "list_custom_fields")["custom_fields"]
