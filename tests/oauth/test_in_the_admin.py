"""Signing in from the admin, and what the admin and REST show of it: a state, and never a token."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tests.admin.conftest import browser
from tests.admin.pages import page, sent
from tests.api.rest import Rest
from tests.oauth.conftest import ACTOR, by_credentials, by_person, look, sign_in, token_of
from tests.oauth.test_tokens import expired
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tools_app import governance
from tools_app.models import AuditEntry, Connection, Source, UpstreamToken
from tools_app.sdk.hub_errors import UpstreamSignInError
from tools_app.upstream.oauth import tokens

LIST = "/admin/tools_app/connection/"
BACK = "/admin/tools_app/connection/signed-in/"


@pytest.fixture
def chief(server: McpUpstream) -> Client:
    return browser("chief", is_superuser=True)


def address(name: str = "ann", view: str = "change") -> str:
    return f"{LIST}{Connection.objects.get(name=name).pk}/{view}/"


def way_out(client: Client, **data: str) -> str:
    """The link to the authorization server."""
    shown = sent(client, address(view="sign-in"), **data)
    return next(one["href"] for one in shown.all("a") if "code_challenge" in one.attributes.get("href", ""))


def test_from_the_form_to_a_call(chief: Client, server: McpUpstream, oauth: OAuthServer) -> None:
    made = sent(chief, f"{LIST}add/", name="ann", pack="acme", form="oauth", enabled="on", option_scopes="notes more")
    assert "created" in made.messages[0]
    assert "sign-in required" in made.text
    url = way_out(chief)
    assert "scope=notes%20more" in url
    back = urlsplit(oauth.browse(url))
    assert back.path == BACK
    done = page(chief, f"{back.path}?{back.query}")
    assert done.messages == ["ann is signed in. Test it now."]
    assert "signed in" in done.text
    assert "user:chief" in done.text
    look()
    stored = tokens.Tokens.of(token_of())
    for shown in (done, page(chief, LIST), page(chief, address()), page(chief, address(view="history"))):
        for secret in (stored.access, stored.refresh, stored.client_secret):
            assert secret not in shown.html
    again = page(chief, f"{back.path}?{back.query}")
    assert "was used already" in again.messages[0]
    out = sent(chief, address(view="sign-out"))
    assert out.messages == ["The tokens of ann are deleted."]
    assert "sign-in required" in out.text
    assert set(AuditEntry.objects.filter(action__startswith="connection.sign").values_list("action", flat=True)) == {
        "connection.sign_in",
        "connection.sign_out",
    }


def test_another_user_or_session_cannot_finish_it(chief: Client, server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    back = urlsplit(oauth.browse(way_out(chief)))
    for other in (browser("eve", is_superuser=True), browser("chief2", is_superuser=True)):
        assert "did not begin in this browser" in page(other, f"{back.path}?{back.query}").messages[0]
    stranger = Client().get(f"{back.path}?{back.query}")
    assert (stranger.status_code, UpstreamToken.objects.count()) == (302, 0)
    assert page(chief, f"{back.path}?{back.query}").messages == ["ann is signed in. Test it now."]


def test_viewers_and_operators_do_not_sign_in(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    for name, permissions in {"viewer": ["view_connection"], "operator": ["change_source", "view_connection"]}.items():
        client = browser(name, *permissions)
        assert client.post(address(view="sign-in")).status_code == 403
        assert client.post(address(view="sign-out")).status_code == 403
        assert client.get(BACK).status_code == 403
    assert Client().post(address(view="sign-in")).status_code == 302


def test_problems_are_told_with_what_to_do(chief: Client, server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    oauth.supports_pkce = False
    told = sent(chief, address(view="sign-in"))
    assert "does not support PKCE" in told.messages[0]
    refused = sent(chief, f"{LIST}add/", name="bob", pack="acme", form="oauth", enabled="on", option_issuer="nowhere")
    assert "expected a URL" in refused.text


def test_operators_find_the_way_when_it_has_ended(chief: Client, server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    Source.objects.filter(name="acme").update(connection=Connection.objects.get(name="ann"))
    oauth.revoke_all()
    expired()
    with pytest.raises(UpstreamSignInError):
        look()
    overview = page(chief, "/admin/")
    links = [one["href"] for one in overview.all("a") if one.attributes.get("href") == address()]
    assert links
    assert "sign in again" in overview.text
    assert "sign-in required" in page(chief, LIST).text


def test_each_caller_has_one_on_the_page(chief: Client, server: McpUpstream, oauth: OAuthServer) -> None:
    by_person(per_user=True)
    key, _ = governance.create_key("agent", connections=["ann"], actor=ACTOR)
    for caller in ("me", f"key:{key.pk}"):
        back = urlsplit(oauth.browse(way_out(chief, caller=caller)))
        assert page(chief, f"{back.path}?{back.query}").messages == ["ann is signed in. Test it now."]
    callers = set(UpstreamToken.objects.values_list("caller", flat=True))
    assert f"key:{key.pk}" in callers
    assert len(callers) == 2
    assert "agent" in page(chief, address()).text


def test_rest_shows_the_state_and_no_token(server: McpUpstream, oauth: OAuthServer) -> None:
    rest = Rest(governance.create_key("root", scopes=["admin:*"], connections=[], actor=ACTOR)[1])
    body = {"name": "ann", "pack": "acme", "form": "oauth", "options": {"scopes": "notes"}}
    made = rest.post("/v1/connections", body)
    assert made.status_code == 201
    assert json.loads(made.content)["signIn"]["state"] == "sign_in_required"
    sign_in(oauth)
    shown = json.loads(rest.get("/v1/connections/ann").content)
    assert shown["form"] == "oauth"
    assert shown["options"] == {"scopes": "notes"}
    state = shown["signIn"]
    assert (state["state"], state["issuer"], state["scopes"]) == ("signed_in", oauth.issuer, "notes")
    assert state["expiresAt"] > state["signedInAt"]
    stored = tokens.Tokens.of(token_of())
    for secret in (stored.access, stored.refresh, stored.client_secret):
        assert secret not in json.dumps(shown)
    changed = rest.send("PATCH", "/v1/connections/ann", json.dumps({"options": {"scopes": None, "per_user": True}}))
    assert json.loads(changed.content)["options"] == {"per_user": True}
    assert not UpstreamToken.objects.exists()
    rest.close()


def test_the_document_of_the_hub_exists_where_others_can_read_it(server: McpUpstream, settings: Any) -> None:
    path = "/.well-known/toolhub-client.json"
    assert Client().get(path).status_code == 404
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org"
    document = json.loads(Client().get(path).content)
    assert document["client_id"] == f"https://hub.example.org{path}"
    assert document["redirect_uris"] == [f"https://hub.example.org{BACK}"]
    assert document["token_endpoint_auth_method"] == "none"


def test_the_shell_names_the_page_and_shows_no_token(server: McpUpstream, oauth: OAuthServer, settings: Any) -> None:
    def run(*arguments: str) -> str:
        out = io.StringIO()
        call_command("connection", *arguments, stdout=out)
        return out.getvalue()

    assert run() == "There are no stored connections.\n"
    by_person()
    by_credentials()
    assert run() == "ann: acme, oauth, sign in required\nrobot: acme, client_credentials, not used\n"
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org"
    assert run("signin", "ann") == f"https://hub.example.org{address()}\n"
    sign_in(oauth)
    shown = run("list")
    assert "ann: acme, oauth, signed in until 2" in shown
    assert tokens.Tokens.of(token_of()).access not in shown
    for name in ("robot", "nobody", "a\0b"):
        with pytest.raises(CommandError):
            run("signin", name)
