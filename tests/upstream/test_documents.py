"""Documents as their addresses serve them: what is requested, followed and refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from toolhub.testing.upstream import FakeUpstream, Reply
from tools_app.base.ports import UnavailableError
from tools_app.upstream import documents


@pytest.fixture
def server() -> Iterator[FakeUpstream]:
    fake = FakeUpstream({})
    fake.start()
    yield fake
    fake.stop()


def refusal(address: str, *, internal: bool = True) -> str:
    with pytest.raises(UnavailableError) as told:
        documents.fetch(address, internal=internal)
    return str(told.value)


def test_a_document_comes_with_what_a_later_request_needs(server: FakeUpstream) -> None:
    headers = {"ETag": '"1"', "Last-Modified": "Thu, 19 Nov 2026 20:00:00 GMT", "Content-Type": "application/yaml"}
    server.on("GET /doc", Reply(200, b"openapi: 3.1.0", headers), Reply(304))
    found = documents.fetch(f"{server.url}/doc", internal=True)
    assert found is not None
    assert (found.text, found.etag, found.modified, found.media_type) == (
        b"openapi: 3.1.0", '"1"', "Thu, 19 Nov 2026 20:00:00 GMT", "application/yaml",
    )  # fmt: skip
    assert documents.fetch(f"{server.url}/doc", internal=True, etag=found.etag, modified=found.modified) is None
    first, second = (request.headers for request in server.requests)
    assert "if-none-match" not in first
    assert (second["if-none-match"], second["if-modified-since"]) == (found.etag, found.modified)
    assert not {"authorization", "cookie"} & second.keys()


def test_an_answer_without_a_condition_is_never_unchanged(server: FakeUpstream) -> None:
    server.on("GET /doc", Reply(304))
    assert "status 304" in refusal(f"{server.url}/doc")


def test_a_redirect_is_followed_as_far_as_it_may_lead(server: FakeUpstream) -> None:
    server.on("GET /old", Reply(302, headers={"Location": "/doc"}))
    server.on("GET /doc", Reply(200, b"{}"))
    found = documents.fetch(f"{server.url}/old", internal=True)
    assert found is not None
    assert found.text == b"{}"
    server.on("GET /away", Reply(302, headers={"Location": "http://169.254.169.254/latest"}))
    server.on("GET /port", Reply(302, headers={"Location": "http://127.0.0.1:9/"}))
    assert "not public" in refusal(f"{server.url}/away")
    assert "port 9" in refusal(f"{server.url}/port")


def test_only_public_addresses_are_read_unless_an_operator_permits_others(server: FakeUpstream) -> None:
    server.on("GET /doc", Reply(200, b"{}"))
    assert "not public" in refusal(f"{server.url}/doc", internal=False)
    assert server.requests == []


def test_what_is_too_large_is_refused_while_it_comes(server: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 1024 * 1024)
    bomb = gzip.compress(b" " * 20_000_000)
    server.on("GET /plain", Reply(200, b" " * 1_100_000))
    server.on("GET /bomb", Reply(200, bomb, {"Content-Encoding": "gzip"}))
    for path in ("plain", "bomb"):
        assert "is too large: more than 1 MiB" in refusal(f"{server.url}/{path}")


def test_an_error_says_what_the_server_says_and_no_more(server: FakeUpstream) -> None:
    server.on("GET /doc", Reply(401, {"message": "sign in as <b>root</b>"}))
    assert "requires a login" in refusal(f"{server.url}/doc")
    assert "root" not in refusal(f"{server.url}/doc")
    assert "The URL" in refusal("ftp://shop.example.org") or "its URL" in refusal("ftp://shop.example.org")
