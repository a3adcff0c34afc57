"""Relations, versions and categories, on a real Redmine and ours."""

from __future__ import annotations

from uuid import uuid4

from tests.packs.redmine.office import Office
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, UpstreamValidationError


def test_issues_are_related_and_parted(office: Office) -> None:
    made = office.call("manager", "create_issue_relation", issue_id=2, related_issue_id=11, relation_type="follows")
    relation = made["response"]["relation"]
    # Redmine has only one direction of this type.
    assert (relation["issue_id"], relation["issue_to_id"], relation["relation_type"]) == (11, 2, "precedes")
    for number in (2, 11):
        issue = office.call("manager", "get_issue", id=number, include="relations")["issue"]
        assert relation["id"] in [one["id"] for one in issue["relations"]]
    office.call("manager", "delete_issue_relation", id=relation["id"])
    gone = office.refusal("manager", "delete_issue_relation", id=relation["id"])
    assert (type(gone), gone.message) == (NotFoundError, f"Relation #{relation['id']} not found")


def test_a_relation_that_is_there_is_refused(office: Office) -> None:
    blocks = {"relation_type": "blocks"}
    made = office.call("manager", "create_issue_relation", issue_id=2, related_issue_id=11, **blocks)["response"]
    for first, second, reason in (
        (2, 11, "Related issue has already been taken"),
        (11, 2, "This relation would create a circular dependency"),
    ):
        again = office.refusal("manager", "create_issue_relation", issue_id=first, related_issue_id=second, **blocks)
        assert (type(again), again.message) == (UpstreamValidationError, reason)
    office.call("manager", "delete_issue_relation", id=made["relation"]["id"])


def test_a_relation_that_cannot_be_is_refused(office: Office) -> None:
    for other, reason in ((999999, "Related issue cannot be blank"), (2, "Related issue is invalid")):
        error = office.refusal("manager", "create_issue_relation", issue_id=2, related_issue_id=other)
        assert error.message == reason
        assert error.next_step.startswith("Both issues must exist")
    missing = office.refusal("manager", "create_issue_relation", issue_id=999999, related_issue_id=2)
    assert missing.message == "Issue #999999 not found"


def test_a_version_lives_and_dies(office: Office) -> None:
    name = uuid4().hex
    made = office.call(
        "manager",
        "create_version",
        project_id="Alpha",
        name=name,
        due_date="2026-12-24",
        description="a & <b>",
        custom_fields=[{"name": "codename", "value": "Cat"}],
    )["response"]
    version = made["version"]
    assert (made["status"], version["status"], version["due_date"]) == ("success", "open", "2026-12-24")
    assert [field["value"] for field in version["custom_fields"]] == ["Cat"]
    assert name in [one["name"] for one in office.call("limited", "list_versions", project_id="alpha")["versions"]]
    number = version["id"]
    issue = office.call("manager", "create_issue", project_id="alpha", subject="x", fixed_version_id=name)
    used = office.refusal("manager", "delete_version", id=number)
    assert used.message == "Failed to delete version: issues, custom fields or files still refer to it"
    office.call("manager", "delete_issue", id=issue["response"]["issue"]["id"])
    closed = office.call("manager", "update_version", id=number, status="closed", clear=["due_date"])["response"]
    assert (closed["version"]["status"], "due_date" in closed["version"]) == ("closed", False)
    field = [{"name": "Codename", "value": "Dog"}]
    changed = office.call("manager", "update_version", id=number, custom_fields=field)["response"]
    assert changed["version"]["custom_fields"][0]["value"] == "Dog"
    office.call("manager", "delete_version", id=number)
    assert office.refusal("manager", "delete_version", id=number).message == f"Version #{number} not found"


def test_what_redmine_ignores_or_refuses_of_a_version_is_told(office: Office) -> None:
    name = uuid4().hex
    made = office.call("manager", "create_version", project_id="alpha", name=name, sharing="system")["response"]
    assert (made["status"], made["version"]["sharing"]) == ("partial", "none")
    assert made["warnings"] == ["sharing: is still none."]
    taken = office.refusal("manager", "create_version", project_id="alpha", name=name)
    assert taken.message == "Name has already been taken"
    office.call("manager", "delete_version", id=made["version"]["id"])
    closed = office.refusal("admin", "create_version", project_id="closed", name=name)
    assert closed.message == "Failed to create version: project “Closed project” is closed"
    missing = office.refusal("admin", "create_version", project_id="nowhere", name=name)
    assert missing.message == "Project #nowhere not found"
    nothing = office.refusal("manager", "update_version", id=1)
    assert isinstance(nothing, InvalidArgumentsError)
    unknown = office.refusal("manager", "update_version", id=1, custom_fields=[{"name": "Code", "value": "x"}])
    assert "there is no custom field Code; expected one of Codename" in unknown.message


def test_a_category_lives_and_dies(office: Office) -> None:
    first, second = uuid4().hex, uuid4().hex
    made = [
        office.call("manager", "create_issue_category", project_id="alpha", name=name, assigned_to_id=who)["response"]
        for name, who in ((first, "Mara Manager"), (second, "me"))
    ]
    ids = [one["issue_category"]["id"] for one in made]
    assert made[0]["issue_category"]["assigned_to"]["name"] == "Mara Manager"
    cleared = office.call("manager", "update_issue_category", id=ids[0], clear=["assigned_to_id"])["response"]
    assert "assigned_to" not in cleared["issue_category"]
    changed = office.call("manager", "update_issue_category", id=ids[0], assigned_to_id="Δημήτρης O'Dev & Søn")
    assert changed["response"]["issue_category"]["assigned_to"]["id"] == 6
    issue = office.call("manager", "create_issue", project_id="alpha", subject="x", category_id=first)["response"]
    for wrong in (ids[0], 999999):
        error = office.refusal("manager", "delete_issue_category", id=ids[0], reassign_to_id=wrong)
        assert error.message in (
            "Category #999999 not found",
            "reassign_to_id must be another category of the same project",
        )
    office.call("manager", "delete_issue_category", id=ids[0], reassign_to_id=ids[1])
    moved = office.call("manager", "get_issue", id=issue["issue"]["id"])["issue"]
    assert moved["category"]["name"] == second
    office.call("manager", "delete_issue", id=issue["issue"]["id"])
    office.call("manager", "delete_issue_category", id=ids[1])
    gone = office.refusal("manager", "update_issue_category", id=ids[1], name="x")
    assert gone.message == f"Category #{ids[1]} not found"
    assert isinstance(office.refusal("manager", "update_issue_category", id=ids[1]), InvalidArgumentsError)
