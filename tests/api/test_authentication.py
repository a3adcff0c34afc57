"""Authentication: a key in one of two headers, checked at every request."""

from __future__ import annotations

import itertools
import logging
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.test import AsyncClient
from django.utils import timezone

from tests.api.conftest import MakeKey
from tests.api.operations import operations
from tests.api.rest import Rest, failure
from tests.support.tools import eventually
from tools_app import governance
from tools_app.base import secrets
from tools_app.models import ApiKey, Call

OPEN = ("/", "/health", "/tools")
CLOSED = (("GET", "/v1/tools"), ("GET", "/v1/tools/echo"), ("POST", "/v1/tools/call"))
TOKEN = "a" * 32
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
NAMES = ("api_key", "apikey", "apiKey", "API-KEY", "key", "token", "access_token", "x-api-key", "Authorization")


@pytest.mark.parametrize(
    "headers",
    [
        {"X_API_Key": "{}"},
        {"Authorization": "Bearer {}"},
        {"Authorization": "bearer   {}"},
        {"Authorization": "BEARER {}"},
        {"Authorization": "Bearer {}", "X_API_Key": "{}"},
        {"Authorization": "Basic YWxpY2U6c2VjcmV0", "X_API_Key": "{}"},
    ],
)
def test_takes_a_key_from_either_header(rest: Rest, headers: dict[str, str]) -> None:
    sent = {name: value.format(rest.key) for name, value in headers.items()}

    assert rest.send("GET", "/v1/tools", key=None, **sent).status_code == 200


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_refuses_requests_without_a_key_and_says_how_to_send_one(rest: Rest, method: str, path: str) -> None:
    response = rest.send(method, path, '{"name": "echo"}', key=None)

    told = failure(response, 401, "AUTHENTICATION_ERROR")
    assert told["error"] == "Authentication required"
    assert "Authorization: Bearer" in told["nextStep"]
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "{}"},
        {"Authorization": "Token {}"},
        {"Authorization": "Bearer {}, Bearer {}"},
        {"Authorization": "Bearer {} {}"},
        {"Authorization": "Basic YWxpY2U6c2VjcmV0"},
        {"X_API_Key": ""},
        {"X_API_Key": "Bearer {}"},
        {"X_API_Key": "{}x"},
        {"X_API_Key": "thub_"},
        {"X_API_Key": "\u00e4" * 40},
        {"X_API_Key": "x" * 60_000},
        {"Cookie": "key={}"},
    ],
)
def test_refuses_anything_else(rest: Rest, headers: dict[str, str]) -> None:
    sent = {name: value.format(rest.key, rest.key) for name, value in headers.items()}

    failure(rest.send("GET", "/v1/tools", key=None, **sent), 401, "AUTHENTICATION_ERROR")


def test_refuses_two_keys_that_differ(rest: Rest, make_key: MakeKey) -> None:
    bearer = f"Bearer {make_key('bob')}"

    failure(rest.get("/v1/tools", Authorization=bearer), 401, "AUTHENTICATION_ERROR")


def test_does_not_tell_why_a_key_is_refused(rest: Rest, make_key: MakeKey) -> None:
    revoked, expired = make_key("revoked"), make_key("expired", expires_at=timezone.now() - timedelta(seconds=1))
    governance.revoke_key(ApiKey.objects.get(name="revoked"), actor=governance.trusted("test"))
    mistyped = rest.key[:-1] + ("a" if rest.key[-1] != "a" else "b")

    answers = [rest.get("/v1/tools", key=key) for key in (secrets.new_key()[0], mistyped, revoked, expired)]

    told = [failure(answer, 401, "AUTHENTICATION_ERROR") for answer in answers]
    assert len({tuple(sorted(one.items())) for one in told if one.pop("timestamp")}) == 1


def test_operators_see_who_was_refused(rest: Rest, make_key: MakeKey) -> None:
    old, unknown = make_key("old one"), secrets.new_key()[0]
    key = ApiKey.objects.get(name="old one")
    governance.revoke_key(key, actor=governance.trusted("test"))
    for presented in (old, old, unknown, "thub_AbCd1234_mistyped", "hunter2", None):
        failure(rest.get("/v1/tools", key=presented, User_Agent="agent/1.0"), 401, "AUTHENTICATION_ERROR")
    refused = Call.objects.filter(code="AUTHENTICATION_ERROR")
    assert eventually(lambda: refused.count() == 4)
    found = {call.key_prefix: call for call in refused}
    assert found.keys() == {key.prefix, secrets.prefix_of(unknown), "AbCd1234", ""}
    assert {(call.address, call.client) for call in found.values()} == {("127.0.0.1", "agent/1.0")}
    assert (found[key.prefix].caller_id, found[key.prefix].caller_name) == (f"key:{key.pk}", "old one")
    assert found[key.prefix].error == "The key is unknown, revoked, expired or not allowed from this address"
    assert [call.caller_id for prefix, call in found.items() if prefix != key.prefix] == [""] * 3
    assert eventually(lambda: refused.get(key_prefix=key.prefix).count == 2)
    kept = str(list(refused.values()))
    assert not [secret for secret in (old, unknown, "mistyped", "hunter2") if secret in kept]
    listed = rest.get("/v1/calls?code=AUTHENTICATION_ERROR", key=make_key("chief", scopes=["admin:*"])).json()["calls"]
    assert {(one["keyPrefix"], one["address"], one["client"]) for one in listed} == {
        (prefix or None, "127.0.0.1", "agent/1.0") for prefix in found
    }


