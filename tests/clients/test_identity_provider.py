"""Sign-ins to the admin at a provider that others wrote (oidc-provider), which sends `iss` and demands PKCE."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.clients.conftest import MODULES
from tests.sso.conftest import begin, come_back, is_signed_in, use
from tools_app import governance

CALLBACK = "http://testserver/admin/sso/callback/"


@pytest.fixture
def issuer(node: str, settings: Any, db: None) -> Iterator[str]:
    command = [node, str(MODULES.parent / "identity_provider.mjs"), CALLBACK, "admins", "others"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        use(settings, address)
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


def test_sign_in_lose_the_group_and_be_refused(issuer: str) -> None:
    client = Client()
    address = browse(begin(client))
    assert httpx.URL(address).params["iss"] == issuer
    assert come_back(client, address)["Location"] == "/admin/"
    user = User.objects.get()
    assert (user.username, user.email, governance.role_of(user)) == ("anna", "a@b.example", "admin")
    assert come_back(client, address).status_code == 400, "once"
    httpx.put(f"{issuer}/groups", json=["others"], trust_env=False).raise_for_status()
    other = Client()
    assert come_back(other, browse(begin(other))).status_code == 403
    assert not is_signed_in(client)


def test_a_code_of_one_session_is_refused_in_another(issuer: str) -> None:
    victim, thief = Client(), Client()
    stolen = httpx.URL(browse(begin(victim)))
    own = httpx.URL(browse(begin(thief)))
    mixed = own.copy_set_param("code", stolen.params["code"])
    assert come_back(thief, str(mixed)).status_code == 400
    assert not User.objects.exists()
