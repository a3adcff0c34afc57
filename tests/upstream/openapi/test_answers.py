"""What a service answers, as results: JSON, texts, images, files, and nothing at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.upstream.openapi.conftest import Says, Service, body
from tools_app.sdk.content import Audio, EmbeddedResource, Image
from tools_app.sdk.errors import ToolExecutionError, UpstreamInvalidResponseError
from tools_app.sdk.operation import Operation
from tools_app.upstream.results import UnreadableError

pytestmark = pytest.mark.anyio

LOOK = Operation("GET", "/things", accepts=("application/json",))
CHANGE = Operation("POST", "/things", accepts=("application/json",))
FREE = Operation("GET", "/things")
PNG = b"\x89PNG\r\n\x1a\n\x00"
LOGIN = b"<!doctype html><title>Log in</title>"


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        ("application/json", b'{"a": [1, null, false, ""]}', {"a": [1, None, False, ""]}),
        ("application/json; charset=utf-8", '"é"'.encode(), "é"),
        ("application/hal+json", b"[]", []),
        ("application/problem+json", b"0", 0),
        ("text/json", b"null", None),
        # What only the document says.
        ("text/plain", b'{"a": 1}', {"a": 1}),
        ("application/octet-stream", b"[1]", [1]),
        ("", b"false", False),
    ],
)
async def test_json_is_data(says: Says, kind: str, content: bytes, value: Any) -> None:
    assert await says(content, kind=kind).call(LOOK) == value


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        ("text/plain", "é".encode(), "é"),
        ("text/plain; charset=iso-8859-1", "é".encode("latin-1"), "é"),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/html", LOGIN, LOGIN.decode()),
        ("text/csv", b"a,b\n", "a,b\n"),
        ("application/xml", b"<a/>", "<a/>"),
        ("application/atom+xml", b"<a/>", "<a/>"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("application/yaml", b"a: 1", "a: 1"),
        ("application/x-ndjson", b"{}\n{}", "{}\n{}"),
        ("", b"plain", "plain"),
    ],
)
async def test_texts_are_texts(says: Says, kind: str, content: bytes, value: str) -> None:
    assert await says(content, kind=kind).call(FREE) == value


async def test_images_and_sounds_are_content(says: Says) -> None:
    assert await says(PNG, kind="image/png").call(FREE) == [Image(PNG, "image/png")]
    assert await says(PNG, kind="audio/ogg; codecs=opus").call(FREE) == [Audio(PNG, "audio/ogg")]


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [
        ("application/pdf", "application/pdf"),
        ("application/octet-stream", "application/octet-stream"),
        ("no type", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
async def test_other_bytes_are_a_resource(says: Says, kind: str, media_type: str) -> None:
    resource = EmbeddedResource("toolhub://shop/shop_call", PNG, media_type)
    assert await says(PNG, kind=kind).call(FREE) == [resource]


@pytest.mark.parametrize("operation", [LOOK, CHANGE])
async def test_a_text_where_json_is_declared_is_still_the_answer(says: Says, operation: Operation) -> None:
    assert await says(b"OK", kind="text/plain").call(operation) == "OK"
    assert await says(b"OK", kind="").call(operation) == "OK"


# ---- nothing


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content", "205 Reset"])
@pytest.mark.parametrize("operation", [LOOK, CHANGE])
async def test_no_content_is_a_success_that_says_so(says: Says, status: str, operation: Operation) -> None:
    assert await says(status=status).call(operation) == {
        "status": int(status[:3]),
        "message": "The call succeeded; the response has no content.",
    }


async def test_an_answer_without_content_can_name_a_place(says: Says) -> None:
    headers = ["Location: /things/7", 'ETag: "a"', "Set-Cookie: a=b", "X-Other: c"]
    told = (await says(status="201 Created", headers=headers).call(CHANGE))["headers"]
    assert told == {"location": "/things/7", "etag": '"a"'}


async def test_head_answers_with_headers(service: Service) -> None:
    async def head(wire: Any) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 12345\r\nX-A: b\r\n\r\n")

    service.server.answer("head", head)
    told = await service.at("head").call(Operation("HEAD", "/things"))
    assert told["headers"] == {"content-type": "image/png", "content-length": "12345"}


# ---- what cannot be read


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_a_web_page_is_not_taken_for_an_answer(says: Says, kind: str) -> None:
    with pytest.raises(UpstreamInvalidResponseError, match="HTTP 200, but its response is a web page") as caught:
        await says(LOGIN, kind=kind).call(LOOK)
    assert not caught.value.is_unanswered
    assert not caught.value.retryable
    with pytest.raises(UnreadableError, match="is a web page"):
        await says(LOGIN, kind=kind).call(CHANGE)


@pytest.mark.parametrize("accepts", [("text/html",), ("*/*",), ("application/json", "application/xhtml+xml")])
async def test_a_declared_web_page_is_a_text(says: Says, accepts: tuple[str, ...]) -> None:
    assert await says(LOGIN, kind="text/html").call(Operation("GET", "/", accepts=accepts)) == LOGIN.decode()


@pytest.mark.parametrize("content", [b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"[" * 1000, b"OK", b"\xff"])
async def test_json_that_cannot_be_read_fails_only_what_reads(says: Says, content: bytes) -> None:
    with pytest.raises(UpstreamInvalidResponseError, match="answered shop_call with HTTP 200"):
        await says(content).call(LOOK)
    answer = await says(content).call(CHANGE)
    assert answer["message"].startswith("The call was carried out, but the response of shop")


@pytest.mark.parametrize(
    "fault", ["bomb:gzip", "endless", "says-too-much", "wide-json", "unasked-encoding", "not-gzip"]
)
async def test_answers_are_bounded(service: Service, fault: str) -> None:
    with pytest.raises(UpstreamInvalidResponseError) as caught:
        await service.at(fault).call(LOOK)
    assert not caught.value.is_unanswered
    assert "shop" in caught.value.message
    answer = await service.at(fault).call(CHANGE)
    assert "could not be read" in answer["message"] or "carried out" in answer["message"]


# ---- an operator's rule for failures


@pytest.mark.parametrize(
    ("content", "kind"), [(b'{"ok":false,"error":"no"}', "application/json"), (b"ok:false", "text/plain")]
)
async def test_the_rule_of_the_source_decides_what_fails(says: Says, content: bytes, kind: str) -> None:
    at = says(content, kind=kind)
    assert await at.call(FREE)
    with pytest.raises(ToolExecutionError, match="false"):
        await at.at("says", failure_pattern='ok"?:false').call(FREE)


# ---- what is asked for


@pytest.mark.parametrize(
    ("accepts", "sent"),
    [
        ((), "application/json, */*;q=0.5"),
        (("application/json",), "application/json"),
        (("application/xml", "application/hal+json"), "application/hal+json, application/xml;q=0.9"),
        (("text/plain\r\nX-Evil: 1", "image/*"), "image/*"),
    ],
)
async def test_declared_media_types_are_asked_for(service: Service, accepts: tuple[str, ...], sent: str) -> None:
    seen = await service.request(Operation("GET", "/things", accepts=accepts))
    assert seen.headers["accept"] == sent
    assert seen.headers["user-agent"] == "toolhub"


async def test_an_answer_may_be_compressed(service: Service) -> None:
    assert await service.at("packed:gzip").call(LOOK) == {"packed": True}


async def test_calls_share_connections(service: Service) -> None:
    before = service.server.connections
    for _ in range(3):
        await service.call(body("json", "application/json"), {"body": 1})
    assert service.server.connections == before + 1
