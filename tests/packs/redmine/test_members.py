"""Members where Redmine ignores a change, or makes another one."""

from __future__ import annotations

from typing import Any

from tests.packs.redmine.office import Office
from tests.support.redmine import FakeRedmine
from tools_app.sdk.errors import UpstreamValidationError

CHANGE: dict[str, Any] = {"project_id": "alpha", "user_id": 7, "roles": ["Developer"]}


def test_a_change_that_redmine_ignores_is_a_failure(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /memberships/9", b"", status="204 No Content")
    error = office.refusal("manager", "set_member", **CHANGE)
    assert isinstance(error, UpstreamValidationError)
    assert error.message == ("User #7 was not changed in project #alpha: Redmine accepted the request but ignored it")


def test_roles_that_stay_or_are_not_given_are_told(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /memberships/9", b"", status="204 No Content")
    said = office.call("manager", "set_member", **CHANGE | {"roles": ["Developer", "Reporter"]})["response"]
    assert (said["status"], said["warnings"]) == ("partial", ["roles: are now Reporter."])


def test_all_pages_of_members_are_read(office: Office, redmine: FakeRedmine) -> None:
    project = {"id": 1, "name": "Alpha"}
    redmine.objects.memberships[:0] = [
        {"id": 1000 + number, "project": project, "group": {"id": 1000 + number, "name": f"Team {number}"}, "roles": []}
        | {"user": {"id": 2000 + number, "name": f"User {number}"}}
        for number in range(150)
    ]
    said = office.call("manager", "remove_member", project_id="alpha", user_id="Lim Ited")["response"]
    assert said["message"] == "Lim Ited was successfully removed from project #alpha."
    assert len([seen for seen in redmine.requests if "/memberships.json" in seen.target]) == 2


def test_a_user_removes_the_own_membership_by_me(office: Office) -> None:
    said = office.call("manager", "remove_member", project_id="alpha", user_id="me")["response"]
    assert said["message"] == "Mara Manager was successfully removed from project #alpha."
