"""Where each caller signs in: who counts as the same caller, and who as another."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from tests.oauth.conftest import ACTOR, BROWSER, by_person, look, sign_in, token_of
from tests.support.faultd import Faultd
from tests.support.issuers import Issuer
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tests.support.state import fetch_issuer_keys_again
from tools_app import governance
from tools_app.access import access
from tools_app.governance import callers
from tools_app.models import Toolset, UpstreamToken
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolDisabledError, ValidationError
from tools_app.sdk.hub_errors import UpstreamSignInError
from tools_app.sdk.reach import Reach
from tools_app.upstream.oauth import tokens

AT = "https://hub.example/mcp"


@pytest.fixture(scope="module")
def faultd() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


@pytest.fixture
def idp(faultd: Faultd, settings: Any) -> Issuer:
    """An issuer whose tokens have the tools of the source."""
    issuer = Issuer(faultd)
    issuer.add("one")
    fetch_issuer_keys_again()
    settings.TOOLHUB_OAUTH_ISSUER = issuer.url
    settings.TOOLHUB_OAUTH_AUDIENCE = ["hub"]
    settings.TOOLHUB_OAUTH_TOOLSETS = ["acme"]
    return issuer


def of_token(idp: Issuer, subject: str = "alice") -> Caller:
    return asyncio.run(access.caller_of_key(idp.token(sub=subject, scope="tools:execute"), AT))


def wanted(caller: Caller) -> str:
    """The identity that the error of a call names."""
    with pytest.raises(UpstreamSignInError) as caught:
        look(caller)
    return caught.value.message.partition("there is no sign-in of ")[2].removesuffix(" yet")


@pytest.fixture
def each(server: McpUpstream) -> None:
    by_person(per_user=True)
    Toolset.objects.create(name="acme", packs=["acme"])


def test_a_person_with_a_token_of_the_issuer_has_a_sign_in(
    each: None, server: McpUpstream, oauth: OAuthServer, idp: Issuer
) -> None:
    alice, bob = of_token(idp), of_token(idp, "bob")
    sign_in(oauth, caller=wanted(alice))
    look(alice)
    look(of_token(idp))
    assert wanted(bob) != alice.identity
    sent = {headers["authorization"] for _, headers in server.requests if "authorization" in headers}
    assert sent == {f"Bearer {tokens.Tokens.of(token_of(user=alice.identity)).access}"}


def test_the_same_subject_of_another_issuer_is_another_person(
    each: None, oauth: OAuthServer, idp: Issuer, settings: Any
) -> None:
    alice = of_token(idp)
    sign_in(oauth, caller=alice.identity)
    other = replace(alice, issuer="https://other.example.org")
    assert wanted(other) != alice.identity
    settings.TOOLHUB_OAUTH_ISSUER = other.issuer
    with pytest.raises(ValidationError, match="no caller"):
        sign_in(oauth, caller=alice.identity)


def test_a_token_has_no_connection_that_callers_share(server: McpUpstream, oauth: OAuthServer, idp: Issuer) -> None:
    by_person()
    sign_in(oauth)
    Toolset.objects.create(name="acme", packs=["acme"])
    with pytest.raises(ToolDisabledError) as caught:
        look(of_token(idp))
    assert "may not use any connection" in str(caught.value.context)


def test_a_user_of_this_machine_has_a_sign_in(each: None, oauth: OAuthServer) -> None:
    local = access.caller_of_process(Reach(connections=frozenset({"ann"})))
    assert wanted(local) == f"local:{getpass.getuser()}"
    sign_in(oauth, caller=local.identity)
    look(local)


def test_a_process_without_a_user_never_gets_the_sign_in_of_all_callers(
    each: None, server: McpUpstream, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> str:
        raise OSError("no user")

    sign_in(oauth)
    monkeypatch.setattr(getpass, "getuser", unknown)
    with pytest.raises(UpstreamSignInError, match="does not know as which user") as caught:
        look(access.caller_of_process(Reach(connections=frozenset({"ann"}))))
    assert "USER" in str(caught.value.next_step)
    assert not server.calls


@pytest.mark.parametrize("kind", ["key", "user", "token", "local"])
def test_every_kind_of_caller_has_an_identity(kind: str) -> None:
    assert Caller(kind, f"{kind}:7", "name", issuer="https://id.example.org").identity.startswith(f"{kind}:7")


def test_a_kind_that_is_not_known_has_none() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        _ = Caller("robot", "robot:7", "name").identity


@pytest.mark.parametrize(
    "name", ["token:alice", "token:@", "token:alice@0123456789abcdef", "local:", "local:a\n", "x:1"]
)
def test_refuses_a_sign_in_for_what_is_no_caller(each: None, idp: Issuer, name: str) -> None:
    with pytest.raises(ValidationError, match="no caller"):
        governance.begin_sign_in("ann", browser=BROWSER, actor=ACTOR, caller=name)


def test_a_caller_that_is_forgotten_is_signed_out(each: None, oauth: OAuthServer, idp: Issuer) -> None:
    alice, other = of_token(idp), of_token(idp, "alice@example.org")
    for person in (alice, other):
        with pytest.raises(UpstreamSignInError):
            look(person)
        sign_in(oauth, caller=person.identity)
    stored = tokens.Tokens.of(token_of(user=alice.identity))
    *_, sign_in_line, end = map(json.loads, callers.export_caller("token:alice", actor=ACTOR))
    assert sign_in_line["kind"] == "sign_ins"
    assert sign_in_line["caller"] == alice.identity
    assert stored.access not in str(sign_in_line)
    assert sign_in_line["sealed"] == callers.LEFT_OUT
    assert end["rows"]["sign_ins"] == 1
    assert callers.forget_caller("token:alice", actor=ACTOR, reason="asked to").sign_ins == 1
    assert [row.caller for row in UpstreamToken.objects.all()] == [other.identity]
    assert stored.refresh in oauth.revoked


def test_who_signed_in_for_all_callers_is_forgotten_and_the_sign_in_stays(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    user = get_user_model().objects.create_user("ann")
    UpstreamToken.objects.update(signed_in_by="user:ann")
    callers.forget_caller(f"user:{user.pk}", actor=ACTOR)
    assert token_of().signed_in_by == "forgotten"
    look()
