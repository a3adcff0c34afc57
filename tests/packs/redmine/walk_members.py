"""Members and their roles, and custom fields of projects, on a real Redmine and ours."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.packs.redmine.office import Office
from tools_app.sdk.errors import InvalidArgumentsError, UpstreamValidationError

# Has an account, and is no member of any project.
NOBODY = 8


def roles_of(office: Office, user: int) -> list[str]:
    members = office.call("manager", "list_members", project_id="alpha")["memberships"]
    return [role["name"] for one in members if one["user"]["id"] == user for role in one["roles"]]


def test_members_come_change_and_go(office: Office) -> None:
    def roles(*names: Any) -> dict[str, Any]:
        answer: dict[str, Any] = office.call(
            "manager", "set_member", project_id="alpha", user_id=NOBODY, roles=list(names)
        )["response"]
        return answer

    assert roles_of(office, NOBODY) == []
    assert roles("Reporter")["message"] == "No Membership was successfully added to project #alpha."
    changed = roles("developer", 5)
    assert (changed["status"], changed["membership"]["user"]["name"]) == ("success", "No Membership")
    assert sorted(roles_of(office, NOBODY)) == ["Developer", "Reporter"]
    assert roles("Developer")["message"] == "No Membership was successfully changed in project #alpha."
    gone = office.call("manager", "remove_member", project_id="alpha", user_id="no membership")["response"]
    assert gone["message"] == "No Membership was successfully removed from project #alpha."
    again = office.refusal("manager", "remove_member", project_id="alpha", user_id=NOBODY)
    assert isinstance(again, InvalidArgumentsError)
    assert "the project has no such member" in again.message


def test_a_role_that_is_not_there_takes_nothing_away(office: Office) -> None:
    before = roles_of(office, 7)
    for wrong in ("Boss", 99):
        error = office.refusal("manager", "set_member", project_id="alpha", user_id=7, roles=[wrong])
        assert f"there is no role {wrong}; expected one of Manager (3), Developer (4), Reporter (5)" in error.message
    assert roles_of(office, 7) == before == ["Reporter"]


def test_somebody_who_is_not_there_is_not_added(office: Office) -> None:
    unknown = office.refusal("manager", "set_member", project_id="alpha", user_id=999, roles=["Reporter"])
    assert (type(unknown), unknown.message) == (UpstreamValidationError, "Principal cannot be blank")
    named = office.refusal("manager", "set_member", project_id="alpha", user_id="Nobody", roles=["Reporter"])
    assert "there is no member Nobody; expected one of" in named.message
    closed = office.refusal("admin", "set_member", project_id="closed", user_id=5, roles=["Reporter"])
    assert closed.message == "Failed to set member: project “Closed project” is closed"


def test_administrators_add_users_by_name(office: Office) -> None:
    for name in ("Δημήτρης O'Dev & Søn", "dev"):
        made = office.call("admin", "set_member", project_id="empty", user_id=name, roles=["Reporter"])["response"]
        assert made["membership"]["user"]["id"] == 6
        office.call("admin", "remove_member", project_id="empty", user_id=6)


def test_custom_fields_of_projects_are_given_by_name(office: Office) -> None:
    key = f"tmp-{uuid4().hex[:12]}"
    field = [{"name": "cost centre", "value": "4711"}]
    made = office.call("admin", "create_project", name=key, identifier=key, custom_fields=field)["response"]
    assert (made["status"], [one["value"] for one in made["project"]["custom_fields"]]) == ("success", ["4711"])
    field[0]["value"] = "0815"
    changed = office.call("admin", "update_project", id=key, custom_fields=field)["response"]
    assert [one["value"] for one in changed["project"]["custom_fields"]] == ["0815"]
    wrong = office.refusal("manager", "update_project", id="empty", custom_fields=[{"name": "Cost", "value": "x"}])
    assert "there is no custom field Cost; expected one of Cost centre (13)" in wrong.message
    office.call("admin", "delete_project", id=key)
