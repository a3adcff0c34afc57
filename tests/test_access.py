"""Who gets in."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.tools import Hub, eventually
from tools_app import governance
from tools_app.access import access, actions
from tools_app.base import secrets
from tools_app.models import ApiKey
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, AuthorizationError


def caller_of(key: str | None) -> Caller:
    return asyncio.run(access.caller_of_key(key))


def test_a_key_opens_with_its_scopes(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"), scopes=["tools:list"])
    caller = caller_of(secret)
    assert (caller.kind, caller.id, caller.name) == ("key", f"key:{key.pk}", "agent")
    assert caller.may("tools:list")
    assert not caller.may("tools:execute")
    with pytest.raises(AuthorizationError, match="Permission denied: requires scope tools:execute"):
        actions.TOOLS_CALL.require(caller)


def test_invalid_keys_of_every_kind_are_refused_alike(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    other, unknown = governance.create_key("other", actor=governance.trusted("test"))
    ApiKey.objects.filter(pk=other.pk).delete()
    _, late = governance.create_key(
        "late", actor=governance.trusted("test"), expires_at=timezone.now() - timedelta(seconds=1)
    )
    governance.revoke_key(key, actor=governance.trusted("test"))
    wrong = [secret, unknown, late, secret[:-1] + ("a" if secret[-1] != "a" else "b"), secret + "x", "thub_x", "é" * 40]
    messages = set()
    for presented in wrong:
        with pytest.raises(AuthenticationError) as caught:
            caller_of(presented)
        messages.add(caught.value.message)
    assert messages == {"The key is unknown, revoked, expired or not allowed from this address"}
    with pytest.raises(AuthenticationError, match="Authentication required"):
        caller_of(None)


def with_secret(key: str, secret: str) -> str:
    """A well-formed key with this secret in it: a forged key has a valid checksum, too."""
    return f"{key[:14]}{secret}{secrets._checksum(key[5:13] + secret)}"


def test_invalid_keys_of_every_kind_cost_the_same_queries(hub: Hub) -> None:
    """The time that a refusal takes tells nothing: `benchmarks/keys.py` measures what this makes sure of."""
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    revoked, ended = governance.create_key("ended", actor=governance.trusted("test"))
    governance.revoke_key(revoked, actor=governance.trusted("test"))
    _, late = governance.create_key(
        "late", actor=governance.trusted("test"), expires_at=timezone.now() - timedelta(seconds=1)
    )
    own = secret[14:57]
    last, first = with_secret(secret, own[:-1] + _other(own[-1])), with_secret(secret, _other(own[0]) + own[1:])
    asked = set()
    for presented in (last, first, secrets.new_key()[0], ended, late):
        assert secrets.well_formed(presented)
        with CaptureQueriesContext(connection) as queries, pytest.raises(AuthenticationError):
            access._look_up(secrets.key_hashes(presented), "")
        assert len(queries) == 1
        asked.add(re.sub(r"'[^']*'", "?", queries[0]["sql"]))
    assert len(asked) == 1
    assert access._look_up(secrets.key_hashes(secret), "").key_id == key.pk


def _other(character: str) -> str:
    return "a" if character != "a" else "b"


def test_a_revoked_key_is_refused_by_the_next_request(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    caller_of(secret)
    caller_of(secret)
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    with pytest.raises(AuthenticationError):
        caller_of(secret)


def test_a_remembered_key_still_expires(hub: Hub) -> None:
    _, secret = governance.create_key(
        "agent", actor=governance.trusted("test"), expires_at=timezone.now() + timedelta(seconds=0.3)
    )
    caller_of(secret)

    def refused() -> bool:
        try:
            caller_of(secret)
        except AuthenticationError:
            return True
        return False

    assert eventually(refused)


def test_a_key_of_an_earlier_secret_key_still_opens(hub: Hub, settings: Any) -> None:
    _, secret = governance.create_key("agent", actor=governance.trusted("test"))
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another secret that is long enough for this purpose, certainly"
    assert caller_of(secret).name == "agent"


def test_notes_when_a_key_was_used_at_most_once_a_minute(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    caller_of(secret)
    assert eventually(lambda: ApiKey.objects.get(pk=key.pk).last_used_at is not None)
    first = ApiKey.objects.get(pk=key.pk).last_used_at
    caller_of(secret)
    caller_of(secret)
    assert ApiKey.objects.get(pk=key.pk).last_used_at == first


def test_permissions_of_a_user_decide_the_scopes(hub: Hub) -> None:
    viewer = get_user_model().objects.create_user("viewer")
    operator = get_user_model().objects.create_user("operator")
    operator.user_permissions.add(Permission.objects.get(codename="change_toolrecord"))
    admin = get_user_model().objects.create_superuser("admin")
    assert not access.caller_of_user(viewer).may("tools:execute")
    assert access.caller_of_user(operator).may("tools:execute")
    assert access.caller_of_user(admin).may("tools:manage")


def test_the_local_process_can_call_but_not_manage() -> None:
    caller = access.caller_of_process()
    assert caller.kind == "local"
    assert caller.may("tools:execute")
    assert not caller.may("tools:manage")
