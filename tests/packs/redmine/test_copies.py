"""What a change of several issues and a copy say when something is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.support.redmine import FakeRedmine
from toolhub import testing
from tools_app.packs.redmine.copies import BulkChanges
from tools_app.sdk.errors import ToolError


def test_a_failure_that_all_would_meet_ends_the_rest(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /issues/3.json", b"", status="503 Service Unavailable")
    said = office.call("manager", "update_issues", ids=[2, 3, 10], due_date="2026-12-24")["response"]
    assert [one["status"] for one in said["results"]] == ["success", "failed", "skipped"]
    assert said["results"][2]["message"] == "Not tried: after issue #3 the rest would fail as well."
    assert not [seen for seen in redmine.requests if seen.method == "PUT" and "/issues/10.json" in seen.target]
    first = office.refusal("manager", "update_issues", ids=[3, 2], due_date="2026-12-24")
    assert "503" in str(first.as_dict()) or first.retryable


def test_each_issue_is_changed_once_though_it_is_given_twice(office: Office, redmine: FakeRedmine) -> None:
    office.call("manager", "update_issues", ids=[2, 2, "2"], notes="once")
    assert len([seen for seen in redmine.requests if seen.method == "PUT"]) == 1


def test_a_denied_issue_does_not_end_the_others(office: Office, redmine: FakeRedmine) -> None:
    said = office.call("dev", "update_issues", ids=[8, 2], due_date="2026-12-24")["response"]
    assert [(one["id"], one["status"]) for one in said["results"]] == [(8, "failed"), (2, "success")]
    assert said["results"][0]["message"].startswith("Permission denied: requires")


def test_issues_for_which_no_time_is_left_are_not_tried(office: Office) -> None:
    tool = TOOLS["update_issues"]
    with office.as_("manager"), pytest.raises(ToolError, match="None of 2 issues was changed") as caught:
        asyncio.run(
            tool.run(testing.context(tool, seconds=1), BulkChanges.model_validate({"ids": [2, 3], "notes": "x"}))
        )
    assert "#2: Not tried: there was no time left." in caught.value.next_step


def test_a_copy_that_redmine_does_not_relate_says_so(office: Office, redmine: FakeRedmine) -> None:
    redmine.objects.relates_copies = False
    said = office.call("manager", "copy_issue", id=2)["response"]
    assert said["warnings"] == ["link: this Redmine does not relate copies; create_issue_relation does."]
    redmine.breaks(f"GET /issues/{said['issue']['id'] + 1}.json?include=relations", b"{}")
    assert "warnings" not in office.call("manager", "copy_issue", id=2)["response"]


@pytest.mark.parametrize(
    ("journal", "status", "warning"),
    [
        ({"notes": "new", "private_notes": False}, "partial", "private_notes: requires the permission"),
        (
            {"notes": "old", "private_notes": True},
            "",
            "was not changed: Redmine accepted the request but ignored notes",
        ),
    ],
)
def test_an_edit_that_redmine_ignores_is_noticed(
    office: Office, redmine: FakeRedmine, journal: dict[str, Any], status: str, warning: str
) -> None:
    redmine.issues[1]["journals"][0] |= journal
    redmine.breaks("PUT /journals/4", b"", status="204 No Content")
    edit: dict[str, Any] = {"issue_id": 1, "note_id": 4, "notes": "new", "private_notes": True}
    if status:
        said = office.call("manager", "edit_issue_note", **edit)["response"]
        assert (said["status"], said["warnings"][0].startswith(warning)) == (status, True)
    else:
        assert warning in office.refusal("manager", "edit_issue_note", **edit).message
