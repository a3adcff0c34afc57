"""The files that pages need: served from memory, past Django, compressed, and named so that browsers keep them."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse, StreamingHttpResponse
from django.templatetags.static import static
from django.test import Client, RequestFactory

from toolhub.static import CompressedPages, StaticFile, StaticFiles
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
    assert answered.headers["Content-Type"] == "text/css"
    assert answered.headers["Cache-Control"] == "max-age=3600, public"


def test_a_browser_that_has_the_file_is_sent_nothing(ask: Ask) -> None:
    tag = ask("GET", PATH).headers["ETag"]

    answered = ask("GET", PATH, **{"If-None-Match": tag})

    assert (answered.status_code, answered.content) == (304, b"")


def test_text_is_sent_compressed_to_who_reads_that(ask: Ask, content: bytes) -> None:
    plain, compressed = ask("GET", PATH, **{"Accept-Encoding": "identity"}), ask("GET", PATH)

    assert "Content-Encoding" not in plain.headers
    assert int(plain.headers["Content-Length"]) == len(content)
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert int(compressed.headers["Content-Length"]) < len(content) / 3
    assert plain.content == compressed.content == content
    assert plain.headers["Vary"] == compressed.headers["Vary"] == "Accept-Encoding"


def test_a_font_is_compressed_as_it_is(ask: Ask) -> None:
    answered = ask("GET", "/static/tools_app/fonts/Inter-Regular.woff2")

    assert "Content-Encoding" not in answered.headers
    assert answered.headers["Content-Type"] == "font/woff2"


def test_pages_name_files_so_that_browsers_keep_them(ask: Ask, content: bytes) -> None:
    address = static("tools_app/admin.css")

    answered = ask("GET", address)

    assert address != PATH
    assert (answered.status_code, answered.content) == (200, content)
    assert "immutable" in answered.headers["Cache-Control"]


def test_a_file_asked_for_by_another_version_is_not_kept(ask: Ask, content: bytes) -> None:
    """While one process of several is already new."""
    answered = ask("GET", "/static/0123456789ab/tools_app/admin.css")

    assert (answered.content, answered.headers["Cache-Control"]) == (content, "no-cache")


@pytest.mark.parametrize(("now", "keeping"), [("a {}", "immutable"), ("b {}", "no-cache")])
def test_a_file_that_was_replaced_since_the_start_is_not_kept(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str, keeping: str
) -> None:
    """Its address has the fingerprint of the version before."""
    path = tmp_path / "page.css"
    path.write_text("a {}")
    file = StaticFile(path)
    assert file.digest
    path.write_text(now)
    fingerprint = static("page.css").split("/")[2]
    monkeypatch.setattr("toolhub.static._files", lambda: {"page.css": file})

    answered = ask("GET", f"/static/{fingerprint}/page.css")

    assert answered.text == now
    assert keeping in answered.headers["Cache-Control"]


def test_files_are_read_again_while_they_are_edited(ask: Ask, content: bytes, settings: Any) -> None:
    settings.DEBUG = True

    answered = ask("GET", static("tools_app/admin.css"))

    assert static("tools_app/admin.css") == PATH
    assert (answered.content, answered.headers["Cache-Control"]) == (content, "no-cache")


@pytest.mark.django_db
def test_pages_are_sent_compressed_and_streams_as_they_are(client: Client) -> None:
    """Chromium reads only the first of several gzip files, which Django would make of a stream."""
    page = client.get("/admin/login/", headers={"Accept-Encoding": "gzip"})
    assert page.headers["Content-Encoding"] == "gzip"
    assert b"<html" in gzip.decompress(page.content)

    asked = RequestFactory().get("/", headers={"Accept-Encoding": "gzip"})
    stream = CompressedPages(lambda request: HttpResponse()).process_response(
        asked, StreamingHttpResponse([b"a" * 999])
    )
    assert "Content-Encoding" not in stream.headers


def test_only_reading_is_allowed(ask: Ask) -> None:
    assert ask("POST", PATH).status_code == 405


@pytest.mark.parametrize("path", ["/static/nope.css", "/static/../settings.py", "/static/a%00b", "/admin/", "/static/"])
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
    assert client.get(PATH).content == content
    assert client.get(static("tools_app/admin.css")).content == content
    assert client.get("/static/nope.css").status_code == 404
