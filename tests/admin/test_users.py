"""Users: one role each, a link in place of a password that somebody else knows, and an end with all that they have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext, modify_settings
from django.utils import timezone

from tests.admin.conftest import standing_approval
from tests.admin.pages import Page, page, sent
from tools_app import governance
from tools_app.models import ApiKey, AuditEntry, PasswordLink, StandingApproval, Stop
from tools_app.sdk.errors import AuthenticationError, ConflictError

pytestmark = pytest.mark.django_db

USERS: Final = "/admin/auth/user/"
CHOOSE: Final = f"{USERS}choose-password/"
LOGIN: Final = "/admin/login/"
PASSWORD: Final = "a-long-and-strange-phrase"
HUB: Final = governance.trusted("test")


def person(name: str, role: str = "operator", password: str | None = PASSWORD) -> User:
    user = User.objects.create_user(name, password=password)
    governance.set_role(user, role, actor=HUB)
    return User.objects.get(pk=user.pk)


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def code_on(shown: Page) -> str:
    link = shown.one("code", id="secret").text.strip()
    assert link.startswith(f"http://testserver{CHOOSE}#")
    return link.partition("#")[2]


def signs_in(name: str, password: str = PASSWORD) -> bool:
    return Client().post(LOGIN, {"username": name, "password": password, "next": "/admin/"}).status_code == 302


def test_a_colleague_is_added_with_a_role_and_chooses_the_password_with_the_link(chief: Client) -> None:
    shown = sent(chief, f"{USERS}add/", username="bob", email="bob@example.org", role="operator")
    code = code_on(shown)
    bob = User.objects.get(username="bob")
    assert (governance.role_of(bob), bob.email, bob.has_usable_password()) == ("operator", "bob@example.org", False)
    assert "invited" in page(chief, USERS).text
    person_at = Client()
    first = person_at.get(CHOOSE)
    assert first["Referrer-Policy"] == "same-origin"
    assert "no-store" in first["Cache-Control"]
    asked = sent(person_at, CHOOSE, code=code)
    assert "chief invited you to this hub as bob" in " ".join(asked.text.split())
    assert "Operator – also switches tools" in asked.text
    done = sent(person_at, CHOOSE, code=code, password=PASSWORD, again=PASSWORD)
    assert "You can now sign in as bob" in " ".join(done.text.split())
    assert "_auth_user_id" not in person_at.session, "nobody is signed in by a link"
    assert signs_in("bob")
    trail = list(AuditEntry.objects.exclude(action="user.sign_in").order_by("pk").values_list("actor", "action"))
    assert trail == [
        ("user:chief", "user.role"),
        ("user:chief", "user.create"),
        ("user:chief", "user.invite"),
        ("user:bob", "user.password"),
    ]
    assert not [
        entry for entry in AuditEntry.objects.all() if PASSWORD in str(entry.changes) or code in str(entry.changes)
    ]


def test_a_link_works_once_and_a_new_one_replaces_it(chief: Client) -> None:
    bob = person("bob", password=None)
    old, new = (code_on(sent(chief, f"{USERS}{bob.pk}/link/")) for _ in range(2))
    assert "This link is not valid" in sent(Client(), CHOOSE, code=old).text
    assert "Your password is set" in sent(Client(), CHOOSE, code=new, password=PASSWORD, again=PASSWORD).text
    for fields in ({}, {"password": "another-long-and-strange-phrase", "again": "another-long-and-strange-phrase"}):
        assert "This link is not valid" in sent(Client(), CHOOSE, code=new, **fields).text
    assert signs_in("bob")


def test_only_a_hash_of_the_code_is_stored(chief: Client) -> None:
    bob = person("bob", password=None)
    code = code_on(sent(chief, f"{USERS}{bob.pk}/link/"))
    [row] = PasswordLink.objects.values()
    assert code not in str(row)


def deactivated(user: User) -> None:
    governance.deactivate_user(user, keys="stop", actor=HUB)
    governance.reactivate_user(user, actor=HUB)


def without_role(user: User) -> None:
    governance.set_role(user, "", actor=HUB)


def with_another_password(user: User) -> None:
    user.set_password("another-long-and-strange-phrase")
    user.save()


def signed_in(user: User) -> None:
    assert signs_in(user.username)


@pytest.mark.parametrize("change", [deactivated, without_role, with_another_password, signed_in])
def test_a_link_is_void_when_the_user_has_changed(change) -> None:
    bob = person("bob")
    code = governance.make_link(bob, actor=HUB)
    assert governance.invitation(code).user == bob
    change(User.objects.get(pk=bob.pk))
    with pytest.raises(AuthenticationError, match="This link is not valid"):
        governance.redeem_link(code, PASSWORD)


def test_links_expire() -> None:
    new, old = person("new", password=None), person("old")
    codes = {user.username: governance.make_link(user, actor=HUB) for user in (new, old)}
    now = timezone.now()
    with time_machine.travel(now + timedelta(hours=25), tick=False):
        assert governance.invitation(codes["new"]).is_first
        with pytest.raises(AuthenticationError):
            governance.invitation(codes["old"])
    with time_machine.travel(now + timedelta(days=8), tick=False), pytest.raises(AuthenticationError):
        governance.invitation(codes["new"])


def test_a_weak_password_is_refused_in_plain_words_and_the_link_stays() -> None:
    code = governance.make_link(person("bob", password=None), actor=HUB)
    asked = sent(Client(), CHOOSE, code=code, password="short", again="short")
    assert "This password is too short. It must contain at least 10 characters." in asked.text
    asked = sent(Client(), CHOOSE, code=code, password=PASSWORD, again="something else")
    assert "The two passwords differ" in asked.text
    assert PASSWORD not in asked.html
    assert "Your password is set" in sent(Client(), CHOOSE, code=code, password=PASSWORD, again=PASSWORD).text


def test_a_link_leaves_the_session_of_somebody_else_in_that_browser_alone(chief: Client) -> None:
    code = governance.make_link(person("bob", password=None), actor=HUB)
    asked = sent(chief, CHOOSE, code=code)
    assert "This browser is signed in as chief, and stays so" in asked.text
    done = sent(chief, CHOOSE, code=code, password=PASSWORD, again=PASSWORD)
    assert "This browser is still signed in as chief" in done.text
    assert chief.get("/admin/").wsgi_request.user.username == "chief"


def test_a_reset_ends_the_sessions_of_the_user_and_unlocks_the_name(chief: Client) -> None:
    bob = person("bob")
    browser = browser_of(bob)
    for _ in range(10):
        signs_in("bob", "wrong")
    assert not signs_in("bob")
    assert "locked out" in page(chief, USERS).text
    code = governance.make_link(bob, actor=HUB)
    governance.redeem_link(code, "another-long-and-strange-phrase")
    assert browser.get("/admin/").status_code == 302
    assert signs_in("bob", "another-long-and-strange-phrase")


@override_settings(TOOLHUB_ANONYMOUS_RATE_CALLS=5)
def test_codes_cannot_be_guessed_by_many_attempts() -> None:
    browser = Client(REMOTE_ADDR="192.0.2.77")
    answers = [browser.post(CHOOSE, {"code": f"guess{number}"}) for number in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert int(answers[-1]["Retry-After"]) > 0


@override_settings(TOOLHUB_PUBLIC_URL="https://hub.example.org/")
def test_links_have_the_public_address_of_the_hub(chief: Client) -> None:
    shown = sent(chief, f"{USERS}{person('bob').pk}/link/")
    assert shown.one("code", id="secret").text.startswith(f"https://hub.example.org{CHOOSE}#")


def test_the_list_shows_roles_and_states(chief: Client) -> None:
    person("vera", "viewer")
    person("ivan", password=None)
    governance.make_link(User.objects.get(username="ivan"), actor=HUB)
    person("fred", password=None)
    governance.deactivate_user(person("gwen"), keys="stop", actor=HUB)
    cleo = User.objects.create_user("cleo", password=PASSWORD, is_staff=True)
    cleo.user_permissions.add(Permission.objects.get(codename="view_call"))
    shown = page(chief, USERS)
    lines = [" ".join(row.text.split()) for row in shown.all("tr")]
    for expected in (
        "vera viewer active never",
        "ivan operator invited until",
        "fred operator no valid invitation never",
        "gwen operator deactivated never",
        "cleo custom active never",
        "chief superuser",
    ):
        assert any(line.startswith(expected) for line in lines), (expected, lines)


def test_the_list_takes_the_same_number_of_queries_for_many(chief: Client) -> None:
    assert page(chief, USERS).status == 200

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            assert page(chief, USERS).status == 200
        return len(made)

    few = queries()
    for number in range(30):
        person(f"user{number}", "viewer")
    assert queries() == few


def test_a_role_is_changed_with_one_field_and_details_are_not_on_the_audit_trail(chief: Client) -> None:
    bob = person("bob", "viewer")
    sent(chief, f"{USERS}{bob.pk}/change/", username="robert", email="bob@example.org", role="operator")
    bob.refresh_from_db()
    assert (bob.username, governance.role_of(bob)) == ("robert", "operator")
    entry = AuditEntry.objects.get(action="user.change")
    assert (entry.subject, entry.changes) == ("user:bob", {"fields": [None, ["name", "email"]]})
    again = page(chief, f"{USERS}{bob.pk}/change/")
    assert "custom" not in [choice["value"] for choice in again.all("input", type="radio", name="role")]


def test_an_admin_is_not_offered_superuser_and_cannot_send_it() -> None:
    admin, root = browser_of(person("ada", "admin")), person("root", "superuser")
    bob = person("bob", "viewer")
    shown = page(admin, f"{USERS}{bob.pk}/change/")
    assert [choice["value"] for choice in shown.all("input", type="radio", name="role")] == [
        "",
        "viewer",
        "operator",
        "admin",
    ]
    sent(admin, f"{USERS}{bob.pk}/change/", username="bob", role="superuser")
    assert governance.role_of(User.objects.get(pk=bob.pk)) == "viewer"
    for address, fields in (
        (f"{USERS}{root.pk}/link/", {}),
        (f"{USERS}{root.pk}/change/", {"username": "mine", "role": "superuser"}),
        (f"{USERS}{root.pk}/deactivate/", {}),
        (f"{USERS}{root.pk}/delete/", {}),
        (f"{USERS}{root.pk}/permissions/", {}),
    ):
        shown = sent(admin, address, **fields)
        assert shown.messages, address
    root.refresh_from_db()
    assert (root.username, root.is_active, root.is_superuser) == ("root", True, True)
    assert not PasswordLink.objects.filter(user=root).exists()


def test_own_groups_and_permissions_stay_until_a_role_is_chosen(chief: Client) -> None:
    night = Group.objects.create(name="night shift")
    night.permissions.add(Permission.objects.get(codename="change_stop"))
    bob, stops = person("bob", "viewer"), Permission.objects.get(codename="view_stop")
    sent(chief, f"{USERS}{bob.pk}/permissions/", groups=[night.pk], permissions=[stops.pk])
    bob = User.objects.get(pk=bob.pk)
    assert (governance.role_of(bob), bob.is_staff) == ("custom", True)
    shown = page(chief, f"{USERS}{bob.pk}/change/")
    assert {"night shift", "tools_app.view_stop"} <= {tag.text.strip() for tag in shown.all("span", class_="hub-tag")}
    sent(chief, f"{USERS}{bob.pk}/change/", username="bob", role="custom", email="new@example.org")
    assert list(bob.groups.all()) == [night]
    assert bob.has_perm("tools_app.change_stop")
    sent(chief, f"{USERS}{bob.pk}/change/", username="bob", role="viewer")
    assert not User.objects.get(pk=bob.pk).has_perm("tools_app.change_stop")


def test_permissions_that_the_actor_lacks_are_not_given_one_by_one() -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=["change_user", "view_user"]))
    bob = person("bob", "")
    key = Permission.objects.get(codename="add_apikey")
    shown = sent(browser_of(clerk), f"{USERS}{bob.pk}/permissions/", permissions=[key.pk])
    assert "permissions that you do not have" in shown.messages[0]
    assert not bob.user_permissions.exists()


def key_of(owner: User | None, name: str, by: str = "test") -> ApiKey:
    return governance.create_key(name, actor=governance.trusted(by), owner=owner)[0]


@pytest.mark.parametrize("way", ["deactivate", "delete"])
@pytest.mark.parametrize("choice", ["stop", "revoke"])
def test_keys_of_a_user_whose_access_ends_are_shown_first_and_end_with_it(chief: Client, way: str, choice: str) -> None:
    bob, eve = person("bob"), person("eve")
    key_of(bob, "owned"), key_of(None, "made", by="user:bob"), key_of(eve, "other", by="user:bob"), key_of(None, "hub")
    standing_approval()
    StandingApproval.objects.update(created_by="user:bob", tool_name="send_mail")
    browser = browser_of(bob)
    asked = page(chief, f"{USERS}{bob.pk}/{way}/")
    assert {"owned", "made", "send_mail"} <= {link.text.strip() for link in asked.all("a", class_="hub-link")}
    assert not {"other", "hub"} & {link.text.strip() for link in asked.all("a", class_="hub-link")}
    sent(chief, f"{USERS}{bob.pk}/{way}/", keys=choice, reason="left the company")
    if choice == "stop":
        assert set(Stop.objects.filter(kind="key").values_list("name", flat=True)) == {"owned", "made"}
    else:
        assert set(ApiKey.objects.exclude(revoked_at=None).values_list("name", flat=True)) == {"owned", "made"}
    assert browser.get("/admin/").status_code == 302
    entry = AuditEntry.objects.get(action=f"user.{way}")
    assert (entry.subject, entry.reason) == ("user:bob", "left the company")
    assert entry.changes["keys"] == [["made", "owned"], choice]
    assert User.objects.filter(username="bob").exists() == (way == "deactivate")
    assert not signs_in("bob")
    assert AuditEntry.objects.filter(actor="user:bob", action="key.create").count() == 2, "the trail keeps the name"


def test_nothing_ends_if_the_keys_cannot_be_ended() -> None:
    bob = person("bob")
    key_of(bob, "owned")
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=[*("change_user", "view_user")]))
    User.objects.filter(pk=bob.pk).update(is_staff=False)
    bob.groups.clear()
    sent(browser_of(clerk), f"{USERS}{bob.pk}/deactivate/", keys="revoke")
    bob.refresh_from_db()
    assert bob.is_active
    assert ApiKey.objects.get(name="owned").revoked_at is None


def test_a_deactivated_user_comes_back_with_role_and_password(chief: Client) -> None:
    bob = person("bob")
    key_of(bob, "owned")
    governance.deactivate_user(bob, keys="stop", actor=HUB)
    sent(chief, f"{USERS}{bob.pk}/reactivate/")
    assert signs_in("bob")
    assert governance.role_of(User.objects.get(pk=bob.pk)) == "operator"
    assert Stop.objects.filter(name="owned").exists(), "keys stay stopped"


def test_nobody_ends_their_own_access_nor_that_of_the_last_superuser(chief: Client) -> None:
    root = User.objects.get(username="chief")
    for way in ("deactivate", "delete"):
        shown = sent(chief, f"{USERS}{root.pk}/{way}/")
        assert "cannot end your own access" in shown.messages[0]
        end = governance.deactivate_user if way == "deactivate" else governance.delete_user
        with pytest.raises(ConflictError, match="last superuser"):
            end(root, keys="stop", actor=HUB)


def test_a_locked_out_user_is_unlocked_by_an_administrator(chief: Client) -> None:
    bob = person("bob")
    for _ in range(10):
        signs_in("bob", "wrong")
    assert not signs_in("bob")
    assert page(chief, f"{USERS}{bob.pk}/change/").all("form", action=f"{USERS}{bob.pk}/unlock/")
    sent(chief, f"{USERS}{bob.pk}/unlock/")
    assert signs_in("bob")
    assert AuditEntry.objects.get(action="user.unlock").subject == "user:bob"


def test_groups_are_on_the_audit_trail(chief: Client) -> None:
    sent(chief, "/admin/auth/group/add/", name="night shift")
    group = Group.objects.get(name="night shift")
    sent(chief, f"/admin/auth/group/{group.pk}/change/", name="late shift")
    sent(chief, "/admin/auth/group/", action="delete_selected", _selected_action=[group.pk], post="yes")
    assert list(AuditEntry.objects.order_by("pk").values_list("action", "subject")) == [
        ("group.create", "group:night shift"),
        ("group.change", "group:late shift"),
        ("group.delete", "group:late shift"),
    ]


def test_the_pages_of_users_look_like_the_others(chief: Client) -> None:
    bob = person("bob")
    own = (f"{USERS}{bob.pk}/{view}/" for view in ("change", "deactivate", "delete", "permissions"))
    for address in (
        USERS,
        f"{USERS}add/",
        *own,
        "/admin/auth/group/",
        "/admin/auth/group/add/",
        "/admin/password_change/",
    ):
        shown = page(chief, address)
        assert shown.status == 200
        assert shown.all("div", id="nav-sidebar-apps")


def test_the_list_shows_who_has_a_second_factor(chief: Client, django_assert_num_queries: Any) -> None:
    """With as many queries for many users as for two."""
    anna, _, cleo = person("anna"), person("ben"), person("cleo")
    Authenticator.objects.create(user=anna, type="webauthn", data={"name": "laptop"})
    Authenticator.objects.create(user=anna, type="recovery_codes", data={})
    SocialAccount.objects.create(user=cleo, provider="sso", uid="1")

    def states() -> dict[str, str]:
        lines = [" ".join(row.text.split()) for row in page(chief, USERS).all("tr")]
        return {line.split()[0]: line for line in lines if line}

    states()  # what a process asks once
    with CaptureQueriesContext(connection) as few:
        shown = states()
    assert shown["anna"].endswith(" set up")
    assert shown["ben"].endswith(" none")
    assert shown["cleo"].endswith(" at the sign-in service")
    for number in range(5):
        Authenticator.objects.create(user=person(f"user-{number}"), type="totp", data={})
    with django_assert_num_queries(len(few)):
        assert states()["user-4"].endswith(" set up")


def test_a_site_without_second_factors_has_no_column_for_them(chief: Client) -> None:
    with modify_settings(INSTALLED_APPS={"remove": ["allauth.mfa", "allauth.socialaccount"]}):
        shown = page(chief, USERS)
    assert shown.status == 200
    assert "chief" in shown.text
    assert "Second factor" not in {heading.text.strip() for heading in shown.all("th")}
