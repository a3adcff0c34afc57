"""Names, ids and words as agents send them.

The same for a real Redmine and ours.
"""

from __future__ import annotations

import pytest

from tests.packs.redmine.office import Office


@pytest.mark.parametrize("login", ["admin", "manager"])
def test_all_custom_fields_of_a_project_are_listed_and_can_be_named(office: Office, login: str) -> None:
    fields = {
        field["name"]: field for field in office.call(login, "list_custom_fields", project_id="alpha")["custom_fields"]
    }
    assert {"Customer", "Root cause"} <= fields.keys()
    other = office.call(login, "list_custom_fields", project_id="empty")
    # Where no issue shows it, administrators get what may be there, and the word that it may not.
    names = [field["name"] for field in other["custom_fields"]]
    assert ("Root cause" in names) is ("Root cause" in other["message"]) is (login == "admin")
    for named in (fields["Customer"]["id"], str(fields["Customer"]["id"]), "Customer", "customer"):
        changed = office.call(login, "update_issue", id=2, custom_fields=[{"id": named, "value": str(named)}])
        assert changed["response"]["status"] == "success"
    error = office.refusal(login, "update_issue", id=2, custom_fields=[{"name": "Custmer", "value": "x"}])
    assert "there is no custom field Custmer; expected one of Customer (1), " in error.message


def test_a_list_of_custom_fields_that_is_not_whole_says_so(office: Office) -> None:
    told = office.call("limited", "list_custom_fields", project_id="empty")
    assert told["complete"] is False
    assert told["message"].startswith("There is no issue of Bug, Feature, Support to read fields from")
    assert office.call("limited", "list_custom_fields")["complete"] is False
    assert office.call("admin", "list_custom_fields")["complete"] is True
    unsure = office.call("admin", "list_custom_fields", project_id="empty")
    assert unsure["complete"] is True
    assert "to check whether this project uses Customer, " in unsure["message"]


def test_projects_users_and_ids_can_be_sent_in_either_form(office: Office) -> None:
    made = office.call("manager", "create_time_entry", project_id="alpha", hours=1, activity_id="Design", user_id="me")
    entry = made["response"]["time_entry"]
    assert (entry["project"]["name"], entry["user"]["name"]) == ("Alpha", "Mara Manager")
    overtime = {"name": "Overtime", "value": True}
    changed = office.call("manager", "update_time_entry", id=str(entry["id"]), custom_fields=[overtime])["response"]
    assert changed["status"] == "success"
    assert {"id": 14, "name": "Overtime", "value": "1"} in changed["time_entry"]["custom_fields"]
    mine = office.call("admin", "list_time_entries", project_id="alpha", user_id="Mara Manager", limit="100")
    assert entry["id"] in [one["id"] for one in mine["time_entries"]]
    office.call("manager", "delete_time_entry", id=str(entry["id"]))
    assert office.call("limited", "get_issue", id="2")["issue"]["id"] == 2
    assert office.call("limited", "show_user", id="me") == office.call("limited", "show_user")
    for user in ("Mara Manager", "5", "me"):
        office.call("manager", "add_issue_watcher", issue_id="3", user_id=user)
        office.call("manager", "remove_issue_watcher", issue_id="3", user_id=user)


def test_missing_values_of_a_time_entry_are_reported_with_their_source(office: Office) -> None:
    error = office.refusal("manager", "create_time_entry", issue_id=1, hours=1)
    assert error.message == "Activity cannot be blank"
    assert "list_activities" in error.next_step


def test_words_that_are_not_searched_are_reported(office: Office) -> None:
    nothing = office.call("admin", "search_redmine", query="x 1")
    assert nothing["results"] == []
    assert nothing["message"] == ("Redmine ignores words of one character: x, 1. So nothing was searched.")
    assert "message" not in office.call("admin", "search_redmine", query='issue "of a"')
    many = office.call("admin", "search_redmine", query="a1 b2 c3 d4 e5 f6")
    assert many["message"] == "Redmine searches only the first 5 words, not f6."


def test_a_field_of_all_projects_can_be_named_where_no_issue_shows_it_yet(office: Office) -> None:
    fields = [{"name": "Customer", "value": "ACME"}]
    made = office.call("manager", "create_issue", project_id="empty", subject="x", custom_fields=fields)["response"]
    assert made["status"] == "success"
    office.call("manager", "delete_issue", id=made["issue"]["id"])
