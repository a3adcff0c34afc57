"""Who signs in at the provider is one person for ever, with the role that their groups give at that moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as hub_settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.utils import timezone

from tests.configuration.conftest import ACTOR, applied
from tests.sso.conftest import is_signed_in, sign_in
from tests.support.identity_provider import IdentityProvider
from tools_app import governance
from tools_app.models import AuditEntry, ManagedRecord
from tools_app.setup import configuration


def test_the_first_sign_in_creates_a_person_with_the_role_of_their_group(provider: IdentityProvider) -> None:
    provider.claims |= {"given_name": "Anna", "family_name": "Berg", "email": "a@b.example", "email_verified": True}
    client = Client()
    answer = sign_in(provider, client)
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    user = User.objects.get()
    assert (user.username, user.first_name, user.last_name, user.email) == ("anna", "Anna", "Berg", "a@b.example")
    assert not user.has_usable_password()
    assert governance.role_of(user) == "admin"
    assert is_signed_in(client)


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["eyes"], "viewer"),
        (["eyes", "ops", "others"], "operator"),
        (["admins", "eyes"], "admin"),
        (["roots", "eyes"], "superuser"),
        ("ops", "operator"),
    ],
)
def test_the_highest_mapped_group_decides(provider: IdentityProvider, groups: Any, role: str) -> None:
    provider.claims["groups"] = groups
    assert sign_in(provider).status_code == 302
    assert governance.role_of(User.objects.get()) == role


def test_no_group_makes_a_superuser_unless_the_map_says_so(provider: IdentityProvider, settings: Any) -> None:
    settings.TOOLHUB_SSO_ROLES = ["admins=admin"]
    provider.claims["groups"] = ["admins", "superuser", "roots", "admin"]
    sign_in(provider)
    assert not User.objects.get().is_superuser


@pytest.mark.parametrize("groups", [[], ["others"], None, 7, {"admins": True}, ["ADMINS"], [["admins"]]])
def test_who_is_in_no_mapped_group_is_told_so_and_leaves_no_row(provider: IdentityProvider, groups: Any) -> None:
    provider.claims["groups"] = groups
    client = Client()
    answer = sign_in(provider, client)
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "signed in as anna, but none of your groups has access" in page
    assert "Ask an administrator of this hub which group you need" in page
    assert not User.objects.exists()
    assert not is_signed_in(client)


def test_the_role_is_computed_anew_at_every_sign_in(provider: IdentityProvider) -> None:
    for group, role in (("admins", "admin"), ("eyes", "viewer"), ("roots", "superuser"), ("ops", "operator")):
        User.objects.create_superuser(f"other-{group}", password="right-and-long")
        provider.claims["groups"] = [group]
        sign_in(provider)
        assert governance.role_of(User.objects.get(username="anna")) == role
    changes = AuditEntry.objects.filter(action="user.role", subject="user:anna").order_by("pk")
    assert [entry.changes["role"][1] for entry in changes] == ["admin", "viewer", "superuser", "operator"]
    assert {entry.actor for entry in changes} == {f"sso:{provider.url.removeprefix('http://')}"}


def test_leaving_all_groups_ends_access_and_every_open_session(provider: IdentityProvider) -> None:
    first, second = Client(), Client()
    sign_in(provider, first)
    sign_in(provider, second)
    assert is_signed_in(first)
    provider.claims["groups"] = []
    answer = sign_in(provider)
    assert answer.status_code == 403
    assert "none of your groups has access" in answer.content.decode()
    assert not is_signed_in(first)
    assert not is_signed_in(second)
    assert governance.role_of(User.objects.get()) == ""


def test_the_last_superuser_loses_access_with_their_group_too(provider: IdentityProvider) -> None:
    provider.claims["groups"] = ["roots"]
    client = Client()
    sign_in(provider, client)
    provider.claims["groups"] = []
    assert sign_in(provider).status_code == 403
    assert not is_signed_in(client)


def test_the_last_superuser_is_told_why_another_role_is_not_given(provider: IdentityProvider) -> None:
    provider.claims["groups"] = ["roots"]
    client = Client()
    sign_in(provider, client)
    provider.claims["groups"] = ["eyes"]
    answer = sign_in(provider)
    assert answer.status_code == 403
    assert "anna is the last superuser of this hub, and your groups give another role" in answer.content.decode()
    assert not is_signed_in(client)


def test_a_configuration_file_does_not_decide_about_people_of_the_provider(provider: IdentityProvider) -> None:
    client = Client()
    sign_in(provider, client)
    governance.add_user("local", role="viewer", actor=ACTOR)
    assert set(configuration.exported().users) == {"local"}
    # A file of an earlier version has them.
    ManagedRecord.objects.create(kind="user", name="anna", file="hub.yaml", declared={"role": "admin"})
    for group, role in (("eyes", "viewer"), ("ops", "operator")):
        provider.claims["groups"] = [group]
        assert sign_in(provider).status_code == 302
        assert governance.role_of(User.objects.get(username="anna")) == role
    assert not is_signed_in(client), "a role was taken away"
    for role in ("admin", "operator"):
        with pytest.raises(configuration.ConfigurationRefusedError, match="/users/anna: Their sign-in service gives"):
            applied(f"version: 1\nusers:\n  anna: {{role: {role}}}\n")
    applied("version: 1\n", prune=True)
    assert governance.role_of(User.objects.get(username="anna")) == "operator"


def test_a_session_outlives_a_removal_from_a_group_by_eight_hours_at_most(provider: IdentityProvider) -> None:
    client = Client()
    sign_in(provider, client)
    now = timezone.now()
    for hours in (1.9, 3.8, 5.7, 7.5):
        with time_machine.travel(now + timedelta(hours=hours), tick=False):
            # A change of the session does not prolong it.
            session = client.session
            session["visited"] = hours
            session.save()
            assert is_signed_in(client)
    with time_machine.travel(now + timedelta(hours=8, seconds=1), tick=False):
        assert not is_signed_in(client)


def test_sessions_end_with_the_provider_that_began_them(provider: IdentityProvider, settings: Any) -> None:
    client = Client()
    sign_in(provider, client)
    settings.TOOLHUB_SSO_ISSUER = "https://other.example.org"
    assert not is_signed_in(client)
    settings.TOOLHUB_SSO_ISSUER = provider.url
    assert is_signed_in(client)
    settings.AUTHENTICATION_BACKENDS = settings.AUTHENTICATION_BACKENDS[:-1]
    assert not is_signed_in(client)


def test_a_person_whom_an_administrator_switched_off_stays_out(provider: IdentityProvider) -> None:
    sign_in(provider)
    User.objects.update(is_active=False)
    client = Client()
    answer = sign_in(provider, client)
    assert answer.status_code == 403
    assert "switched off" in answer.content.decode()
    assert not is_signed_in(client)


# ---- who is who


def test_a_local_user_with_the_same_name_and_address_stays_another_person(provider: IdentityProvider) -> None:
    local = User.objects.create_superuser("Anna", "a@b.example", "right-and-long")
    provider.claims |= {"email": "a@b.example", "email_verified": True, "groups": ["eyes"]}
    client = Client()
    assert sign_in(provider, client).status_code == 302
    other = User.objects.get(username="anna-2")
    assert client.session["_auth_user_id"] == str(other.pk) != str(local.pk)
    assert governance.role_of(other) == "viewer"
    local.refresh_from_db()
    assert local.is_superuser
    assert local.check_password("right-and-long")


def test_a_person_stays_the_same_whatever_name_the_provider_sends_later(provider: IdentityProvider) -> None:
    sign_in(provider)
    provider.claims |= {"preferred_username": "anna-berg", "email": "new@b.example"}
    sign_in(provider)
    assert [user.username for user in User.objects.all()] == ["anna"]
    provider.claims |= {"sub": "u-2", "preferred_username": "anna"}
    sign_in(provider)
    assert sorted(User.objects.values_list("username", flat=True)) == ["anna", "anna-2"]


def test_the_same_sub_of_another_issuer_is_another_person(provider: IdentityProvider, settings: Any) -> None:
    from tests.sso.conftest import use
    from tests.support.faultd import Faultd

    sign_in(provider)
    with Faultd() as server:
        other = IdentityProvider(server)
        use(settings, other.url)
        sign_in(other)
    assert sorted(User.objects.values_list("username", flat=True)) == ["anna", "anna-2"]


@pytest.mark.parametrize(
    ("claims", "username"),
    [
        ({"preferred_username": "anna@b.example"}, "anna@b.example"),
        ({"preferred_username": "CORP\\anna berg"}, "CORP-anna-berg"),
        # Cyrillic letters that look like Latin ones.
        ({"preferred_username": "\u0430nn\u0430"}, "user-a24a7f55"),
        ({"preferred_username": "J\u00fcrgen"}, "Jurgen"),
        ({"preferred_username": "\u5c71\u7530", "email": "yamada@b.example"}, "yamada@b.example"),
        ({"preferred_username": None, "name": "Anna Berg"}, "Anna-Berg"),
        ({"preferred_username": None}, "user-a24a7f55"),
        ({"preferred_username": "x" * 140}, "x" * 100),
        ({"preferred_username": ["anna"]}, "user-a24a7f55"),
    ],
)
def test_user_names_have_letters_that_everyone_can_read(
    provider: IdentityProvider, claims: dict[str, Any], username: str
) -> None:
    provider.claims |= claims
    assert sign_in(provider).status_code == 302
    assert User.objects.get().username == username


@pytest.mark.parametrize("sub", ["", "x" * 192, 7])
def test_a_sub_that_cannot_be_stored_is_refused(provider: IdentityProvider, sub: Any) -> None:
    provider.claims["sub"] = sub
    assert sign_in(provider).status_code == 400
    assert not User.objects.exists()


def test_an_address_that_is_not_verified_is_not_stored(provider: IdentityProvider) -> None:
    provider.claims["email"] = "boss@b.example"
    sign_in(provider)
    assert User.objects.get().email == ""


def test_groups_can_be_in_a_nested_claim_and_at_the_userinfo_endpoint(
    provider: IdentityProvider, settings: Any
) -> None:
    settings.TOOLHUB_SSO_GROUPS_CLAIM = "realm_access.roles"
    del provider.claims["groups"]
    provider.userinfo = {"realm_access": {"roles": ["ops"]}}
    assert sign_in(provider).status_code == 302
    assert governance.role_of(User.objects.get()) == "operator"


# ---- passwords


def test_a_password_gives_a_person_of_the_provider_nothing(provider: IdentityProvider) -> None:
    sign_in(provider)
    user = User.objects.get()
    user.set_password("right-and-long")
    user.save()
    client = Client()
    answer = client.post("/admin/login/", {"username": "anna", "password": "right-and-long"})
    assert "The user name or the password is wrong." in answer.content.decode()
    assert not is_signed_in(client)


def test_passwords_that_are_off_are_refused_by_the_server_and_not_asked_for(
    provider: IdentityProvider, settings: Any
) -> None:
    User.objects.create_superuser("root", password="right-and-long")
    client = Client()
    page = client.get("/admin/login/").content.decode()
    assert 'name="password"' in page
    assert f"Sign in with {provider.url.removeprefix('http://')}" in page
    settings.TOOLHUB_PASSWORD_SIGN_IN = False
    page = client.get("/admin/login/?next=/admin/tools_app/call/").content.decode()
    assert 'name="password"' not in page
    assert 'href="/admin/sso/?next=%2Fadmin%2Ftools_app%2Fcall%2F"' in page
    for address in ("/admin/login/", "/admin/"):
        client.post(address, {"username": "root", "password": "right-and-long"})
        assert not is_signed_in(client)
    given = {"username": "root", "password": "right-and-long"}
    assert authenticate(RequestFactory().post("/"), **given) is None, "no backend accepts them"


# ---- audit trail


def test_signing_in_and_out_at_the_provider_are_entries(provider: IdentityProvider) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    sign_in(provider, client)
    client.post("/admin/logout/")
    entries = AuditEntry.objects.filter(action__in=("user.create", "user.sign_in", "user.sign_out")).order_by("pk")
    assert [(entry.action, entry.subject, entry.changes.get("channel")) for entry in entries] == [
        ("user.create", "user:anna", None),
        ("user.sign_in", "user:anna", [None, "sso"]),
        ("user.sign_out", "user:anna", [None, "sso"]),
    ]
    provider.claims["groups"] = []
    sign_in(provider, client)
    [failure] = AuditEntry.objects.filter(action="user.sign_in_failed")
    assert (failure.subject, failure.changes) == ("user:anna", {"address": [None, "192.0.2.1"]})


def test_nothing_of_the_tokens_is_stored_or_logged(provider: IdentityProvider, caplog: Any) -> None:
    from allauth.socialaccount.models import SocialAccount, SocialToken

    provider.wrong = {"nonce": "another"}
    sign_in(provider)
    provider.wrong = {}
    sign_in(provider)
    assert SocialAccount.objects.get().extra_data == {}
    assert not SocialToken.objects.exists()
    for secret in ("an-access-token", "eyJ", hub_settings.TOOLHUB_SSO_CLIENT_SECRET):
        assert secret not in caplog.text