def test_operators_see_which_stopped_or_rotated_key_still_comes(rest: Rest, make_key: MakeKey) -> None:
    before, stopped = make_key("rotated"), make_key("stopped")
    rotated = ApiKey.objects.get(name="rotated")
    governance.rotate_key(rotated, grace=timedelta(0), actor=governance.trusted("test"))
    governance.stop("key", "stopped", actor=governance.trusted("test"), reason="odd calls")
    failure(rest.get("/v1/tools", key=before), 401, "AUTHENTICATION_ERROR")
    failure(rest.get("/v1/tools", key=stopped), 403, "STOPPED")
    assert eventually(lambda: Call.objects.count() == 2)
    found = {call.caller_name: call for call in Call.objects.all()}
    assert found["rotated"].key_prefix == secrets.prefix_of(before)
    assert "odd calls" in found["stopped"].error


def test_a_key_over_its_limit_is_on_record_by_its_name(rest: Rest, make_key: MakeKey) -> None:
    key = make_key("eager", rate=(1, 60))
    assert rest.get("/v1/tools", key=key).status_code == 200
    failure(rest.get("/v1/tools", key=key), 429, "RATE_LIMIT_EXCEEDED")
    assert eventually(lambda: Call.objects.filter(code="RATE_LIMIT_EXCEEDED", caller_name="eager").exists())


def test_refuses_a_revoked_key_from_the_next_request(rest: Rest) -> None:
    assert rest.get("/v1/tools").status_code == 200

    governance.revoke_key(ApiKey.objects.get(), actor=governance.trusted("test"))

    failure(rest.get("/v1/tools"), 401, "AUTHENTICATION_ERROR")


def test_refuses_an_expired_key_from_the_next_request(rest: Rest, make_key: MakeKey) -> None:
    key = make_key("soon", expires_at=timezone.now() + timedelta(hours=1))
    assert rest.get("/v1/tools", key=key).status_code == 200

    with time_machine.travel(timezone.now() + timedelta(hours=2), tick=True):
        failure(rest.get("/v1/tools", key=key), 401, "AUTHENTICATION_ERROR")


def test_takes_away_a_scope_from_the_next_request(rest: Rest) -> None:
    assert rest.get("/v1/tools").status_code == 200

    ApiKey.objects.update(scopes=["tools:read"])

    failure(rest.get("/v1/tools"), 403, "AUTHORIZATION_ERROR")


@pytest.fixture
def browser(rest: Rest) -> Rest:
    """A client that sends the cookies of an administrator, and is checked like every browser."""
    rest.client = AsyncClient(raise_request_exception=False, enforce_csrf_checks=True)
    rest.client.force_login(get_user_model().objects.create_superuser("root"))
    rest.client.cookies[settings.CSRF_COOKIE_NAME] = TOKEN
    return rest


def test_a_session_of_the_admin_can_read(browser: Rest) -> None:
    assert browser.get("/v1/tools", key=None).status_code == 200


def test_a_session_can_call_with_its_token_and_is_recorded_as_the_user(browser: Rest) -> None:
    called = browser.call("echo", {"message": "hi"}, key=None, X_CSRFToken=TOKEN)

    assert called.status_code == 200
    assert Call.objects.get().caller_name == "root"


@pytest.mark.parametrize("headers", [{}, {"X_CSRFToken": ""}, {"X_CSRFToken": "b" * 32}])
def test_a_session_without_its_token_changes_nothing(browser: Rest, headers: dict[str, str]) -> None:
    told = failure(browser.call("echo", {"message": "hi"}, key=None, **headers), 403, "AUTHORIZATION_ERROR")

    assert "X-CSRFToken" in told["nextStep"]
    assert Call.objects.filter(tool_name="echo").count() == 0


def test_the_page_of_another_site_cannot_use_a_session(browser: Rest) -> None:
    sent = {"X_CSRFToken": TOKEN, "Origin": "https://evil.example"}

    failure(browser.call("echo", {"message": "hi"}, key=None, **sent), 403, "AUTHORIZATION_ERROR")


