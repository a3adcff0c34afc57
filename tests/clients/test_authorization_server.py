"""A sign-in at an authorization server that others wrote (oidc-provider), from its discovery to a renewed token."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urljoin

import httpx
import pytest
from django.utils import timezone

from tests.clients.conftest import MODULES
from tests.oauth.conftest import ACTOR, BROWSER, CALLBACK, by_person, look, oauth, redirect_of, server, token_of
from tests.oauth.test_tokens import forget_memory
from tests.support.mcp_upstream import McpUpstream
from tools_app import governance
from tools_app.models import UpstreamToken
from tools_app.sdk.hub_errors import UpstreamSignInError
from tools_app.upstream.oauth import tokens

__all__ = ["oauth", "server"]


@pytest.fixture
def issuer(server: McpUpstream, node: str) -> Iterator[str]:
    """The server, which from now on decides about the tokens that the source accepts."""
    command = [node, str(MODULES.parent / "authorization_server.mjs"), server.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with httpx.Client(trust_env=False) as client:

            def accepts(header: str) -> bool:
                token = header.removeprefix("Bearer ")
                return bool(token) and client.get(f"{address}/valid", params={"token": token}).status_code == 200

            server.accepts = accepts
            (path,) = server.documents
            server.documents[path]["authorization_servers"] = [address]
            yield address
    finally:
        process.communicate(timeout=30)


def browse(url: str) -> str:
    """Follow redirects as a browser does, up to the one to the hub."""
    with httpx.Client(trust_env=False) as client:
        for _ in range(10):
            response = client.get(url)
            assert response.is_redirect, response.text
            url = urljoin(url, response.headers["location"])
            if url.startswith(CALLBACK):
                return url
    raise AssertionError("too many redirects")


def sign_in() -> None:
    url = governance.begin_sign_in("ann", browser=BROWSER, actor=ACTOR)
    governance.finish_sign_in(redirect_of(browse(url)), browser=BROWSER, actor=ACTOR)


def end() -> None:
    past = timezone.now() - timedelta(seconds=1)
    UpstreamToken.objects.update(renew_at=past, expires_at=past)


def test_sign_in_renew_lose_the_answer_and_sign_in_again(server: McpUpstream, issuer: str) -> None:
    by_person()
    sign_in()
    row = token_of()
    assert (row.server["issuer"], row.server["client_kind"], row.scopes) == (issuer, "registered", "notes")
    end()
    first = tokens.Tokens.of(row)
    look()
    second = tokens.Tokens.of(token_of())
    assert second.refresh != first.refresh, "it rotates them"
    # The spent one again, as after a lost answer: the whole family is revoked.
    UpstreamToken.objects.update(sealed=first.sealed())
    end()
    forget_memory()
    with pytest.raises(UpstreamSignInError, match="invalid_grant"):
        look(name="ann")
    sign_in()
    look()
    assert len(server.calls) == 2
    stored = tokens.Tokens.of(token_of())
    governance.delete_connection("ann", actor=ACTOR)
    assert server.accepts is not None
    assert not server.accepts(f"Bearer {stored.access}"), "it is revoked"


def test_a_client_that_was_forgotten_is_registered_again_at_the_next_sign_in(server: McpUpstream, issuer: str) -> None:
    by_person()
    sign_in()
    httpx.post(f"{issuer}/forget", trust_env=False).raise_for_status()
    end()
    # A refresh token belongs to its client: the new registration cannot use it.
    with pytest.raises(UpstreamSignInError, match="invalid_grant"):
        look()
    sign_in()
    look()


def test_client_credentials(server: McpUpstream, issuer: str) -> None:
    secret = {"client_id": "robot", "client_secret": "a-secret-of-a-robot"}
    governance.create_connection("robot", "acme", form="client_credentials", secret=secret, actor=ACTOR)
    look(name="robot")
    assert token_of("robot").version == 1
