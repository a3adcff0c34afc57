"""Counts and sums, saved queries and filters by the names of custom fields, on a real Redmine and ours."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.packs.redmine.office import Office
from tools_app.sdk.errors import InvalidArgumentsError


def all_of(office: Office, name: str, login: str = "manager", **arguments: Any) -> list[dict[str, Any]]:
    """A list, page by page, as an agent would read it."""
    found: list[dict[str, Any]] = []
    while True:
        page = office.call(login, name, limit=100, offset=len(found), **arguments)
        things = next(iter(page.values()))
        found += things
        if not things or len(found) >= page["total_count"]:
            return found


def test_issues_are_counted_as_they_are_listed(office: Office) -> None:
    issues = all_of(office, "list_issues", status_id="*")
    said = office.call("manager", "summarize_issues", group_by=["status"], status_id="*")
    assert (said["total_count"], said["complete"]) == (len(issues), True)
    assert {one["by"]["status"]: one["issues"] for one in said["groups"]} == Counter(
        issue["status"]["name"] for issue in issues
    )
    counts = [one["issues"] for one in said["groups"]]
    assert counts == sorted(counts, reverse=True)
    hours = sum(issue.get("estimated_hours") or 0 for issue in issues)
    assert abs(sum(one["estimated_hours"] for one in said["groups"]) - hours) < 0.01
    opened = office.call("manager", "summarize_issues", group_by=["tracker"])
    assert opened["total_count"] == sum(not issue["status"]["is_closed"] for issue in issues)


def test_issues_are_counted_by_two_names_and_by_custom_fields(office: Office) -> None:
    issues = all_of(office, "list_issues", project_id="alpha", status_id="*")
    said = office.call(
        "manager", "summarize_issues", group_by=["version", "assigned_to"], project_id="Alpha", status_id="*"
    )
    assert {(one["by"]["version"], one["by"]["assigned_to"]): one["issues"] for one in said["groups"]} == Counter(
        (issue.get("fixed_version", {}).get("name", "none"), issue.get("assigned_to", {}).get("name", "none"))
        for issue in issues
    )
    by_field = office.call("manager", "summarize_issues", group_by=["severity"], project_id="alpha", status_id="*")
    assert {"<Critical&>", "none"} <= {one["by"]["severity"] for one in by_field["groups"]}
    wrong = office.refusal("manager", "summarize_issues", group_by=["colour"], project_id="alpha")
    assert isinstance(wrong, InvalidArgumentsError)
    assert "the issues have no such field; expected one of project, tracker, status" in wrong.message


def test_hours_are_added_up_as_they_are_listed(office: Office) -> None:
    entries = all_of(office, "list_time_entries", project_id="alpha")
    said = office.call("manager", "summarize_time_entries", group_by=["user"], project_id="Alpha")
    hours: Counter[str] = Counter()
    for entry in entries:
        hours[entry["user"]["name"]] += entry["hours"]
    assert {one["by"]["user"]: one["hours"] for one in said["groups"]} == hours
    assert said["total_hours"] == round(sum(hours.values()), 2)
    by_time = office.call("manager", "summarize_time_entries", group_by=["month", "activity"], project_id="alpha")
    months = [one["by"]["month"] for one in by_time["groups"]]
    assert (months, set(months)) == (sorted(months), {entry["spent_on"][:7] for entry in entries})
    week = office.call(
        "manager", "summarize_time_entries", group_by=["week"], **{"from": "2026-11-02", "to": "2026-11-08"}
    )
    assert [one["by"]["week"] for one in week["groups"]] == ["2026-W45"]
    days = office.call("manager", "summarize_time_entries", group_by=["day", "issue"], issue_id=1)
    assert {one["by"]["issue"] for one in days["groups"]} == {"#1"}


def test_hours_are_added_up_by_what_their_issues_have(office: Office) -> None:
    said = office.call("manager", "summarize_time_entries", group_by=["version", "status"], project_id="alpha")
    hours = {(one["by"]["version"], one["by"]["status"]): one["hours"] for one in said["groups"]}
    assert hours["1.0", "In Progress"] == 1.75
    # Time on the project itself.
    assert hours["none", "none"] == 2


def test_a_project_is_summed_up(office: Office) -> None:
    issues = all_of(office, "list_issues", project_id="alpha", status_id="*")
    project = office.call("manager", "summarize_project", id="Alpha")["project"]
    opened = [issue for issue in issues if not issue["status"]["is_closed"]]
    assert (project["identifier"], project["issues"], project["open"]) == ("alpha", len(issues), len(opened))
    assert project["unassigned"] == sum("assigned_to" not in issue for issue in opened)
    assert sum(one["issues"] for one in project["trackers"]) == len(issues)
    assert sum(one["open"] for one in project["users"]) == len(opened) - project["unassigned"]
    versions = {one["name"]: one for one in project["versions"]}
    assert versions["1.0"]["issues"] == sum(issue.get("fixed_version", {}).get("name") == "1.0" for issue in issues)
    assert project["complete"] is True
    empty = office.call("manager", "summarize_project", id="empty")["project"]
    assert (empty["issues"], empty["users"], "last_change" in empty) == (0, [], False)


def test_issues_are_filtered_by_the_names_of_custom_fields(office: Office) -> None:
    def found(**fields: Any) -> list[int]:
        filters = [{"name": name, "value": value} for name, value in fields.items()]
        data = office.call("manager", "list_issues", project_id="alpha", custom_fields=filters)
        return [issue["id"] for issue in data["issues"]]

    assert found(Customer="~ACME") == found(severity="<Critical&>") == [1]
    assert found(Severity=["<Critical&>", "Low"]) == [1]
    assert 1 not in found(Severity=None)
    assert found(Severity=None)
    unknown = office.refusal("manager", "list_issues", project_id="alpha", custom_fields=[{"name": "x", "value": "y"}])
    assert "there is no custom field x; expected one of" in unknown.message
    ignored = office.refusal(
        "manager", "list_issues", project_id="alpha", custom_fields=[{"name": "Points", "value": 9}]
    )
    assert "parameter cf_5: Redmine ignores it" in ignored.message


def test_issues_are_found_by_a_saved_query(office: Office) -> None:
    listed = office.call("dev", "list_issues", query_id="issues assigned to me", limit=100)
    assert 1 in [issue["id"] for issue in listed["issues"]]
    assert {issue["assigned_to"]["id"] for issue in listed["issues"]} == {6}
    counted = office.call("dev", "summarize_issues", group_by=["status"], query_id="Issues assigned to me")
    assert counted["total_count"] == listed["total_count"]
    unknown = office.refusal("dev", "list_issues", query_id="No such")
    assert "there is no query No such; expected one of Issues assigned to me (1)" in unknown.message
    assert office.refusal("dev", "list_issues", query_id=999).message == "Query #999 not found"
    both = office.refusal("dev", "list_issues", query_id=1, status_id="*")
    assert "parameter status_id: Redmine ignores filters beside a saved query" in both.message
