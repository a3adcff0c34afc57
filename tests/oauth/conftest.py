"""A source outside that wants tokens of an authorization server, and connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.connections.conftest import caller
from tests.support import mcp_upstream, oauth_server
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import engine, governance, sources
from tools_app.governance import Browser, Redirect
from tools_app.models import Definition, Source, SourceStatus, ToolRecord, UpstreamToken
from tools_app.sdk.context import Caller

ACTOR = governance.trusted("user:test")
CALLBACK = "http://hub.example.org/admin/oauth/callback/"
BROWSER = Browser("session-of-test", CALLBACK)


@pytest.fixture
def oauth() -> Iterator[OAuthServer]:
    with oauth_server.running() as server:
        yield server


@pytest.fixture
def server(hub: Hub, oauth: OAuthServer) -> Iterator[McpUpstream]:
    """A server whose source is described, approved and on. From now on it wants a token."""
    with mcp_upstream.running([mcp_upstream.tool("look"), mcp_upstream.tool("write")]) as upstream:
        row = Source.objects.create(name="acme", prefix="acme", kind="mcp_http", location=upstream.url, internal=True)
        SourceStatus.objects.create(source=row)
        sources.current().describe("acme", actor="test")
        waiting = Definition.objects.open().filter(tool__pack="acme")
        governance.approve_definitions([one.pk for one in waiting], actor=ACTOR)
        ToolRecord.everything.filter(pack="acme").update(enabled=True)
        ToolRecord.everything.filter(original_name="look").update(hint_read_only=True)
        rebuild_catalog()
        protect(upstream, oauth)
        yield upstream


def protect(upstream: McpUpstream, oauth: OAuthServer) -> None:
    """Have a server accept the tokens of an authorization server only."""
    root = upstream.url.removesuffix("/mcp")
    path = "/.well-known/oauth-protected-resource/mcp"
    resource = {"resource": upstream.url, "authorization_servers": [oauth.issuer], "scopes_supported": ["notes"]}
    upstream.documents = {path: resource}
    upstream.challenge = f'Bearer resource_metadata="{root}{path}"'
    upstream.accepts = oauth.accepts
    upstream.requests.clear()
    upstream.calls.clear()


def by_credentials(name: str = "robot", **options: Any) -> None:
    secret = {"client_id": "entered", "client_secret": "s3cret-of-client"}
    governance.create_connection(name, "acme", form="client_credentials", secret=secret, options=options, actor=ACTOR)


def by_person(name: str = "ann", secret: Any = "", **options: Any) -> None:
    governance.create_connection(name, "acme", form="oauth", secret=secret, options=options, actor=ACTOR)


def redirect_of(url: str) -> Redirect:
    """What a redirect to the hub says."""
    query = dict(parse_qsl(urlsplit(url).query))
    return Redirect(query.get("state", ""), query.get("code", ""), query.get("iss", ""), query.get("error", ""))


def sign_in(oauth: OAuthServer, name: str = "ann", **options: Any) -> None:
    url = governance.begin_sign_in(name, browser=BROWSER, actor=ACTOR, **options)
    governance.finish_sign_in(redirect_of(oauth.browse(url)), browser=BROWSER, actor=ACTOR)


def token_of(name: str = "ann", user: str = "") -> UpstreamToken:
    return UpstreamToken.objects.get(connection__name=name, caller=user)


def look(by: Caller | None = None, name: str = "ann", tool: str = "acme_look", **arguments: Any) -> Any:
    """What a call answers."""
    made = by or caller(name)
    return engine.call_sync(tool, arguments, made, door="code", options=engine.Options()).answer.value
