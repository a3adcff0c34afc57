"""What the log says of requests, by level."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.http.conftest import KEY, Client
from tests.support.faultd import Faultd, Wire
from tools_app.base.logs import MOST_BYTES, JsonFormatter
from tools_app.http.events import MOST_TRACED
from tools_app.sdk.errors import ApiError, NotFoundError, ToolError
from tools_app.sdk.levels import TRACE

pytestmark = pytest.mark.anyio


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    def read() -> list[dict[str, Any]]:
        ours = [record for record in caplog.records if record.name == "tools_app.http"]
        return [json.loads(JsonFormatter().format(record)) for record in ours]

    return read


async def test_a_request_is_logged_with_its_address_and_response_size(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    api = client()
    await api.get("things", operation="list things", params={"q": "rust", "token": "hunter2-Xy9"})
    sending, answered = lines()
    host = api.base.host
    assert (sending["level"], sending["message"], sending["method"]) == ("debug", "Sending HTTP request", "GET")
    assert sending["url"] == f"{api.base.origin}/ok/things?q=rust&token=***"
    assert (answered["message"], answered["host"], answered["status"]) == ("HTTP response", host, 200)
    assert answered["bytes"] > 0
    assert answered["ms"] >= 0


async def test_a_body_is_logged_in_full_and_only_at_trace(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    said = await client().get("things", operation="list things")
    assert not [line for line in lines() if "body" in line["message"]]
    caplog.clear()
    caplog.set_level(TRACE)
    assert await client().get("things", operation="list things") == said
    (line,) = [line for line in lines() if "body" in line["message"]]
    assert line["level"] == "trace"
    told, _, body = line["message"].partition(": ")
    assert told == "HTTP response body 1/1"
    assert body == json.dumps(said).replace(KEY, "***")


async def test_a_long_body_takes_several_lines_in_which_no_secret_is_left(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any, upstream: Faultd
) -> None:
    caplog.set_level(TRACE)
    bodies: list[bytes] = []

    async def say(wire: Wire) -> None:
        await wire.answer(bodies[-1], kind="text/plain")

    upstream.answer("long", say)
    for start in (1_470, 1_480, 1_490, 1_497):  # the secret is where a line would end
        caplog.clear()
        bodies.append(f"{'x' * start} {KEY} {'y' * MOST_TRACED}".encode())
        await client("long").get_text(operation="read")
        told = [line["message"] for line in lines() if line["message"].startswith("HTTP response body")]
        shown = "".join(each.partition(": ")[2] for each in told)
        assert shown.startswith("x" * start + " *** yyy")
        assert len(told) > 40
        assert told[-1] == f"HTTP response body: truncated, it has {len(bodies[-1])} bytes"
    assert all(len(json.dumps(line).encode()) <= MOST_BYTES for line in lines())


async def test_a_body_that_is_no_text_is_only_counted(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any, upstream: Faultd
) -> None:
    caplog.set_level(TRACE)

    async def say(wire: Wire) -> None:
        await wire.answer(b"\x89PNG\x00\x00", kind="image/png")

    upstream.answer("picture", say)
    await client("picture").get_bytes(operation="read")
    assert "HTTP response body: 6 bytes of binary data" in [line["message"] for line in lines()]


@pytest.mark.parametrize(("fault", "level"), [("reset", "error"), ("html", "error"), ("hang", "warn")])
async def test_a_failed_request_is_logged_with_its_error_and_without_its_address(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any, fault: str, level: str
) -> None:
    caplog.set_level(logging.INFO)
    api = client(fault, timeout=0.5)
    with pytest.raises(ToolError) as caught:
        await api.get("private-thing", operation="read", params={"q": "very-private"})
    (line,) = lines()
    assert (line["level"], line["message"]) == (level, "HTTP request failed")
    assert (line["upstream"], line["method"], line["host"]) == ("Faultd", "GET", api.base.host)
    assert line["error"].startswith(f"{caught.value.message} ({type(caught.value.__cause__).__name__}: ")
    assert "private" not in json.dumps(line)


async def test_an_upstream_that_is_ill_is_a_failed_request_and_one_that_refuses_is_not(
    client: Client, caplog: pytest.LogCaptureFixture, lines: Any
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(NotFoundError):
        await client("status:404").get("things", 1, operation="read", resource="Thing")
    assert lines() == []
    with pytest.raises(ApiError):
        await client("status:500").get("things", operation="read")
    (line,) = lines()
    assert (line["level"], line["message"], line["error"]) == ("error", "HTTP request failed", "HTTP 500")
