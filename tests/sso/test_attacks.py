"""Attacks on the sign-in at the provider: each ends with a page that explains, and without a session."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings as hub_settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse

from tests.sso.conftest import begin, come_back, is_signed_in, sign_in, use
from tests.support.faultd import Faultd
from tests.support.identity_provider import CLIENT_ID, IdentityProvider
from tests.support.issuers import MAKERS, forged
from tools_app.models import AuditEntry


def refused(answer: Any, status: int, words: str) -> str:
    """The page of a failed sign-in."""
    page = str(answer.content.decode())
    assert answer.status_code == status, page
    assert words in page
    assert not User.objects.filter(username="anna").exists()
    return page


UNTRUSTED = "cannot be trusted"
STALE = "used already, took longer than ten minutes, or began in another browser"


def test_the_redirect_has_state_nonce_and_pkce_of_its_own(provider: IdentityProvider) -> None:
    queries = [parse_qs(urlsplit(begin(Client())).query) for _ in range(2)]
    for query in queries:
        assert query["code_challenge_method"] == ["S256"]
        assert len(query["code_challenge"][0]) == 43
        assert query["response_type"] == ["code"]
        assert set(query["scope"][0].split()) == {"openid", "profile", "email"}
    for name in ("state", "nonce", "code_challenge"):
        assert queries[0][name] != queries[1][name]
        assert len(queries[0][name][0]) >= 16


def test_the_scope_for_groups_is_requested_where_the_provider_has_it(provider: IdentityProvider) -> None:
    provider.metadata["scopes_supported"] = ["openid", "groups", "offline_access"]
    [scope] = parse_qs(urlsplit(begin(Client())).query)["scope"]
    assert set(scope.split()) == {"openid", "profile", "email", "groups"}


def test_a_request_decides_nothing_of_the_redirect(provider: IdentityProvider) -> None:
    """allauth takes all of these from the request."""
    given = {
        "scope": "offline_access",
        "auth_params": "redirect_uri=https://evil.example&prompt=none",
        "process": "connect",
        "action": "reauthenticate",
    }
    query = parse_qs(urlsplit(Client().get("/admin/sso/", given)["Location"]).query)
    assert query["redirect_uri"] == ["http://testserver/admin/sso/callback/"]
    assert "prompt" not in query
    assert "offline_access" not in query["scope"][0]


def test_the_public_url_is_where_the_browser_comes_back(provider: IdentityProvider, settings: Any) -> None:
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org"
    location = Client().get("/admin/sso/", headers={"host": "testserver"})["Location"]
    assert parse_qs(urlsplit(location).query)["redirect_uri"] == ["https://hub.example.org/admin/sso/callback/"]


# ---- state and code


def test_a_state_is_used_once(provider: IdentityProvider) -> None:
    client = Client()
    address = provider.authorize(begin(client))
    assert come_back(client, address).status_code == 302
    client.post("/admin/logout/")
    User.objects.all().delete()
    refused(come_back(client, address), 400, STALE)
    assert not is_signed_in(client)


def test_a_state_is_used_once_even_if_it_failed(provider: IdentityProvider) -> None:
    client = Client()
    address = provider.authorize(begin(client))
    provider.wrong = {"nonce": "another"}
    refused(come_back(client, address), 400, UNTRUSTED)
    provider.wrong = {}
    refused(come_back(client, address), 400, STALE)


def test_the_answer_belongs_to_the_browser_that_began(provider: IdentityProvider) -> None:
    """Otherwise an attacker could sign a victim in as the attacker."""
    attacker, victim = Client(), Client()
    address = provider.authorize(begin(attacker))
    begin(victim)
    refused(come_back(victim, address), 400, STALE)
    assert not is_signed_in(victim)


@pytest.mark.parametrize("changes", [{"state": ""}, {"state": "guessed"}, {"state": "x" * 9_000}])
def test_a_state_that_the_hub_did_not_make_is_refused(provider: IdentityProvider, changes: dict[str, Any]) -> None:
    refused(sign_in(provider, **changes), 400, STALE)
    assert not provider.refusals, "the provider was not asked"


def test_a_state_ends_after_ten_minutes(provider: IdentityProvider) -> None:
    import time_machine

    client = Client()
    address = provider.authorize(begin(client))
    with time_machine.travel(time.time() + 601, tick=False):
        refused(come_back(client, address), 400, STALE)


def test_a_code_is_used_once(provider: IdentityProvider) -> None:
    first, second = Client(), Client()
    address = provider.authorize(begin(first))
    code = parse_qs(urlsplit(address).query)["code"][0]
    assert come_back(first, address).status_code == 302
    User.objects.all().delete()
    refused(sign_in(provider, second, code=code), 400, STALE)
    assert provider.refusals == ["invalid_grant"]


def test_a_stolen_code_is_worth_nothing_in_another_session(provider: IdentityProvider) -> None:
    """PKCE: the code of one sign-in does not fit the verifier of another."""
    victim, thief = Client(), Client()
    code = parse_qs(urlsplit(provider.authorize(begin(victim))).query)["code"][0]
    refused(sign_in(provider, thief, code=code), 400, STALE)
    assert provider.refusals == ["invalid_grant"]
    assert not is_signed_in(thief)


# ---- mix-up


def test_an_answer_of_another_issuer_is_refused(provider: IdentityProvider) -> None:
    page = refused(sign_in(provider, iss="https://evil.example"), 400, UNTRUSTED)
    assert "evil.example" not in page
    assert not provider.server.requests or not any("/token" in one.target for one in provider.server.requests)


def test_an_answer_names_its_issuer_where_the_provider_says_so(provider: IdentityProvider) -> None:
    provider.metadata["authorization_response_iss_parameter_supported"] = True
    refused(sign_in(provider), 400, UNTRUSTED)
    assert sign_in(provider, iss=provider.url).status_code == 302


def test_metadata_of_another_issuer_are_refused(provider: IdentityProvider) -> None:
    provider.metadata["issuer"] = "https://evil.example"
    answer = Client().get("/admin/sso/")
    refused(answer, 502, "settings of this hub do not fit together")


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
@pytest.mark.parametrize("address", ["http://login.example.org/x", "javascript:alert(1)", 7])
def test_addresses_that_others_can_read_on_the_way_are_refused(
    provider: IdentityProvider, name: str, address: Any
) -> None:
    provider.metadata[name] = address
    refused(Client().get("/admin/sso/"), 502, "settings of this hub do not fit together")


def test_addresses_of_a_cloud_are_not_asked(provider: IdentityProvider) -> None:
    provider.metadata["token_endpoint"] = "https://169.254.169.254/token"
    refused(sign_in(provider), 502, "does not answer")


# ---- ID tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another-client"]},
        {"aud": None},
        {"azp": "another-client"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"sub": None},
        {"exp": None},
        {"iat": None},
    ],
)
def test_a_token_for_another_purpose_is_refused(provider: IdentityProvider, wrong: dict[str, Any]) -> None:
    provider.wrong = wrong
    refused(sign_in(provider), 400, UNTRUSTED)


@pytest.mark.parametrize("wrong", [{"exp": int(time.time()) - 60}, {"iat": int(time.time()) + 3600}])
def test_clocks_that_differ_are_named(provider: IdentityProvider, wrong: dict[str, Any]) -> None:
    provider.wrong = wrong
    refused(sign_in(provider), 502, "clocks of this hub and of the sign-in service differ")


def _claims(provider: IdentityProvider, location: str) -> dict[str, Any]:
    now = int(time.time())
    [nonce] = parse_qs(urlsplit(location).query)["nonce"]
    own = {"iss": provider.url, "aud": CLIENT_ID, "exp": now + 60, "iat": now, "nonce": nonce}
    return {**own, **provider.claims}


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256"])
def test_a_token_that_is_not_signed_by_the_provider_is_refused(provider: IdentityProvider, algorithm: str) -> None:
    client = Client()
    location = begin(client)
    # HS256: with the published key as the secret, or with that of the client.
    secrets = [None] if algorithm != "HS256" else [b"a-secret-of-a-client", str(provider.published[0]).encode()]
    for secret in secrets:
        provider.id_token = forged({"alg": algorithm, "kid": "one"}, _claims(provider, location), secret)
        refused(come_back(client, provider.authorize(location)), 400, UNTRUSTED)
        location = begin(client)


def test_a_token_with_a_key_that_is_not_published_is_refused(provider: IdentityProvider) -> None:
    client = Client()
    for key_id in ("one", "two", None):
        provider.keys["stolen"] = ("RS256", MAKERS["RS256"]())
        location = begin(client)
        provider.id_token = provider.token("stolen", header={"kid": key_id}, **_claims(provider, location))
        refused(come_back(client, provider.authorize(location)), 400, UNTRUSTED)


def test_a_token_without_a_key_id_is_verified_with_the_only_key(provider: IdentityProvider) -> None:
    client = Client()
    location = begin(client)
    provider.id_token = provider.token("one", header={"kid": None}, **_claims(provider, location))
    assert come_back(client, provider.authorize(location)).status_code == 302


def test_an_answer_without_a_token_is_refused(provider: IdentityProvider) -> None:
    for token in ("", "eyJ.no.token", "x" * 70_000):
        provider.id_token = token
        refused(sign_in(provider), 400, UNTRUSTED)


def test_userinfo_of_another_person_are_refused(provider: IdentityProvider) -> None:
    del provider.claims["groups"]
    provider.userinfo = {"sub": "u-2", "groups": ["admins"]}
    refused(sign_in(provider), 400, UNTRUSTED)


def test_userinfo_do_not_override_what_is_signed(provider: IdentityProvider) -> None:
    del provider.claims["groups"]
    provider.claims["preferred_username"] = "ben"
    provider.userinfo = {"groups": ["eyes"], "preferred_username": "root"}
    assert sign_in(provider).status_code == 302
    assert User.objects.get().username == "ben"


# ---- redirects


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "//evil.example/admin/",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/admin/../../evil",
        "https://testserver@evil.example/admin/",
        "/v1/tools",
        "/admin/x\r\nSet-Cookie: a=b",
        "/admin/" + "x" * 3_000,
    ],
)
def test_nobody_is_sent_elsewhere_after_the_sign_in(provider: IdentityProvider, address: str) -> None:
    location = sign_in(provider, next_url=address)["Location"]
    assert location.startswith("/admin/")
    assert urlsplit(location).path == location, "not even a header can be planted"
    assert "evil.example" not in location


def test_the_page_that_was_asked_for_comes_after_the_sign_in(provider: IdentityProvider) -> None:
    assert sign_in(provider, next_url="/admin/tools_app/call/?q=a")["Location"] == "/admin/tools_app/call/?q=a"


def test_a_page_that_is_planted_in_the_answer_is_ignored(provider: IdentityProvider) -> None:
    client = Client()
    address = provider.authorize(begin(client)) + "&next=/admin/auth/user/"
    assert come_back(client, address)["Location"] == "/admin/"


# ---- failures of the provider


def test_a_refusal_is_explained_and_is_no_attempt(provider: IdentityProvider) -> None:
    for _ in range(hub_settings.TOOLHUB_LOGIN_FAILURES + 1):
        answer = sign_in(provider, code="", error="access_denied", error_description="<script>alert(1)</script>")
        page = refused(answer, 403, "cancelled, or the sign-in service refused it")
        assert "alert" not in page
    assert sign_in(provider).status_code == 302


def test_a_provider_that_does_not_answer_is_named(provider: IdentityProvider, settings: Any, caplog: Any) -> None:
    with Faultd() as server:
        gone = server.url
    use(settings, gone)
    page = refused(Client().get("/admin/sso/"), 502, "does not answer")
    assert "Try again in a few minutes" in page
    reference = page.partition("Reference:")[2].partition("<code>")[2].partition("<")[0]
    assert len(reference) == 8
    assert any(
        reference in record.getMessage() and "cannot be reached" in record.getMessage() for record in caplog.records
    )


def test_a_wrong_client_secret_is_a_matter_of_settings(provider: IdentityProvider, settings: Any, caplog: Any) -> None:
    settings.TOOLHUB_SSO_CLIENT_SECRET = "another"
    page = refused(sign_in(provider), 502, "settings of this hub do not fit together")
    assert "Tell the administrator" in page
    assert "invalid_client" in caplog.text


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"{", b'{"issuer": 1}', b"\xff"])
def test_metadata_that_cannot_be_read_are_explained(provider: IdentityProvider, body: bytes) -> None:
    async def answer(wire: Any) -> None:
        await wire.answer(body)

    provider.server.answer(".well-known", answer)
    assert Client().get("/admin/sso/").status_code == 502


# ---- attempts are counted


def test_attempts_that_fail_too_often_are_locked_for_this_address(provider: IdentityProvider) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    provider.wrong = {"nonce": "another"}
    statuses = [sign_in(provider, client).status_code for _ in range(hub_settings.TOOLHUB_LOGIN_FAILURES)]
    assert set(statuses[:-1]) == {400}
    assert statuses[-1] == 429
    for path in ("/admin/sso/", "/admin/sso/callback/?state=guessed&code=x"):
        assert client.get(path).status_code == 429
    [entry] = AuditEntry.objects.filter(action="user.lock")
    assert entry.subject == f"user:sso:{provider.url.removeprefix('http://')}"
    assert Client(REMOTE_ADDR="192.0.2.2").get("/admin/sso/").status_code == 302
    # Passwords are another matter.
    User.objects.create_superuser("root", password="right-and-long")
    client.post("/admin/login/", {"username": "root", "password": "right-and-long"})
    assert is_signed_in(client)


def test_another_site_cannot_lock_anybody_out(provider: IdentityProvider) -> None:
    """It can make browsers come here with answers that nobody asked for."""
    client = Client(REMOTE_ADDR="192.0.2.1")
    for _ in range(2 * hub_settings.TOOLHUB_LOGIN_FAILURES):
        assert client.get("/admin/sso/callback/?state=guessed&code=x&iss=https://evil.example").status_code == 400
    assert sign_in(provider, client).status_code == 302
    [entry] = AuditEntry.objects.filter(action="user.sign_in_failed")
    assert (entry.subject, entry.changes) == ("user:?", {"address": [None, "192.0.2.1"]})


def test_the_rate_limit_of_an_address_counts_both_pages(provider: IdentityProvider, settings: Any) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 4
    client = Client(REMOTE_ADDR="192.0.2.3")
    statuses = [client.get(path).status_code for path in ("/admin/sso/", "/admin/sso/callback/") * 3]
    assert statuses == [302, 400, 302, 400, 429, 429]


# ---- what else there is


def test_without_a_provider_there_are_no_such_pages(client: Client, db: None) -> None:
    for path in ("/admin/sso/", "/admin/sso/callback/"):
        assert client.get(path).status_code == 404
    assert "Sign in with" not in client.get("/admin/login/").content.decode()


def test_only_links_lead_to_the_provider_and_only_pages_come_back(provider: IdentityProvider) -> None:
    for path in ("/admin/sso/", "/admin/sso/callback/"):
        assert Client().post(path).status_code == 405


def test_no_page_of_allauth_is_there(provider: IdentityProvider) -> None:
    User.objects.create_superuser("root", password="right-and-long")
    client = Client()
    client.force_login(User.objects.get(username="root"), "django.contrib.auth.backends.ModelBackend")
    for path in ("accounts/login/", "accounts/signup/", "accounts/password/reset/", "accounts/email/", "accounts/"):
        for prefix in ("/", "/admin/"):
            assert client.get(f"{prefix}{path}").status_code == 404, path
    for app, model in (
        *(("account", "emailaddress"), ("account", "emailconfirmation")),
        *(("socialaccount", "socialaccount"), ("socialaccount", "socialapp"), ("socialaccount", "socialtoken")),
    ):
        assert client.get(f"/admin/{app}/{model}/").status_code == 404
    names = {str(name) for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert {name for name in names if name.startswith(("account_", "socialaccount_", "openid", "mfa_"))} == set()
    assert reverse("sso_begin") == "/admin/sso/"