def test_a_key_counts_more_than_a_session(browser: Rest) -> None:
    assert browser.call("echo", {"message": "hi"}).status_code == 200
    assert Call.objects.get().caller_name == "alice"
    failure(browser.get("/v1/tools", key="wrong"), 401, "AUTHENTICATION_ERROR")


def test_a_session_that_has_ended_does_not_count(browser: Rest) -> None:
    Session.objects.all().delete()

    failure(browser.get("/v1/tools", key=None), 401, "AUTHENTICATION_ERROR")


@pytest.mark.parametrize("changed", [{"is_active": False}, {"is_staff": False}, {"password": "another"}])
def test_a_session_of_a_user_without_admin_access_is_ignored(browser: Rest, changed: dict[str, object]) -> None:
    for name, value in changed.items():
        get_user_model().objects.update(**{name: value})

    failure(browser.get("/v1/tools", key=None), 401, "AUTHENTICATION_ERROR")


def test_a_user_has_the_same_permissions_over_rest(browser: Rest) -> None:
    get_user_model().objects.update(is_superuser=False)
    failure(browser.get("/v1/tools", key=None), 403, "AUTHORIZATION_ERROR")

    get_user_model().objects.get().user_permissions.add(Permission.objects.get(codename="view_toolrecord"))

    assert browser.get("/v1/tools", key=None).status_code == 200
    failure(browser.call("echo", {"message": "hi"}, key=None, X_CSRFToken=TOKEN), 403, "AUTHORIZATION_ERROR")


def test_refuses_a_key_in_the_address_and_says_where_it_belongs(rest: Rest, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            response = rest.get(f"/v1/tools?{name}=hunter2")
            told = failure(response, 400, "VALIDATION_ERROR")
            assert told["error"] == "Keys are not accepted in the URL"
            assert "revoke" in told["nextStep"]
            assert b"hunter2" not in response.content


@pytest.mark.parametrize("path", [*OPEN, "/v1/tools", "/v1/tools/echo"])
def test_a_key_in_the_address_is_refused_everywhere_and_logged_nowhere(
    rest: Rest, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    response = rest.get(f"{path}?q={rest.key}", key=None)

    failure(response, 400, "VALIDATION_ERROR")
    assert rest.key not in response.content.decode() + str(response.headers) + caplog.text


@pytest.mark.parametrize("scopes", [[], ["tools:list"], ["tools:read"], ["tools:list", "tools:read", "tools:manage"]])
def test_only_a_key_with_the_scope_can_call(rest: Rest, make_key: MakeKey, scopes: list[str]) -> None:
    key = make_key("limited", scopes=scopes)

    told = failure(rest.call("echo", {"message": "hi"}, key=key), 403, "AUTHORIZATION_ERROR")

    assert told["error"] == "Permission denied: requires scope tools:execute"


def test_a_key_with_all_scopes_can_do_everything(rest: Rest, make_key: MakeKey) -> None:
    key = make_key("root", scopes=["admin:*"])

    assert rest.get("/v1/tools", key=key).status_code == 200
    assert rest.get("/v1/tools/echo", key=key).status_code == 200
    assert rest.call("echo", {"message": "hi"}, key=key).status_code == 200


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/docs", "/openapi.json", "/v1/nope"])
def test_shows_nothing_else_to_strangers(rest: Rest, path: str) -> None:
    failure(rest.get(path, key=None), 404, "ROUTE_NOT_FOUND")


def test_no_address_but_the_open_ones_answers_strangers(rest: Rest, settings: Any, subtests: pytest.Subtests) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 0
    for method, address in operations():
        if address not in (*OPEN, "/tools/call") and not address.startswith("/.well-known/"):
            with subtests.test(method=method, address=address):
                failure(rest.send(method, address, "{}", key=None), 401, "AUTHENTICATION_ERROR")


def test_strangers_learn_nothing_of_the_inside(rest: Rest, settings: Any, subtests: pytest.Subtests) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 0
    inside = ("django", "ninja", "python", "uvicorn", "echo", "calculate")
    for path, method in itertools.product((*OPEN, "/v1", "/nope", *(path for _, path in CLOSED)), METHODS):
        with subtests.test(path=path, method=method):
            response = rest.send(method, path, key=None)
            shown = (response.content.decode() + str(response.headers)).lower()
            assert response.status_code in (200, 302, 401, 404, 405)
            assert not [word for word in inside if word in shown]


def test_notes_when_a_key_was_used(rest: Rest) -> None:
    rest.get("/v1/tools")

    assert eventually(lambda: ApiKey.objects.get().last_used_at is not None)
