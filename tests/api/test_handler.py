"""The way of REST requests from the server to their views, past what only pages need."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import httpx
import pytest
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

from tests.api.rest import failure
from tests.support.tools import Hub
from tools_app.api.handler import RestHandler
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints

Ask = Callable[..., httpx.Response]
CALL = {"name": "echo", "parameters": {"message": "hi"}}


@pytest.fixture
def ask(make_key: Callable[[], str]) -> Ask:
    """Sends one request to the handler alone."""
    key = make_key()

    def send(method: str, path: str, **options: Any) -> httpx.Response:
        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(cast(Any, RestHandler()))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, headers={"X-API-Key": key}, **options)

        return asyncio.run(exchange())

    return send


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("GET", "/v1/tools", None, 200),
        ("POST", "/v1/tools/call", CALL, 200),
        ("POST", "/v1/tools/call", {"name": "nope"}, 404),
        ("DELETE", "/v1/tools", None, 405),
        ("GET", "/v1/nope", None, 404),
    ],
)
def test_a_request_never_leaves_the_event_loop(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, status: int
) -> None:
    left: list[str] = []
    call = SyncToAsync.__call__

    async def noticed(self: Any, *args: Any, **kwargs: Any) -> Any:
        left.append(repr(self.func))
        return await call(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", noticed)

    assert ask(method, path, json=body).status_code == status
    assert left == []


def test_every_answer_has_its_length(ask: Ask) -> None:
    for path in ("/health", "/v1/tools", "/v1/nope"):
        answered = ask("GET", path)
        assert int(answered.headers["Content-Length"]) == len(answered.content)


def test_an_unknown_name_of_the_host_is_refused(server: httpx.Client) -> None:
    for path in ("/health", "/v1/tools", "/", "/admin/login/"):
        assert server.get(path, headers={"Host": "rebound.example"}).status_code == 400
    failure(server.get("/v1/tools", headers={"Host": "rebound.example"}), 400, "VALIDATION_ERROR")


def test_the_documentation_opens_for_people_who_are_logged_in(server: httpx.Client) -> None:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("root"))

    # Without the key of the other requests: it would win.
    session = {settings.SESSION_COOKIE_NAME: browser.cookies[settings.SESSION_COOKIE_NAME].value}
    with httpx.Client(base_url=server.base_url, cookies=session, trust_env=False, timeout=30) as page:
        opened = page.get("/v1/docs")

    assert (opened.status_code, opened.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "style-src 'self'" in opened.headers["Content-Security-Policy"]


def test_leads_to_https_where_visitors_come_over_it(ask: Ask, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True

    answered = ask("GET", "/v1/tools?limit=1")

    assert (answered.status_code, answered.headers["Location"]) == (301, "https://localhost/v1/tools?limit=1")
    # Probes of container platforms come without the proxy that speaks HTTPS.
    assert ask("GET", "/health").status_code == 200


def test_says_over_https_that_it_stays_so(ask: Ask, settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS = 600

    assert ask("GET", "https://localhost/health").headers["Strict-Transport-Security"].startswith("max-age=600")
    assert "Strict-Transport-Security" not in ask("GET", "/health").headers


def test_work_for_a_disconnected_client_is_cancelled(hub: Hub, make_key: Callable[[], str]) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def slow() -> None:
        """Take a minute."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    hub.add(tool(name="slow", hints=Hints(read_only=True))(slow))
    headers = [(b"host", b"localhost"), (b"x-api-key", make_key().encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/tools/call",
        "query_string": b"",
        "headers": headers,
    }
    messages = iter([{"type": "http.request", "body": b'{"name": "slow"}'}])
    sent: list[Any] = []

    async def receive() -> Any:
        if (message := next(messages, None)) is not None:
            return message
        await asyncio.to_thread(begun.wait, 10)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(RestHandler()(scope, receive, send), 20))

    assert ended.wait(10)
    assert sent == []


def test_a_client_that_goes_before_its_body_is_whole_is_not_answered(make_key: Callable[[], str]) -> None:
    sent: list[Any] = []
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"x-api-key", make_key().encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/tools/call", "headers": headers}
    asyncio.run(asyncio.wait_for(RestHandler()(scope, receive, send), 20))

    assert sent == []


def test_a_stranger_is_refused_before_the_body_is_read() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nobody knows yet who sends this")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"1048576")]
    scope = {"type": "http", "method": "POST", "path": "/v1/tools/call", "headers": headers}
    asyncio.run(asyncio.wait_for(RestHandler()(scope, receive, send), 20))

    assert sent[0]["status"] == 401
