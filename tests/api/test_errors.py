"""Every failure has the same envelope, and is never a page or a stack trace."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from tests.api.rest import Rest, failure
from toolhub import urls as addresses
from tools_app.api import fallbacks
from tools_app.api.door import behind_door
from tools_app.base.logs import JsonFormatter
from tools_app.models import ErrorLog
from tools_app.sdk.hub_errors import StorageBusyError

ROUTES = (
    ("/", "GET"),
    ("/health", "GET"),
    ("/tools", "GET"),
    ("/tools/call", "POST"),
    ("/v1/tools", "GET"),
    ("/v1/tools/call", "DELETE, GET, PATCH, POST"),
    ("/v1/tools/search", "DELETE, GET, PATCH, POST"),
    ("/v1/tools/echo", "DELETE, GET, PATCH"),
    ("/v1/tools/echo/call", "POST"),
    ("/v1/tags", "GET"),
    ("/v1/calls", "GET"),
    ("/v1/calls/1", "GET"),
    ("/v1/errors/1/resolve", "POST"),
    ("/v1/audit", "GET"),
)
NOWHERE = (
    "/nope", "/v1", "/v1/", "/v1/nope", "/v1/tools/", "/v1/tools/echo/", "/v1/tools/echo/nope", "/v2/tools",
    "/V1/tools", "/tools/", "/tools/echo", "/health/", "/v1/tools/echo%2Fnope", "/static/nope.css", "/%00",
    "/v1/%0A", "/adminx", "/tools/call/", "/.env", "/v1/..%2F..%2Fetc", "/favicon.ico",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")


def test_an_address_that_is_not_there_is_not_found(rest: Rest, subtests: pytest.Subtests) -> None:
    for address, method in itertools.product(NOWHERE, ("GET", "POST", "DELETE")):
        with subtests.test(address=address, method=method):
            told = failure(rest.send(method, address), 404, "ROUTE_NOT_FOUND")
            assert "nope" not in str(told)


def test_a_method_that_an_address_does_not_take_is_refused(rest: Rest, subtests: pytest.Subtests) -> None:
    for (address, taken), method in itertools.product(ROUTES, METHODS):
        if method not in taken.split(", "):
            with subtests.test(address=address, method=method):
                response = rest.send(method, address)
                failure(response, 405, "METHOD_NOT_ALLOWED")
                assert response.headers["Allow"] == taken


def test_head_is_refused_too(rest: Rest, subtests: pytest.Subtests) -> None:
    for address, taken in ROUTES:
        with subtests.test(address=address):
            response = rest.send("HEAD", address)
            assert (response.status_code, response.headers["Allow"]) == (405, taken)


def test_an_unknown_host_is_refused(rest: Rest) -> None:
    told = failure(rest.get("/v1/tools", Host="evil.example"), 400, "VALIDATION_ERROR")

    assert told["error"] == "The request cannot be read"
    assert "evil" not in str(told)


def test_a_bug_tells_an_id_and_the_error_log_has_the_cause(broken: Rest) -> None:
    response = broken.get("/bug")

    told = failure(response, 500, "INTERNAL_ERROR")
    assert told["error"] == "Internal server error"
    assert b"hunter2" not in response.content
    logged = ErrorLog.objects.get(pk=told["errorId"])
    assert logged.door == "rest"
    assert "ZeroDivisionError" in logged.detail


def test_a_bug_outside_our_views_looks_the_same(broken: Rest) -> None:
    told = failure(broken.get("/foreign/bug"), 500, "INTERNAL_ERROR")

    assert "ZeroDivisionError" in ErrorLog.objects.get(pk=told["errorId"]).detail


def test_debugging_shows_no_more(broken: Rest, settings: Any) -> None:
    broken.get("/")  # The middleware that warns of DEBUG is loaded with the first request.
    settings.DEBUG = True

    failure(broken.get("/bug"), 500, "INTERNAL_ERROR")
    failure(broken.get("/v1/nope"), 404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize("kind", ["ours", "foreign"])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Http404("secret"), 404, "ROUTE_NOT_FOUND"),
        (SuspiciousOperation("secret"), 400, "VALIDATION_ERROR"),
        (RequestDataTooBig("secret"), 413, "BODY_TOO_LARGE"),
    ],
)
def test_django_s_errors_become_ours(
    broken: Rest, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception, status: int, code: str
) -> None:
    monkeypatch.setattr("tests.api.test_errors.OUTCOME", error)

    response = broken.get("/raise" if kind == "ours" else "/foreign/raise")

    assert b"secret" not in response.content
    failure(response, status, code)


def test_our_own_errors_keep_their_status(broken: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.api.test_errors.OUTCOME", StorageBusyError(detail="secret"))

    failure(broken.get("/raise"), 503, "STORAGE_BUSY")
    assert ErrorLog.objects.count() == 0


def test_the_admin_keeps_its_pages(broken: Rest, rest: Rest) -> None:
    assert rest.get("/admin", key=None).headers["Location"] == "/admin/"
    for address, status in (("/admin/bug", 500), ("/admin/raise", 404)):
        response = broken.get(address)
        assert (response.status_code, response.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert b"hunter2" not in response.content


def test_a_site_without_admin_has_only_json(rest: Rest, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.api.bare_site"

    failure(rest.get("/admin/"), 404, "ROUTE_NOT_FOUND")


def test_what_was_refused_is_logged_once_with_method_and_path(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    rest.get("/v1/tools?limit=0&tag=hunter2")
    rest.get("/v1/nope\u001b")
    rest.call("nope")

    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == [
        "GET /v1/tools: VALIDATION_ERROR Validation failed",
        "GET /v1/nope\N{REPLACEMENT CHARACTER}: ROUTE_NOT_FOUND There is nothing at this address",
        "[nope] Error: TOOL_NOT_FOUND Tool not found: nope",
    ]


def test_a_call_that_fails_is_logged_with_method_and_path(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    rest.call("nope")
    rest.post("/v1/tools/nope/call?timeout=500", {"token": "hunter2"})

    failed = [json.loads(JsonFormatter().format(each)) for each in caplog.records if "Error: " in each.getMessage()]
    assert [(line["method"], line["path"]) for line in failed] == [
        ("POST", "/v1/tools/call"),
        ("POST", "/v1/tools/nope/call"),
    ]


OUTCOME: Exception = ZeroDivisionError("hunter2")


async def raise_outcome(request: HttpRequest) -> HttpResponse:
    raise OUTCOME


async def break_down(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError("hunter2")


urlpatterns = [
    path("bug", behind_door(break_down)),
    path("raise", behind_door(raise_outcome)),
    path("foreign/bug", break_down),
    path("foreign/raise", raise_outcome),
    path("admin/bug", break_down),
    path("admin/raise", lambda request: fallbacks.page_not_found(request, Http404())),
    *addresses.urlpatterns,
]
handler400, handler404, handler500 = addresses.handler400, addresses.handler404, addresses.handler500


@pytest.fixture
def broken(rest: Rest, settings: Any) -> Rest:
    """The same site with views in it that fail, behind the door and beside it."""
    settings.ROOT_URLCONF = __name__
    return rest
