"""A sign-in at a provider that others wrote (oidc-provider-mock), as a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.sso.conftest import begin, come_back, is_signed_in, use
from tests.support.provider_process import running
from tools_app import governance


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running({"sub": "u-1", "preferred_username": "anna", "groups": ["ops"]}) as url:
        yield url


def browse(location: str, **form: str) -> str:
    """What a person sends there, and where the browser is sent then."""
    answer = httpx.post(location, data=form, trust_env=False)
    assert answer.is_redirect, answer.text
    return answer.headers["location"]


def test_sign_in_lose_the_group_and_be_refused(address: str, settings: Any, db: None) -> None:
    use(settings, address)
    client = Client()
    location = begin(client, "/admin/tools_app/call/")
    assert come_back(client, browse(location, sub="u-1"))["Location"] == "/admin/tools_app/call/"
    user = User.objects.get()
    assert (user.username, governance.role_of(user)) == ("anna", "operator")
    assert is_signed_in(client)
    httpx.put(f"{address}/users/u-1", json={"groups": ["others"]}, trust_env=False).raise_for_status()
    other = Client()
    assert come_back(other, browse(begin(other), sub="u-1")).status_code == 403
    assert not is_signed_in(client)


def test_who_declines_is_told_so(address: str, settings: Any, db: None) -> None:
    use(settings, address)
    client = Client()
    location = begin(client)
    state = httpx.URL(location).params["state"]
    # This provider leaves `state` out when a person declines.
    answer = come_back(client, f"{browse(location, action='deny')}&state={state}")
    assert answer.status_code == 403
    assert "cancelled, or the sign-in service refused it" in answer.content.decode()
