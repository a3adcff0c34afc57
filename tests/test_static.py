"""The files that pages need: served from memory, past Django."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from toolhub.static import StaticFiles
from tools_app.base.asgi import Receive, Scope, Send

PATH = "/static/tools_app/admin.css"
Ask = Callable[..., httpx.Response]


@pytest.fixture
def content() -> bytes:
    found = finders.find("tools_app/admin.css")
    assert isinstance(found, str)
    return Path(found).read_bytes()


@pytest.fixture
def ask() -> Ask:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b"passed on"})

    def send(method: str, path: str, **headers: str) -> httpx.Response:
        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(cast(Any, StaticFiles(nothing)))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(exchange())

    return send


def test_serves_a_file_with_its_type_and_how_long_it_keeps(ask: Ask, content: bytes) -> None:
    answered = ask("GET", PATH)

    assert (answered.status_code, answered.content) == (200, content)
    assert answered.headers["Content-Type"] == 'text/css; charset="utf-8"'
    assert answered.headers["Content-Length"] == str(len(content))
    assert answered.headers["Cache-Control"] == "max-age=3600, public"


def test_a_browser_that_has_the_file_is_sent_nothing(ask: Ask) -> None:
    tag = ask("GET", PATH).headers["ETag"]

    answered = ask("GET", PATH, **{"If-None-Match": tag})

    assert (answered.status_code, answered.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "start", "end"), [("bytes=10-19", 10, 20), ("bytes=-5", -5, None), ("bytes=10-", 10, None)]
)
def test_a_part_of_a_file_is_that_part(ask: Ask, content: bytes, asked: str, start: int, end: int | None) -> None:
    answered = ask("GET", PATH, Range=asked)

    assert (answered.status_code, answered.content) == (206, content[start:end])
    assert answered.headers["Content-Length"] == str(len(content[start:end]))


def test_a_part_that_there_is_not_is_refused(ask: Ask) -> None:
    assert ask("GET", PATH, Range="bytes=100000000-").status_code == 416


def test_only_reading_is_allowed(ask: Ask) -> None:
    assert ask("POST", PATH).status_code == 405


@pytest.mark.parametrize("path", ["/static/nope.css", "/static/../settings.py", "/admin/", "/static/"])
def test_what_is_no_file_is_passed_on(ask: Ask, path: str) -> None:
    assert ask("GET", path).content == b"passed on"


def test_leads_to_https_where_visitors_come_over_it(ask: Ask, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True

    assert ask("GET", PATH).headers["Location"] == f"https://localhost{PATH}"


def test_takes_no_thread(ask: Ask) -> None:
    before = threading.active_count()

    for _ in range(5):
        assert ask("GET", PATH).status_code == 200

    assert threading.active_count() == before


def test_other_servers_get_them_through_django(client: Client, content: bytes) -> None:
    """`manage.py runserver`, or a WSGI server, without DEBUG."""
    response = client.get(PATH)
    assert response.status_code == 200
    assert b"".join(response) == content
