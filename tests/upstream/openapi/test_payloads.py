"""Bodies of requests, byte for byte."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.openapi.conftest import CALLER, LOCAL, Service, body
from tools_app.sdk.errors import (
    AuthorizationError,
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    ToolError,
)
from tools_app.sdk.operation import Operation
from tools_app.upstream.openapi import payloads

pytestmark = pytest.mark.anyio

JSON = body("json", "application/json")
FORM = body("form", "application/x-www-form-urlencoded")
MULTIPART = "multipart/form-data"
PNG = b"\x89PNG\r\n\x1a\n\x00"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (0, b"0"),
        (False, b"false"),
        ("", b'""'),
        (None, b"null"),
        ([], b"[]"),
        ({}, b"{}"),
        ({"a": None, "b": 0, "c": "", "d": False, "é": [1.5]}, '{"a":null,"b":0,"c":"","d":false,"é":[1.5]}'.encode()),
    ],
)
async def test_a_json_body_is_sent_as_it_is(service: Service, value: Any, sent: bytes) -> None:
    seen = await service.request(JSON, {"body": value})
    assert seen.body == sent
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["content-length"] == str(len(sent))


@pytest.mark.parametrize(
    ("encoding", "media_type", "sent"),
    [
        ("json", "application/vnd.shop.v2+json; charset=utf-8", "application/vnd.shop.v2+json; charset=utf-8"),
        ("json", "application/*", "application/json"),
        ("json", "*/*", "application/json"),
        ("text", "text/*", "text/plain"),
        ("text", "application/xml", "application/xml"),
    ],
)
async def test_the_media_type_is_that_of_the_document(
    service: Service, encoding: str, media_type: str, sent: str
) -> None:
    seen = await service.request(body(encoding, media_type), {"body": "x"})
    assert seen.headers["content-type"] == sent


async def test_a_body_that_is_absent_is_not_sent(service: Service) -> None:
    seen = await service.request(JSON)
    assert seen.body == b""
    assert "content-type" not in seen.headers
    assert seen.headers["content-length"] == "0"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
async def test_a_body_is_sent_with_every_method(service: Service, method: str) -> None:
    seen = await service.request(Operation(method, "/things", body=JSON.body), {"body": [1]})
    assert (seen.method, seen.body) == (method, b"[1]")


async def test_a_media_type_of_a_document_cannot_bring_a_header(service: Service) -> None:
    with pytest.raises(ConfigurationError, match="media type"):
        await service.call(body("text", "text/plain\r\nX-Evil: 1"), {"body": "x"})
    assert not service.server.requests


@pytest.mark.parametrize(("value", "sent"), [("é\r\n", "é\r\n".encode()), ("", b""), (0, b"0"), (None, b"null")])
async def test_a_text_is_sent_in_utf_8(service: Service, value: Any, sent: bytes) -> None:
    seen = await service.request(body("text", "text/plain"), {"body": value})
    assert seen.body == sent


# ---- forms


@pytest.mark.parametrize(
    ("parts", "value", "sent"),
    [
        ({}, {"a": "x y", "b": 0, "c": False, "d": "", "e": None}, b"a=x+y&b=0&c=false&d=&e=null"),
        ({}, {"a": ["x", 1, None]}, b"a=x&a=1&a=null"),
        ({}, {"a": {"b": [1]}}, b"a=%7B%22b%22%3A%5B1%5D%7D"),
        ({}, {"a": [{"b": 1}]}, b"a=%7B%22b%22%3A1%7D"),
        ({}, {"a": []}, b""),
        ({}, {}, b""),
        ({}, {"a&b": "c=d+e%20\u00e9"}, b"a%26b=c%3Dd%2Be%2520%C3%A9"),
        ({"a": {"explode": False}}, {"a": ["x", "y"]}, b"a=x,y"),
        ({"a": {"style": "spaceDelimited"}}, {"a": ["x", "y"]}, b"a=x+y"),
        ({"a": {"style": "pipeDelimited", "explode": False}}, {"a": ["x", "y"]}, b"a=x%7Cy"),
        ({"a": {"style": "form", "explode": True}}, {"a": {"b": 1, "c": 2}}, b"b=1&c=2"),
        ({"a": {"style": "deepObject", "explode": True}}, {"a": {"b": {"c": 1}}}, b"a%5Bb%5D%5Bc%5D=1"),
        ({"a": {"contentType": "application/json"}}, {"a": [1, "x"]}, b"a=%5B1%2C%22x%22%5D"),
        ({"a": {"contentType": "application/json"}}, {"a": "x"}, b"a=%22x%22"),
    ],
)
async def test_a_form_is_written_as_its_encoding_says(
    service: Service, parts: dict[str, Any], value: Any, sent: bytes
) -> None:
    seen = await service.request(body("form", "application/x-www-form-urlencoded", **parts), {"body": value})
    assert seen.body == sent
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("value", ["x", [1], None, 0])
@pytest.mark.parametrize("operation", [FORM, body("multipart", MULTIPART)])
async def test_a_form_is_an_object(service: Service, operation: Operation, value: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="expected an object"):
        await service.call(operation, {"body": value})
    assert not service.server.requests


# ---- multipart


async def multipart(service: Service, value: Any, *, media_type: str = MULTIPART, **options: Any) -> str:
    """The body, with B for its boundary."""
    parts = options.pop("parts", {})
    seen = await service.request(body("multipart", media_type, **parts), {"body": value}, **options)
    kind, _, boundary = seen.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    assert len(boundary) > 30
    return seen.body.decode("latin-1").replace(boundary, "B")


@pytest.mark.parametrize(
    ("parts", "value", "sent"),
    [
        ({}, {}, "--B--\r\n"),
        ({}, {"a": "x"}, '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--B--\r\n'),
        ({}, {"a": 0}, '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n0\r\n--B--\r\n'),
        ({}, {"a": None}, '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nnull\r\n--B--\r\n'),
        ({}, {"a": ""}, '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n--B--\r\n'),
        (
            {},
            {"a": [1, False]},
            '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
            '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nfalse\r\n--B--\r\n',
        ),
        (
            {},
            {"a": {"b": None}},
            '--B\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: application/json\r\n\r\n'
            '{"b":null}\r\n--B--\r\n',
        ),
        (
            {"a": {"contentType": "text/xml; charset=utf-8, text/plain"}},
            {"a": "<a/>"},
            '--B\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/xml; charset=utf-8\r\n\r\n'
            "<a/>\r\n--B--\r\n",
        ),
        (
            {"a": {"contentType": "application/json"}},
            {"a": "x"},
            '--B\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: application/json\r\n\r\n"x"\r\n--B--\r\n',
        ),
        (
            {},
            {'a"\r\nX-Evil: 1': "x"},
            '--B\r\nContent-Disposition: form-data; name="a%22%0D%0AX-Evil: 1"\r\n\r\nx\r\n--B--\r\n',
        ),
    ],
)
async def test_parts_are_written_as_their_encoding_says(
    service: Service, parts: dict[str, Any], value: Any, sent: str
) -> None:
    assert await multipart(service, value, parts=parts) == sent


async def test_the_parts_of_a_range_are_a_form(service: Service) -> None:
    assert await multipart(service, {}, media_type="multipart/*") == "--B--\r\n"


@pytest.mark.parametrize(
    ("part", "file", "head"),
    [
        ({}, {}, 'filename="photo"\r\nContent-Type: application/octet-stream'),
        ({}, {"filename": "a.png"}, 'filename="a.png"\r\nContent-Type: image/png'),
        ({}, {"filename": "a.png", "mediaType": "image/x-a"}, 'filename="a.png"\r\nContent-Type: image/x-a'),
        ({"contentType": "image/jpeg, image/png"}, {}, 'filename="photo"\r\nContent-Type: image/jpeg'),
        ({"contentType": "image/*"}, {"filename": "a.gif"}, 'filename="a.gif"\r\nContent-Type: image/gif'),
        ({}, {"filename": 'a"\r\n\r\nb'}, 'filename="a%22%0D%0A%0D%0Ab"\r\nContent-Type: application/octet-stream'),
    ],
)
async def test_a_file_is_a_part_with_a_name(
    service: Service, part: dict[str, Any], file: dict[str, Any], head: str
) -> None:
    value = {"photo": {"base64": encoded(PNG), **file}}
    sent = await multipart(service, value, parts={"photo": {"file": True, **part}})
    content = PNG.decode("latin-1")
    assert sent == f'--B\r\nContent-Disposition: form-data; name="photo"; {head}\r\n\r\n{content}\r\n--B--\r\n'


async def test_several_files_are_several_parts(service: Service) -> None:
    value = {"photo": [{"base64": "YQ==", "filename": "a"}, {"base64": "Yg==", "filename": "b"}], "note": "x"}
    sent = await multipart(service, value, parts={"photo": {"file": True}})
    assert sent.count('name="photo"; filename=') == 2
    assert "\r\n\r\na\r\n" in sent
    assert "\r\n\r\nb\r\n" in sent


# ---- files

BINARY = body("binary", "image/png")


async def test_a_file_alone_is_the_body(service: Service) -> None:
    seen = await service.request(BINARY, {"body": {"base64": encoded(PNG), "mediaType": "image/gif"}})
    assert (seen.body, seen.headers["content-type"]) == (PNG, "image/png")


@pytest.mark.parametrize(
    ("given", "sent"), [({"mediaType": "image/gif"}, "image/gif"), ({}, "application/octet-stream")]
)
async def test_a_file_of_any_type_has_the_type_that_the_caller_says(
    service: Service, given: dict[str, str], sent: str
) -> None:
    seen = await service.request(body("binary", "*/*"), {"body": {"base64": "", **given}})
    assert (seen.body, seen.headers["content-type"]) == (b"", sent)


@pytest.mark.parametrize(
    "value",
    [
        "YQ==",
        None,
        {},
        {"base64": "YQ==", "path": "a"},
        {"base64": "%%%"},
        {"base64": "YQ"},
        {"base64": 1},
        {"base64": "YQ==", "mediaType": "a\r\nb"},
        {"base64": "YQ==", "mediaType": 1},
    ],
)
async def test_what_is_no_file_is_refused(service: Service, value: Any) -> None:
    with pytest.raises(InvalidArgumentsError):
        await service.call(BINARY, {"body": value})
    with pytest.raises(InvalidArgumentsError):
        await service.call(body("multipart", MULTIPART, photo={"file": True}), {"body": {"photo": value}})
    assert not service.server.requests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_bytes(b"secret")
    inside = tmp_path / "files"
    (inside / "below").mkdir(parents=True)
    (inside / "below" / "a.png").write_bytes(PNG)
    (inside / "link").symlink_to(tmp_path / "secret.txt")
    return inside


async def test_local_callers_may_name_a_file(service: Service, root: Path) -> None:
    seen = await service.request(BINARY, {"body": {"path": "below/a.png"}}, caller=LOCAL, files=root)
    assert seen.body == PNG
    value = {"photo": {"path": "below/a.png"}}
    sent = await multipart(service, value, parts={"photo": {"file": True}}, caller=LOCAL, files=root)
    assert 'name="photo"; filename="a.png"\r\nContent-Type: image/png' in sent


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link", "below", "none", "", "below/../../secret.txt", "a\0"]
)
async def test_no_other_file_can_be_named(service: Service, root: Path, path: str) -> None:
    with pytest.raises(NotFoundError, match="File not found"):
        await service.call(BINARY, {"body": {"path": path}}, caller=LOCAL, files=root)
    assert not service.server.requests


async def test_callers_elsewhere_name_no_files(service: Service) -> None:
    with pytest.raises(AuthorizationError, match="own machine") as caught:
        await service.call(BINARY, {"body": {"path": "a"}}, caller=CALLER)
    assert caught.value.next_step == "Send the content as base64."
    with pytest.raises(ConfigurationError, match="TOOLHUB_FILE_ROOT"):
        await service.call(BINARY, {"body": {"path": "a"}}, caller=LOCAL)
    assert service.sent == ["no", "no"]


async def test_large_bodies_are_refused(service: Service, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MOST_BYTES", 100)
    (root / "large").write_bytes(b"a" * 101)
    calls: list[tuple[Operation, Any]] = [
        (JSON, "a" * 100),
        (BINARY, {"path": "large"}),
        (BINARY, {"base64": encoded(b"a" * 101)}),
        (body("multipart", MULTIPART, a={"file": True}), {"a": [{"base64": encoded(b"a" * 60)}] * 2}),
    ]
    for operation, value in calls:
        with pytest.raises(InvalidArgumentsError, match="larger than"):
            await service.call(operation, {"body": value}, caller=LOCAL, files=root)
    assert not service.server.requests


@pytest.mark.parametrize("operation", [JSON, FORM, body("text", "text/plain"), body("multipart", MULTIPART)])
async def test_half_a_character_cannot_be_sent(service: Service, operation: Operation) -> None:
    value = "\ud800" if operation.body is not None and operation.body.encoding == "text" else {"a": "\ud800"}
    with pytest.raises(ToolError, match="incomplete character"):
        await service.call(operation, {"body": value})
    assert not service.server.requests
