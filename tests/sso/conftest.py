"""A hub whose admin is signed in to at an OpenID Connect provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from tests.support.faultd import Faultd
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider

ROLES = ["admins=admin", "ops=operator", "eyes=viewer", "roots=superuser"]
BACKEND = "toolhub.sso.people.Backend"


def use(settings: Any, issuer: str) -> None:
    """As the environment would have it."""
    settings.TOOLHUB_SSO_ISSUER = issuer
    settings.TOOLHUB_SSO_CLIENT_ID = CLIENT_ID
    settings.TOOLHUB_SSO_CLIENT_SECRET = CLIENT_SECRET
    settings.TOOLHUB_SSO_ROLES = ROLES
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]


@pytest.fixture
def provider(settings: Any, db: None) -> Iterator[IdentityProvider]:
    with Faultd() as server:
        one = IdentityProvider(server)
        use(settings, one.url)
        yield one


def begin(client: Client, next_url: str = "") -> str:
    """The address at the provider."""
    answer = client.get("/admin/sso/", {"next": next_url} if next_url else {})
    assert answer.status_code == 302, answer.content.decode()
    return str(answer["Location"])


def come_back(client: Client, address: str) -> Any:
    assert address.startswith("http://testserver/admin/sso/callback/?"), address
    return client.get(address.removeprefix("http://testserver"))


def sign_in(provider: IdentityProvider, client: Client | None = None, next_url: str = "", **changes: Any) -> Any:
    """The answer to a browser that comes back."""
    browser = client or Client()
    return come_back(browser, provider.authorize(begin(browser, next_url), **changes))


def is_signed_in(client: Client) -> bool:
    return client.get("/admin/").status_code == 200
