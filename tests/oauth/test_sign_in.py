"""A person signs in: discovery, the client, PKCE, and a redirect that counts once, in one browser, from one server."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.utils import timezone

from tests.connections.conftest import caller
from tests.oauth.conftest import (
    ACTOR,
    BROWSER,
    CALLBACK,
    by_credentials,
    by_person,
    look,
    redirect_of,
    sign_in,
    token_of,
)
from tests.support import oauth_server
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tools_app import governance
from tools_app.models import AuditEntry, Connection, SignIn, Source, UpstreamToken
from tools_app.sdk.errors import (
    AuthorizationError,
    ConfigurationError,
    ToolError,
    UpstreamUnavailableError,
    ValidationError,
)
from tools_app.sdk.hub_errors import UpstreamSignInError
from tools_app.upstream.oauth import tokens

DOCUMENT = "https://hub.example.org/.well-known/toolhub-client.json"


def begin(name: str = "ann", browser: governance.Browser = BROWSER, **options: Any) -> str:
    return governance.begin_sign_in(name, browser=browser, actor=ACTOR, **options)


def finish(redirect: governance.Redirect, browser: governance.Browser = BROWSER, actor: Any = ACTOR) -> str:
    return governance.finish_sign_in(redirect, browser=browser, actor=actor)


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def test_from_the_source_to_a_call(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    with pytest.raises(UpstreamSignInError, match="no person has signed in yet"):
        look()
    asked = query(begin())
    assert asked["redirect_uri"] == CALLBACK
    assert (asked["resource"], asked["scope"]) == (server.url, "notes")
    assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
    sign_in(oauth)
    look()
    row = token_of()
    assert (row.signed_in_by, row.server["client_kind"], row.scopes) == ("user:test", "registered", "notes")
    exchange = next(form for path, form in oauth.requests if form.get("grant_type") == "authorization_code")
    assert exchange["resource"] == server.url
    entry = AuditEntry.objects.get(action="connection.sign_in")
    secrets = tokens.Tokens.of(row)
    assert oauth.issuer in str(entry.changes)
    for secret in (secrets.access, secrets.refresh, secrets.client_secret):
        assert secret not in str(entry.changes)


def test_a_redirect_counts_once(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    redirect = redirect_of(oauth.browse(begin()))
    outcomes: list[str] = []

    def come_back() -> None:
        try:
            outcomes.append(finish(redirect))
        except AuthorizationError:
            outcomes.append("refused")
        finally:
            from django.db import connections

            connections.close_all()

    threads = [threading.Thread(target=come_back) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["ann", "refused", "refused", "refused"]
    with pytest.raises(AuthorizationError, match="was used already"):
        finish(redirect)
    assert not SignIn.objects.exists()


def test_a_redirect_counts_in_the_session_of_its_user_only_and_for_ten_minutes(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    redirect = redirect_of(oauth.browse(begin()))
    others = [
        (replace(BROWSER, session="another"), ACTOR),
        (replace(BROWSER, redirect_uri="http://hub.example.com/admin/oauth/callback/"), ACTOR),
        (BROWSER, governance.trusted("user:eve")),
    ]
    for browser, actor in others:
        with pytest.raises(AuthorizationError, match="did not begin in this browser"):
            finish(redirect, browser, actor)
    with pytest.raises(AuthorizationError):
        finish(replace(redirect, state="x" * 43))
    SignIn.objects.update(created_at=timezone.now() - timedelta(seconds=601))
    with pytest.raises(AuthorizationError):
        finish(redirect)
    assert not UpstreamToken.objects.exists()
    begin()
    assert SignIn.objects.count() == 1, "what is over is deleted"


@pytest.mark.parametrize("issuer", ["", "https://evil.example.org", "{issuer}/"])
def test_a_redirect_of_another_server_is_refused_before_its_code_is_sent_anywhere(
    server: McpUpstream, oauth: OAuthServer, issuer: str
) -> None:
    by_person()
    redirect = redirect_of(oauth.browse(begin()))
    with pytest.raises(AuthorizationError, match="not from"):
        finish(replace(redirect, issuer=issuer.format(issuer=oauth.issuer)))
    assert "/token" not in [path for path, _ in oauth.requests]
    assert not UpstreamToken.objects.exists()


def test_an_error_of_the_server_is_told_without_its_text(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    redirect = replace(redirect_of(oauth.browse(begin())), code="", error="access_denied")
    with pytest.raises(AuthorizationError, match="access_denied"):
        finish(redirect)


def test_without_pkce_nobody_signs_in(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.supports_pkce = False
    by_person()
    with pytest.raises(ToolError, match="does not support PKCE"):
        begin()


def test_metadata_of_another_issuer_is_refused(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.named_issuer = "https://login.example.org"
    by_person()
    with pytest.raises(ToolError, match="another issuer"):
        begin()


def test_metadata_of_another_resource_or_origin_is_refused(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    (path,) = server.documents
    server.documents[path] = {**server.documents[path], "resource": "https://bank.example.org/mcp"}
    with pytest.raises(ToolError, match="another resource"):
        begin()
    server.challenge = f'Bearer resource_metadata="{oauth.issuer}/.well-known/oauth-protected-resource"'
    with pytest.raises(ToolError, match="another origin"):
        begin()


def test_an_issuer_that_was_entered_must_be_one_that_the_source_names(server: McpUpstream, oauth: OAuthServer) -> None:
    with oauth_server.running() as other:
        by_person(issuer=other.issuer)
        with pytest.raises(ToolError, match="does not name"):
            begin()
        # A source without metadata says nothing: then the operator does.
        server.documents.clear()
        server.challenge = "Bearer"
        assert begin().startswith(other.issuer)


def test_a_source_without_metadata_can_be_its_own_authorization_server(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    root = server.url.removesuffix("/mcp")
    server.challenge = "Bearer"
    document = oauth.documents()["/.well-known/oauth-authorization-server"]
    server.documents = {"/.well-known/oauth-authorization-server": {**document, "issuer": root}}
    assert begin().startswith(f"{oauth.issuer}/authorize")


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254/token", "javascript:alert(1)", "https://user:pass@host/token", "ftp://host/"]
)
@pytest.mark.parametrize("name", ["token_endpoint", "authorization_endpoint", "registration_endpoint"])
def test_endpoints_that_no_request_may_go_to_are_refused(
    server: McpUpstream, oauth: OAuthServer, name: str, endpoint: str
) -> None:
    oauth.metadata = {name: endpoint}
    by_person()
    with pytest.raises(ToolError, match="cannot be used"):
        begin()


def test_a_source_on_the_internet_cannot_lead_the_hub_into_its_own_network(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    Source.objects.filter(name="acme").update(internal=False)
    oauth.requests.clear()
    with pytest.raises(ToolError, match="https://"):
        begin()
    assert oauth.requests == []


def test_a_client_id_that_was_entered_comes_first(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person(secret={"client_id": "entered", "client_secret": "s3cret-of-client"})
    sign_in(oauth)
    assert token_of().server["client_kind"] == "entered"
    assert oauth.count("registration") == 0
    look()


def test_a_document_describes_the_hub_before_it_is_registered(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.takes_documents = True
    by_person()
    public = replace(BROWSER, document_url=DOCUMENT)
    url = begin(browser=public)
    assert query(url)["client_id"] == DOCUMENT
    finish(redirect_of(oauth.browse(url)), public)
    assert token_of().server["client_kind"] == "document"
    assert oauth.count("registration") == 0
    look()
    # Without a public URL nobody could read it.
    assert query(begin())["client_id"].startswith("client-")


def test_without_registration_the_operator_is_told_what_to_enter(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.registers = False
    by_person()
    with pytest.raises(ToolError, match="does not register clients") as refused:
        begin()
    assert CALLBACK in refused.value.message


def test_a_registration_that_works_is_used_again_and_another_one_is_not(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    sign_in(oauth)
    assert oauth.count("registration") == 1
    UpstreamToken.objects.update(needs_sign_in=True)
    sign_in(oauth)
    assert oauth.count("registration") == 2


def test_a_code_that_the_server_refuses_leaves_nothing(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    redirect = redirect_of(oauth.browse(begin()))
    with pytest.raises(ToolError, match="invalid_grant"):
        finish(replace(redirect, code="another"))
    assert not UpstreamToken.objects.exists()


def test_a_sign_in_ends_with_the_source_that_it_was_for(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    redirect = redirect_of(oauth.browse(begin()))
    refresh = tokens.Tokens.of(token_of()).refresh
    governance.change_origin("acme", location="http://127.0.0.1:9/mcp", internal=True, actor=ACTOR)
    assert not UpstreamToken.objects.exists()
    assert refresh in oauth.revoked
    with pytest.raises(ToolError):
        finish(redirect)
    assert not UpstreamToken.objects.exists()
    # Saved again, it is a connection to the new address; it needs a new sign-in.
    governance.change_connection("ann", read_only=False, actor=ACTOR)
    assert Connection.objects.get(name="ann").url == "http://127.0.0.1:9/mcp"


def test_a_deleted_connection_revokes_its_tokens(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    stored = tokens.Tokens.of(token_of())
    governance.delete_connection("ann", actor=ACTOR)
    assert oauth.revoked == [stored.refresh, stored.access] or set(oauth.revoked) == {stored.refresh, stored.access}
    assert not oauth.accepts(f"Bearer {stored.access}")


def test_a_server_that_does_not_revoke_stops_no_removal(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    oauth.fail("/revoke", status=503, times=10)
    governance.delete_connection("ann", actor=ACTOR)
    assert not Connection.objects.exists()


def test_after_a_sign_out_no_call_uses_the_old_token(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    look()
    assert governance.sign_out("ann", actor=ACTOR) == ["all callers"]
    server.accepts = lambda header: True
    with pytest.raises(UpstreamSignInError):
        look()
    assert len(server.calls) == 1
    assert governance.sign_out("ann", actor=ACTOR) == []


def test_every_caller_signs_in_where_the_connection_says_so(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person(per_user=True)
    ann, bob = (replace(caller("ann"), id=f"user:{number}", kind="user") for number in (1, 2))
    sign_in(oauth, caller=ann.id)
    look(ann)
    with pytest.raises(UpstreamSignInError, match="no sign-in of user:2 yet"):
        look(bob)
    sign_in(oauth, caller=bob.id)
    look(bob)
    look(ann)
    sent = [headers["authorization"] for _, headers in server.requests if "authorization" in headers]
    own = {tokens.Tokens.of(token_of(user=one.id)).access for one in (ann, bob)}
    assert {header.removeprefix("Bearer ") for header in sent} == own
    assert governance.sign_out("ann", actor=ACTOR, caller=ann.id) == ["user:1"]
    look(bob)
    with pytest.raises(UpstreamSignInError):
        look(ann)


def test_a_sign_in_is_for_callers_that_exist(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    by_person("each", per_user=True)
    with pytest.raises(ValidationError, match="has one sign-in"):
        begin(caller="user:1")
    for one in ("key:999", "user:x", "key:"):
        with pytest.raises(ValidationError, match="no caller"):
            begin("each", caller=one)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"scopes": 'a"b'}, "scopes"),
        ({"issuer": "not a url"}, "expected a URL"),
        ({"issuer": "https://user:pw@host/"}, "expected a URL"),
        ({"token_url": "https://host/token"}, "known are"),
        ({"per_user": "yes"}, "true or false"),
        ({"audience": "x"}, "known are"),
    ],
)
def test_options_are_checked(server: McpUpstream, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        by_person(**options)


def test_values_are_checked(server: McpUpstream) -> None:
    for secret in ({"client_secret": "x"}, {"token": "x"}, {"client_id": "x", "other": "y"}):
        with pytest.raises(ValidationError):
            by_person(secret=secret)
    with pytest.raises(ValidationError):
        governance.create_connection("robot", "acme", form="client_credentials", secret={"client_id": "x"}, actor=ACTOR)
    by_credentials()
    with pytest.raises(ValidationError, match="only connections of the form oauth|Only connections"):
        begin("robot")


def test_a_change_of_the_client_ends_the_sign_in_and_a_new_secret_does_not(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person(secret={"client_id": "entered", "client_secret": "s3cret-of-client"})
    sign_in(oauth)
    governance.change_connection("ann", secret={"client_secret": "s3cret-of-client"}, actor=ACTOR)
    assert UpstreamToken.objects.count() == 1
    governance.change_connection("ann", options={"scopes": "more"}, actor=ACTOR)
    assert UpstreamToken.objects.count() == 0


def test_too_many_sign_ins_that_never_end_are_refused(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    connection = Connection.objects.get(name="ann")
    for number in range(100):
        SignIn.objects.create(
            state_hash=str(number), connection=connection, user="x", session_hash="x", sealed=b"x", server={}
        )
    with pytest.raises(ConfigurationError, match="Too many"):
        begin()


def test_secrets_are_encrypted_anew(server: McpUpstream, oauth: OAuthServer, settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = "a-key-of-thirty-two-characters-1"
    by_person()
    sign_in(oauth)
    settings.TOOLHUB_ENCRYPTION_KEY = "a-key-of-thirty-two-characters-2,a-key-of-thirty-two-characters-1"
    rotation = governance.rotate_secrets(actor=ACTOR)
    assert (rotation.rotated, rotation.unreadable) == (2, [])
    look()


def test_a_client_that_was_entered_is_not_sent_to_another_server(server: McpUpstream, oauth: OAuthServer) -> None:
    """A source that is taken over names a server of its attacker."""
    by_person(secret={"client_id": "entered", "client_secret": "s3cret-of-client"})
    sign_in(oauth)
    with oauth_server.running() as attacker:
        (document,) = server.documents.values()
        document["authorization_servers"] = [attacker.issuer]
        with pytest.raises(ConfigurationError, match="was entered for"):
            begin()
        assert "s3cret" not in repr(attacker.requests)
        # An operator can decide so.
        governance.sign_out("ann", actor=ACTOR)
        sign_in(attacker)
        server.accepts = attacker.accepts
        look()


def test_a_registration_with_another_redirect_uri_is_refused(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    other = {"client_id": "x", "redirect_uris": ["https://elsewhere.example.org/"]}
    oauth.fail("/register", status=201, body=other)
    with pytest.raises(UpstreamUnavailableError, match="another redirect URI"):
        begin()


def test_scopes_that_no_server_has_are_left_out(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    (document,) = server.documents.values()
    document["scopes_supported"] = ["notes", "a\x1bb", "x" * 5_000, "more"]
    sign_in(oauth)
    look()
    assert token_of().scopes == "notes more"
