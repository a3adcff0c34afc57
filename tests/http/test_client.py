"""What becomes of an upstream's answers: data, or an error that says what to do."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import toolhub
from tests.http.conftest import KEY, SOON, Client
from tests.support.faultd import Faultd, Wire
from tests.support.tools import eventually
from tools_app.http import ApiClient, UpstreamRefusal, failures
from tools_app.http.network import NotOurOriginError, OneOrigin, shared_tls
from tools_app.http.responses import UpstreamRequest
from tools_app.http.transport import Transport
from tools_app.sdk.errors import (
    ApiError,
    AuthorizationError,
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamUnavailableError,
    UpstreamValidationError,
)

pytestmark = pytest.mark.anyio


async def failed(coroutine: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await coroutine
    return caught.value


# ---- what is sent


async def test_sends_what_was_asked_for_and_nothing_of_its_own(client: Client, upstream: Faultd) -> None:
    said = (
        await client()
        .for_call("0af7651916cd43dd8448eb211c80319c", lambda: 5.0)
        .get("workflows", 7, params={"limit": 10, "active": True, "none": None, "tags": ["a b", "ü"]}, operation="list")
    )
    assert said["target"] == "/ok/workflows/7?limit=10&active=true&tags=a%20b&tags=%C3%BC"
    headers = upstream.requests[0].headers
    assert headers["x-api-key"] == KEY
    assert headers["x-request-id"] == "0af7651916cd43dd8448eb211c80319c"
    assert headers["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert headers["user-agent"] == "ToolHub"
    assert headers["accept-encoding"] == "gzip, deflate"
    assert "cookie" not in headers


async def test_a_call_can_send_json_forms_and_raw_bodies(client: Client, upstream: Faultd) -> None:
    api = client()
    await api.post("a", json={"name": "ü", "none": None}, operation="create a")
    await api.post("a", form={"q": "a b"}, operation="search", writes=False)
    await api.put("a", content="<a/>", content_type="application/xml", operation="change a")
    assert [(seen.headers["content-type"], seen.body) for seen in upstream.requests] == [
        ("application/json", '{"name":"ü","none":null}'.encode()),
        ("application/x-www-form-urlencoded", b"q=a+b"),
        ("application/xml", b"<a/>"),
    ]


async def test_a_suffix_ends_every_path(client: Client) -> None:
    api = client(suffix=".json")
    assert (await api.get("issues", 5, operation="get issue"))["target"] == "/ok/issues/5.json"
    assert (await api.get("issues", operation="list issues", params={"a": 1}))["target"] == "/ok/issues.json?a=1"


@pytest.mark.parametrize("value", [float("nan"), object(), {"a": {1, 2}}, "\ud83d"])
async def test_what_json_cannot_say_is_not_sent(client: Client, upstream: Faultd, value: object) -> None:
    assert isinstance(await failed(client().post("a", json=value, operation="x")), InvalidArgumentsError)
    assert upstream.requests == []


async def test_a_tool_cannot_set_headers_of_the_client(client: Client, upstream: Faultd) -> None:
    for name in ("X-API-Key", "host", "Cookie", "Content-Length"):
        with pytest.raises(ValueError, match="may not set"):
            await client().get("a", headers={name: "1"}, operation="x")
    error = await failed(client().get("a", headers={"X-A": "1\r\nX-B: 2"}, operation="x"))
    assert "X-B" not in error.message
    assert upstream.requests == []


async def test_through_a_read_only_connection_nothing_is_changed(client: Client, upstream: Faultd) -> None:
    api = client(read_only=True)
    error = await failed(api.post("a", json={}, operation="create a"))
    assert isinstance(error, AuthorizationError)
    assert upstream.requests == []
    await api.post("search", json={}, writes=False, operation="search")


async def test_proxies_and_netrc_of_the_environment_are_not_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    with Faultd(host="127.0.0.2") as canary:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, canary.url)
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        said = await client().get("a", operation="x")
    assert canary.connections == 0
    assert "authorization" not in said["headers"]


async def test_what_an_upstream_wants_remembered_is_forgotten(client: Client, upstream: Faultd) -> None:
    api = client("cookie")
    reply = await api.request("GET", "a", operation="x")
    await api.get("a", operation="x")
    assert "set-cookie" not in reply.headers
    assert "cookie" not in upstream.requests[1].headers


# ---- what comes back


@pytest.mark.parametrize("fault", ["packed:gzip", "packed:deflate", "packed:raw", "packed:gzip:identity"])
async def test_compressed_answers_are_read(client: Client, fault: str) -> None:
    assert await client(fault).get(operation="x") == {"packed": True}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("members", {"a": 1}),
        ("bom", {"a": 1}),
        ("script", {"a": 1}),
        ("no-content", None),
        ("half-character", ["\ud83d", "\0"]),
    ],
)
async def test_forgives_what_does_no_harm(client: Client, fault: str, said: object) -> None:
    assert await client(fault).get(operation="x") == said


@pytest.mark.parametrize(("fault", "said"), [("text", "Grüße"), ("latin-1", "Grüße"), ("odd-charset", "Grüße")])
async def test_texts_are_decoded_as_they_say_they_should(client: Client, fault: str, said: str) -> None:
    assert await client(fault).get_text(operation="x") == said


async def test_files_come_as_they_are(client: Client) -> None:
    assert await client("invalid-utf-8").get_bytes(operation="x") == b'{"name": "\xff\xfe"}'


NONSENSE = [
    *("html", "html-as-json", "invalid-json", "truncated-json", "nan", "infinity", "duplicate-keys", "deep-json"),
    *("huge-number", "invalid-utf-8", "wrong-charset", "empty", "unasked-encoding", "not-gzip"),
    *("truncated-gzip", "many-encodings", "packed:gzip:gzip", "packed:gzip:deflate", "members:many", "garbage"),
    *("huge-header", "endless-headers", "split-header"),
]


@pytest.mark.parametrize("fault", NONSENSE)
async def test_nonsense_is_distinguished_from_an_answer(client: Client, fault: str) -> None:
    error = await failed(client(fault).get("a", operation="get a"))
    assert isinstance(error, UpstreamInvalidResponseError)
    assert "Faultd" in error.message
    assert error.next_step == "An operator should check the base URL of this connection."
    assert "Log in" not in str(error.as_dict())


@pytest.mark.parametrize("fault", ["close", "close-after:10", "close-after:90", "half-close", "reset", "reset-in-body"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_broken_connection_is_a_network_error(
    client: Client, upstream: Faultd, fault: str, method: str
) -> None:
    request = client(fault).request(method, "a", operation="x")
    if method == "POST" and fault in ("close-after:90", "half-close", "reset-in-body"):
        assert (await request).warning.startswith("The change was made")
    else:
        error = await failed(request)
        assert isinstance(error, UpstreamUnavailableError)
        assert error.message == "Network error: Faultd closed the connection"
        assert error.retryable == (method == "GET")
        assert error.outcome_unknown == ("outcome is unknown" in error.next_step) == (method == "POST")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("fault", ["no-content", "empty"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_change_needs_no_words(client: Client, fault: str, method: str) -> None:
    reply = await client(fault).request(method, "a", operation="x")
    assert (reply.data, reply.warning) == (None, "")


@pytest.mark.parametrize("fault", ["truncated-json", "invalid-json", "not-gzip", "big:11000000", "invalid-utf-8"])
async def test_a_change_whose_answer_is_lost_was_made(client: Client, upstream: Faultd, fault: str) -> None:
    reply = await client(fault).put("issues", 1, json={}, operation="update issue")
    assert (reply.status, reply.data) == (200, None)
    assert reply.warning == "The change was made, but the response of Faultd could not be read."
    assert len(upstream.requests) == 1


async def test_a_login_page_is_no_word_of_a_change(client: Client) -> None:
    error = await failed(client("html").post("a", json={}, operation="create a"))
    assert isinstance(error, UpstreamInvalidResponseError)
    assert "outcome is unknown" in error.next_step


# ---- what is refused

REFUSALS: list[tuple[int, type[ToolError], bool, str]] = [
    (301, ApiError, False, "Failed to update workflow: Faultd redirects to nowhere, which is not followed"),
    (400, ApiError, False, "Failed to update workflow"),
    (401, ApiError, False, "Authentication failed: Faultd does not accept the key of this connection"),
    (403, ApiError, False, "Permission denied: Faultd does not let this connection update workflow"),
    (404, NotFoundError, False, "Workflow 'abc123' not found"),
    (408, ApiError, False, "Failed to update workflow: Faultd is busy or not available now"),
    (409, ApiError, False, "Failed to update workflow"),
    (418, ApiError, False, "Failed to update workflow"),
    (422, UpstreamValidationError, False, "Said by faultd"),
    (429, ApiError, True, "Failed to update workflow: Faultd is busy or not available now"),
    (500, ApiError, False, "Failed to update workflow"),
    (502, ApiError, False, "Failed to update workflow: Faultd is busy or not available now"),
    (503, ApiError, True, "Failed to update workflow: Faultd is busy or not available now"),
    (504, ApiError, False, "Failed to update workflow: Faultd is busy or not available now"),
]


@pytest.mark.parametrize(("status", "kind", "retryable", "message"), REFUSALS)
async def test_every_status_has_its_error(
    client: Client, upstream: Faultd, status: int, kind: type[ToolError], retryable: bool, message: str
) -> None:
    api = client(f"status:{status}")
    error = await failed(api.put("workflows", "abc123", json={}, operation="update workflow", resource="Workflow"))
    assert (type(error), error.retryable, error.message) == (kind, retryable, message)
    # These may come from a gateway behind which the change was made.
    assert error.outcome_unknown == (status in (408, 502, 504))
    assert "Said by faultd" in str(error.detail)
    if kind is ApiError:
        assert error.context == {
            "operation": "update workflow",
            "resourceType": "Workflow",
            "resourceId": "abc123",
            "statusCode": status,
            "errorDetails": "Said by faultd",
        }
    assert len(upstream.requests) == 1


async def test_a_404_without_a_resource_is_about_the_url(client: Client) -> None:
    error = await failed(client("status:404").get("workflows", operation="list workflows"))
    assert isinstance(error, ApiError)
    assert error.message == "Failed to list workflows: Faultd has nothing at that URL"


@pytest.mark.parametrize("status", [401, 403, 404, 409, 500])
async def test_a_refusal_can_be_empty(client: Client, status: int) -> None:
    error = await failed(client(f"bare:{status}").get("issues", 1, operation="get issue", resource="Issue"))
    assert error.context.get("errorDetails") is None
    assert error.code in ("API_ERROR", "NOT_FOUND")


async def test_an_error_page_is_summarised_by_its_title(client: Client) -> None:
    error = await failed(client("stack").get("a", operation="get a"))
    assert error.context["errorDetails"] == "Error"
    assert "/app/index.js" in str(error.detail)  # for the error log


async def test_a_redirect_is_shown_and_not_followed(client: Client, upstream: Faultd) -> None:
    with Faultd(host="127.0.0.2") as canary:
        for status in (301, 302, 303, 307, 308):
            to = canary.url.replace("://", "%3A%2F%2Fuser%3Apass%40") + "/login%3Fkey%3Dabc"
            error = await failed(client(f"redirect:{status}").get(operation="x", params={"to": ""}, suffix=f"?to={to}"))
            assert error.message == f"Failed to x: Faultd redirects to {canary.url}/login, which is not followed"
    assert canary.connections == 0
    assert len(upstream.requests) == 5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(("3", 3.0), ("0", 0.0), ("1000000000", None), ("-5", None), ("soon", None), ("", None), ("1e3", None)),
        *(("Wed, 18 Nov 2026 12:00:30 GMT", 30.0), ("Wed, 18 Nov 2026 11:00:00 GMT", None), ("٣", 3.0)),
    ],
)
def test_a_time_to_wait_is_taken_where_it_makes_sense(value: str, seconds: float | None) -> None:
    assert failures.retry_after(value, datetime(2026, 11, 18, 12, tzinfo=UTC)) == seconds


async def test_retry_after_reaches_the_caller(client: Client) -> None:
    error = await failed(client("busy:503:7").get("a", operation="list a"))
    assert (error.retry_after, error.retryable, error.next_step) == (7.0, True, "Try again in a moment.")


async def test_a_pack_can_explain_a_refusal(client: Client) -> None:
    def explained(refused: UpstreamRefusal) -> ToolError | None:
        if refused.status != 422:
            return None
        return UpstreamValidationError(f"{refused.request.resource}: {' and '.join(refused.reasons)}")

    api = client("status:422:errors", explain=explained)
    error = await failed(api.post("issues", json={}, operation="create issue", resource="Issue"))
    assert error.message == "Issue: Subject cannot be blank and Tracker is not included"
    assert "HTTP 422" in str(error.detail)


def test_old_names_of_a_refusal_work_and_are_deprecated() -> None:
    request = UpstreamRequest("Sky", "GET", "list stars")
    refusal = UpstreamRefusal(request, 422, ("too many",))
    with pytest.deprecated_call(match="use UpstreamRefusal.request"):
        assert refusal.asked is request
    with pytest.deprecated_call(match="use UpstreamRefusal.reasons"):
        assert refusal.said == ("too many",)
    with pytest.deprecated_call(match="use UpstreamRefusal"):
        assert toolhub.Refused is UpstreamRefusal


# ---- secrets


async def test_a_secret_that_comes_back_is_hidden(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    api = client("echo-secret", secrets={"Authorization": f"Bearer {KEY}", "X-Other": "other/secret+1"})
    error = await failed(api.get("a", params={"q": KEY}, operation="x"))
    error.__cause__ = None
    shown = f"{api!r} {vars(api)!r} {error.as_dict()} {error.detail} {caplog.text}"
    assert KEY not in shown
    assert "other/secret+1" not in shown
    assert "***" in str(error.detail)


@pytest.mark.parametrize("header", ["Authorization", "X-Z"])
@pytest.mark.parametrize("secret", [KEY, "other/secret+1=", "<&'k3y'&>", "p%20q r#8"])
@pytest.mark.parametrize("escapes", ["slashes", "pluses"])
async def test_a_success_does_not_repeat_a_secret(client: Client, header: str, secret: str, escapes: str) -> None:
    prefix = "Bearer " if header == "Authorization" else ""
    response = await client("echo-all", secrets={header: prefix + secret}).request("GET", escapes, operation="x")
    shown = f"{json.dumps(response.data)} {response.headers}"
    encoded = secret.encode()
    inner = [base64.b64encode(b"x" * length + encoded).decode()[4:-4] for length in range(3)]
    for form in (
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        encoded.hex(),
        encoded.hex().upper(),
        *inner,
    ):
        assert form not in shown
        assert form not in shown.replace("-", "+").replace("_", "/")
    assert all("***" in " ".join(said) for said in response.data.values())
    assert "***" in response.headers["x-echo"] or header != "X-Z"
    assert "ToolHub" in shown


async def test_an_answer_with_an_ordinary_word_or_number_for_a_secret_stays(client: Client, upstream: Faultd) -> None:
    async def answer(wire: Wire) -> None:
        await wire.answer(b'{"id": 12345678901, "text": "admin"}')

    upstream.answer("answer", answer)
    api = client("answer", secrets={"X-A": "12345678901", "X-B": "admin"})
    assert await api.get("a", operation="x") == {"id": 12345678901, "text": "admin"}


async def test_a_redirect_does_not_repeat_a_secret(client: Client) -> None:
    seen: list[UpstreamRefusal] = []
    api = client("redirect:302", explain=lambda refused: seen.append(refused))
    error = await failed(api.get(operation="x", suffix=f"?to=/login/{KEY}"))
    assert error.message == "Failed to x: Faultd redirects to /login/***, which is not followed"
    assert KEY not in f"{seen[0].headers} {error.detail}"


async def test_nothing_is_sent_to_an_address_that_is_closed(upstream: Faultd) -> None:
    host, port = upstream.url.removeprefix("http://").split(":")
    network = OneOrigin(host, int(port), closed=lambda address: address.is_loopback)
    api = ApiClient(f"{upstream.url}/ok", name="Faultd", transport=Transport(network, shared_tls(), 1))
    error = await failed(api.get("a", operation="x"))
    await api.close()
    assert error.message == "Faultd can only be reached at its configured address"
    assert "link-local or a metadata service" in str(error.detail)
    assert upstream.requests == []


async def test_a_head_has_no_body(client: Client, upstream: Faultd) -> None:
    async def head(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n")

    upstream.answer("head", head)
    assert (await client("head").request("HEAD", "a", operation="x")).headers["content-length"] == "2"


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", " a", "a\0", "", "schlüssel"])
def test_a_secret_that_cannot_be_sent_is_not_shown_either(value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ApiClient("https://n8n.test", name="n8n", secrets={"X-Key": value})
    assert "Admin" not in f"{caught.value.as_dict()}"
    assert "schl" not in f"{caught.value.as_dict()}"


# ---- time


@pytest.mark.parametrize("fault", ["hang", "drip-headers", "drip-body", "continues", "says-too-much"])
async def test_the_deadline_holds_while_data_drips(client: Client, fault: str) -> None:
    begun = time.monotonic()
    error = await failed(client(fault, timeout=0.3).get("a", operation="get a"))
    assert time.monotonic() - begun < SOON
    if fault != "says-too-much":  # is refused at once
        assert isinstance(error, ToolTimeoutError)
        assert error.message == "Faultd did not answer within 300ms"


async def test_a_change_that_times_out_is_possibly_done(client: Client) -> None:
    error = await failed(client("hang", timeout=0.2).post("a", json={}, operation="create a"))
    assert "outcome is unknown" in error.next_step
    assert not error.retryable


async def test_what_waited_for_a_connection_has_sent_nothing(client: Client, upstream: Faultd) -> None:
    api = client("hang", at_once=1, timeout=0.4)
    first = asyncio.create_task(failed(api.post("a", json={}, operation="create a")))
    await asyncio.sleep(0.1)
    waited = await failed(api.post("a", json={}, operation="create a", timeout=0.1))
    assert waited.message == "All connections to Faultd were busy for 100ms"
    assert waited.next_step == "Nothing was sent. Call again in a moment, with fewer calls at once."
    assert waited.retryable
    assert not waited.blames_upstream
    assert "outcome is unknown" in (await first).next_step
    assert len(upstream.requests) == 1


async def test_the_deadline_of_a_call_is_kept_too(client: Client) -> None:
    begun = time.monotonic()
    await failed(client("hang").for_call("test", lambda: 0.1).get("a", operation="get a"))
    assert time.monotonic() - begun < SOON


# ---- connections


async def test_one_connection_serves_many_calls(client: Client, upstream: Faultd) -> None:
    before = upstream.connections
    api = client()
    for _ in range(5):
        await api.get("a", operation="x")
    assert upstream.connections == before + 1


async def test_no_more_are_opened_than_allowed(client: Client, upstream: Faultd) -> None:
    before = upstream.connections
    api = client("delay:20", at_once=2)
    await asyncio.gather(*(api.get("a", operation="x") for _ in range(8)))
    assert upstream.connections == before + 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fault", ["delay:1", "delay:50", "drip-body"])
async def test_callers_who_hang_up_leave_nothing_behind(upstream: Faultd, fault: str, seed: int) -> None:
    """Before a connection is made, while it is, in an answer; once, or again while the first is heeded."""
    api = ApiClient(upstream.url, name="Faultd", at_once=2)
    await _hang_up_on(api, fault, random.Random(seed))
    await asyncio.gather(*(api.get("delay:10", operation="x") for _ in range(4)))  # both places are free
    await api.close()
    assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)


async def _hang_up_on(api: ApiClient, fault: str, chance: random.Random) -> None:
    calls = [asyncio.create_task(api.get(fault, operation="x")) for _ in range(10)]
    for call in calls:
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.004]))
        for _ in range(chance.randint(1, 3)):
            call.cancel()
            await asyncio.sleep(0)
    await asyncio.gather(*calls, return_exceptions=True)


async def test_closing_waits_for_those_under_way(client: Client, upstream: Faultd) -> None:
    api = client("delay:50")
    under_way = asyncio.create_task(api.get("a", operation="x"))
    await asyncio.sleep(0.02)
    await api.close()
    assert (await under_way)["method"] == "GET"
    error = await failed(api.get("a", operation="x"))
    assert error.retryable
    assert eventually(lambda: upstream.open == 0)


def test_belongs_to_the_loop_of_its_first_request() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=1))
    api = ApiClient("https://n8n.test", name="n8n", transport=transport)
    asyncio.run(api.get("a", operation="x"))
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(api.get("a", operation="x"))


async def test_connects_to_its_own_origin_and_nowhere_else() -> None:
    with pytest.raises(NotOurOriginError):
        await OneOrigin("127.0.0.1", 5678).connect_tcp("127.0.0.1", 5679)


async def test_speaks_through_a_transport_of_a_test() -> None:
    api = ApiClient(
        "https://n8n.test", name="n8n", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=1))
    )
    assert await api.get("a", operation="x") == 1


async def test_answers_in_a_way_of_a_tests_own(client: Client, upstream: Faultd) -> None:
    async def teapot(wire: Wire) -> None:
        await wire.answer(b'{"error": {"message": "short and stout"}}', status="418 Teapot")

    upstream.answer("teapot", teapot)
    error = await failed(client("teapot").get(operation="x"))
    assert error.context["errorDetails"] == "short and stout"
