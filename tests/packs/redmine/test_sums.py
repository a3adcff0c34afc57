"""Sums where Redmine has too much, or shows too little."""

from __future__ import annotations

import json

import pytest

from tests.packs.redmine.office import Office
from tests.support.redmine import FakeRedmine
from tools_app.sdk.errors import ApiError


def test_sums_of_a_part_say_so(office: Office, redmine: FakeRedmine) -> None:
    status = {"id": 1, "name": "New", "is_closed": False}
    issues = [{"id": number, "status": status, "estimated_hours": 1.5} for number in range(100)]
    answer = json.dumps({"issues": issues, "total_count": 123456, "offset": 0, "limit": 100}).encode()
    redmine.breaks("GET /issues.json", answer)
    said = office.call("admin", "summarize_issues", group_by=["status"])
    assert len([seen for seen in redmine.requests if "/issues.json" in seen.target]) == 30
    assert said["groups"] == [
        {"by": {"status": "New"}, "issues": 100, "open": 100, "estimated_hours": 150.0, "spent_hours": 0}
    ]
    assert (said["total_count"], said["complete"]) == (123456, False)
    assert said["message"].startswith("Only 100 of 123,456 were read.")


def test_an_issue_that_moves_between_pages_is_counted_once(office: Office, redmine: FakeRedmine) -> None:
    entry = {"id": 1, "hours": 2, "user": {"id": 5, "name": "Mara"}, "spent_on": "2026-11-02"}
    answer = json.dumps({"time_entries": [entry, entry], "total_count": 2, "offset": 0, "limit": 100}).encode()
    redmine.breaks("GET /time_entries.json", answer)
    assert office.call("admin", "summarize_time_entries", group_by=["user"])["total_hours"] == 2


def test_statuses_without_a_word_about_closing_are_read_from_the_date(office: Office, redmine: FakeRedmine) -> None:
    issues = [
        {"id": 1, "status": {"id": 5, "name": "Closed"}, "closed_on": "2026-01-01T00:00:00Z"},
        {"id": 2, "status": {"id": 5, "name": "Closed"}},
        {"id": 3, "status": {"id": 1, "name": "New", "is_closed": False}, "closed_on": "2026-01-01T00:00:00Z"},
    ]
    redmine.breaks("GET /issues.json", json.dumps({"issues": issues, "total_count": 3}).encode())
    groups = office.call("admin", "summarize_issues", group_by=["status"], status_id="*")["groups"]
    assert [(one["by"]["status"], one["issues"], one["open"]) for one in groups] == [("Closed", 2, 1), ("New", 1, 1)]


def test_a_project_is_summed_up_without_time_that_is_not_shown(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("GET /time_entries.json", b"", status="403 Forbidden")
    project = office.call("limited", "summarize_project", id="alpha")["project"]
    assert project["message"] == "This account may not see spent time."
    redmine.breaks("GET /time_entries.json", b"", status="500 Internal Server Error")
    assert isinstance(office.refusal("limited", "summarize_project", id="alpha"), ApiError)


def test_people_who_only_book_time_are_among_those_of_a_project(office: Office, redmine: FakeRedmine) -> None:
    entry = {"id": 1, "hours": 2.5, "user": {"id": 7, "name": "Lim Ited"}, "spent_on": "2026-11-02"}
    late = {"due_date": "2020-01-01", "assigned_to": {"id": 5, "name": "Mara Manager"}}
    redmine.issues[2] |= late
    redmine.breaks("GET /time_entries.json", json.dumps({"time_entries": [entry], "total_count": 1}).encode())
    project = office.call("manager", "summarize_project", id="alpha")["project"]
    people = {one["name"]: one for one in project["users"]}
    assert people["Lim Ited"] == {"name": "Lim Ited", "open": 0, "overdue": 0, "hours_last_30_days": 2.5}
    assert people["Mara Manager"]["overdue"] == 1
    assert project["overdue"] >= 1


@pytest.mark.parametrize("day", ["2026-11-02", "nonsense"])
def test_days_that_are_none_are_groups_of_their_own(office: Office, redmine: FakeRedmine, day: str) -> None:
    entry = {"id": 1, "hours": 2, "user": "odd", "spent_on": day}
    redmine.breaks("GET /time_entries.json", json.dumps({"time_entries": [entry], "total_count": 1}).encode())
    groups = office.call("admin", "summarize_time_entries", group_by=["week", "user"])["groups"]
    assert groups[0]["by"] == {"week": "2026-W45" if day[0] == "2" else day, "user": "none"}
