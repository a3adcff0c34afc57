"""Users and groups: who may come in is on the audit trail, passwords are not."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.admin.pages import page, sent
from tools_app.models import AuditEntry

pytestmark = pytest.mark.django_db

USERS = "/admin/auth/user/"
PASSWORD = "a-long-and-strange-phrase"


def test_a_new_user_is_on_the_audit_trail_without_the_password(chief: Client) -> None:
    sent(chief, f"{USERS}add/", username="bob", password1=PASSWORD, password2=PASSWORD, usable_password="true")
    assert User.objects.get(username="bob").check_password(PASSWORD)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject) == ("user:chief", "user.create", "user:bob")
    assert PASSWORD not in str(entry.changes)


def test_a_change_names_the_fields_and_not_what_they_hold(chief: Client) -> None:
    bob = User.objects.create_user("bob")
    fields = {"username": "bob", "email": "bob@example.org", "is_active": "on", "is_staff": "on"}
    sent(chief, f"{USERS}{bob.pk}/change/", **fields, date_joined_0="2026-01-01", date_joined_1="00:00:00")
    bob.refresh_from_db()
    assert bob.is_staff
    entry = AuditEntry.objects.get(action="user.change")
    assert entry.subject == "user:bob"
    assert "Staff status" in str(entry.changes)
    assert "example.org" not in str(entry.changes)


def test_a_new_password_is_on_the_audit_trail(chief: Client) -> None:
    bob = User.objects.create_user("bob")
    sent(chief, f"{USERS}{bob.pk}/password/", password1=PASSWORD, password2=PASSWORD, usable_password="true")
    bob.refresh_from_db()
    assert bob.check_password(PASSWORD)
    assert AuditEntry.objects.get(action="user.change").subject == "user:bob"


def test_users_and_groups_that_go_are_on_the_audit_trail(chief: Client) -> None:
    bob, group = User.objects.create_user("bob"), Group.objects.create(name="night shift")
    sent(chief, f"{USERS}{bob.pk}/delete/", post="yes")
    sent(chief, "/admin/auth/group/", action="delete_selected", _selected_action=[group.pk], post="yes")
    assert not User.objects.filter(username="bob").exists()
    assert not Group.objects.filter(name="night shift").exists()
    assert sorted(AuditEntry.objects.values_list("action", "subject")) == [
        ("group.delete", "group:night shift"),
        ("user.delete", "user:bob"),
    ]


def test_the_pages_of_users_look_like_the_others(chief: Client) -> None:
    for address in (USERS, f"{USERS}add/", "/admin/auth/group/", "/admin/auth/group/add/", "/admin/password_change/"):
        shown = page(chief, address)
        assert shown.status == 200
        assert shown.all("div", id="nav-sidebar-apps")
