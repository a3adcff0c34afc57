"""What `toolhub doctor` says of connections that need a sign-in."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.admin.conftest import browser
from tests.admin.pages import page
from tests.oauth.conftest import by_credentials, by_person, look, sign_in
from tests.oauth.test_tokens import expired
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tools_app.management.commands import doctor
from tools_app.models import Connection, UpstreamToken
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hub_errors import UpstreamSignInError

LIST = "/admin/tools_app/connection/"


def about(name: str) -> list[doctor.Diagnosis]:
    return [one for one in doctor.diagnoses() if one.text.startswith(f"connection {name}:")]


def test_names_connections_without_a_sign_in_and_the_next_step(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    (found,) = about("ann")
    assert (found.is_good, found.text) == (False, "connection ann: a sign-in is required")
    assert "toolhub connection signin ann" in found.advice
    sign_in(oauth)
    assert about("ann") == []
    oauth.revoke_all()
    expired()
    with pytest.raises(UpstreamSignInError):
        look()
    (found,) = about("ann")
    assert "invalid_grant" in found.text
    Connection.objects.update(enabled=False)
    assert about("ann") == []


def test_names_tokens_that_cannot_be_renewed(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    oauth.issues_refresh = False
    sign_in(oauth)
    (found,) = about("ann")
    assert found.is_good
    assert "cannot be renewed" in found.text
    long_ago = timezone.now() - timedelta(hours=1)
    UpstreamToken.objects.update(expires_at=long_ago, renew_at=long_ago)
    (found,) = about("ann")
    assert not found.is_good
    # The next call finds it, too: then every list of connections says so.
    with pytest.raises(UpstreamSignInError, match="has expired"):
        look()
    (found,) = about("ann")
    assert found.text.startswith("connection ann: a sign-in is required: its token has expired")
    assert "sign-in required" in page(browser("chief", is_superuser=True), LIST).text


def test_names_the_reason_of_a_server_that_fails(server: McpUpstream, oauth: OAuthServer) -> None:
    by_credentials()
    assert about("robot") == [], "the first call requests its token"
    oauth.fail("/token", status=503, times=9)
    with pytest.raises(ToolError):
        look(name="robot")
    (found,) = about("robot")
    assert not found.is_good
    assert "cannot be renewed: 127.0.0.1" in found.text
    assert "HTTP 503" in found.text
