"""Refusals, as typed errors with the words of the service; and requests without an answer."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.faultd import Wire
from tests.upstream.conftest import until
from tests.upstream.openapi.conftest import Says, Service, in_path
from tools_app.sdk.errors import (
    ApiError,
    ConfigurationError,
    NotFoundError,
    ToolError,
    UpstreamUnavailableError,
    UpstreamValidationError,
)
from tools_app.sdk.operation import Operation
from tools_app.sdk.spec import ToolSpec
from tools_app.upstream.results import UnansweredError, UnreadableError

pytestmark = pytest.mark.anyio

LOOK = Operation("GET", "/things/{color}", (in_path(),), accepts=("application/json",))
CHANGE = Operation("POST", "/things", accepts=("application/json",))


async def failure(service: Service, operation: Operation = LOOK, **options: Any) -> ToolError:
    arguments = {"color": "blue"} if operation.parameters else {}
    with pytest.raises(ToolError) as caught:
        await service.call(operation, arguments, **options)
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "retryable", "nothing_done", "words"),
    [
        (400, UpstreamValidationError, False, True, "shop did not accept the values (HTTP 400: no)"),
        (401, ApiError, False, True, "shop requires authentication. This call used no connection (HTTP 401: no)"),
        (402, ApiError, False, True, "shop refused the call (HTTP 402: no)"),
        (403, ApiError, False, True, "Permission denied: shop does not permit this call (HTTP 403: no)"),
        (404, NotFoundError, False, True, "shop did not find it (HTTP 404: no)"),
        (405, ApiError, False, True, "shop refused the call (HTTP 405: no)"),
        (408, ApiError, True, False, "shop is busy or not available now (HTTP 408: no)"),
        (409, ApiError, False, True, "shop refused the call because of a conflict (HTTP 409: no)"),
        (410, NotFoundError, False, True, "shop did not find it (HTTP 410: no)"),
        (412, ApiError, False, True, "shop refused the call because of a conflict (HTTP 412: no)"),
        (415, ApiError, False, True, "shop refused the call (HTTP 415: no)"),
        (422, UpstreamValidationError, False, True, "shop did not accept the values (HTTP 422: no)"),
        (429, ApiError, True, True, "shop is busy or not available now (HTTP 429: no)"),
        (500, ApiError, False, False, "shop failed (HTTP 500: no)"),
        (501, ApiError, False, True, "shop failed (HTTP 501: no)"),
        (502, ApiError, True, False, "shop is busy or not available now (HTTP 502: no)"),
        (503, ApiError, True, True, "shop is busy or not available now (HTTP 503: no)"),
        (504, ApiError, True, False, "shop is busy or not available now (HTTP 504: no)"),
        (599, ApiError, False, True, "shop failed (HTTP 599: no)"),
    ],
)
async def test_a_status_is_a_typed_error(
    says: Says, status: int, kind: type[ToolError], retryable: bool, nothing_done: bool, words: str
) -> None:
    error = await failure(says(b'{"message": "no"}', status=f"{status} Status"))
    assert (type(error), error.message) == (kind, words)
    assert (error.retryable, error.nothing_done) == (retryable, nothing_done)
    assert not error.outcome_unknown
    if isinstance(error, NotFoundError):
        assert error.context == {
            "operation": "call shop_call",
            "resourceType": "/things/{color}",
            "resourceId": "blue",
        }
    if isinstance(error, ApiError):
        assert error.context == {"operation": "call shop_call", "statusCode": status}
        assert error.blames_upstream == (status >= 500)


async def test_a_404_without_an_identifier_is_an_error_of_the_service(says: Says) -> None:
    error = await failure(says(b"", status="404 Not Found"), CHANGE)
    assert (type(error), error.message) == (ApiError, "shop did not find it (HTTP 404)")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"error": "wrong"}, "wrong"),
        ({"message": "wrong"}, "wrong"),
        ({"detail": "wrong"}, "wrong"),
        ({"title": "wrong"}, "wrong"),
        ({"type": "about:blank", "title": "Bad", "status": 400, "detail": "it is wrong"}, "it is wrong; Bad"),
        ({"errors": ["a is blank", "b is long"]}, "a is blank; b is long"),
        ({"errors": [{"title": "Bad", "detail": "a"}, {"detail": "b"}]}, "a; Bad; b"),
        ({"errors": {"name": ["is blank"], "age": ["is low"]}}, "name: is blank; age: is low"),
        ({"error": {"code": 400, "message": "wrong", "status": "INVALID"}}, "wrong"),
        ({"error": "invalid_grant", "error_description": "it is old"}, "invalid_grant; it is old"),
        ({"detail": [{"loc": ["body", "a"], "msg": "field required", "type": "missing"}]}, "body.a: field required"),
        ({"message": "Validation Failed", "errors": [{"field": "a", "code": "missing"}]}, None),
        (["wrong"], "wrong"),
        ("wrong", "wrong"),
        ({"message": "a\r\n\tb\u0000"}, "a b\N{REPLACEMENT CHARACTER}"),
        ({"message": "password=hunter2hunter2"}, "password=***"),
        ({"message": ""}, ""),
        ({"unknown": "x"}, ""),
        ({"msg": "wrong"}, "wrong"),
        (0, ""),
    ],
)
async def test_the_words_of_the_service_are_in_the_message(says: Says, content: Any, words: str | None) -> None:
    error = await failure(says(json.dumps(content).encode(), status="400 Bad Request"))
    if words is not None:
        why = f"HTTP 400: {words}" if words else "HTTP 400"
        assert error.message == f"shop did not accept the values ({why})"
    else:
        assert "Validation Failed" in error.message


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"it is wrong", "text/plain", "HTTP 400: it is wrong"),
        (b"<html><title>Bad Request</title><body>" + b"x" * 10_000, "text/html", "HTTP 400: Bad Request"),
        (b"{broken", "application/json", "HTTP 400: {broken"),
        (b"", "application/json", "HTTP 400"),
        (b"\xff\xfe\x00", "application/octet-stream", None),
    ],
)
async def test_words_that_are_not_json_are_used_too(says: Says, content: bytes, kind: str, words: str | None) -> None:
    error = await failure(says(content, status="400 Bad Request", kind=kind))
    if words is not None:
        assert error.message == f"shop did not accept the values ({words})"


async def test_many_words_are_cut(says: Says) -> None:
    errors = {"errors": [f"{number}: {'x' * 600}" for number in range(20)]}
    error = await failure(says(json.dumps(errors).encode(), status="422 No"))
    assert len(error.message) < 2_100
    assert error.message.startswith("shop did not accept the values (HTTP 422: 0: xxx")


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("0", 0), ("soon", None), ("99999999", None), ("-1", None)])
async def test_retry_after_is_passed_on(says: Says, header: str, seconds: float | None) -> None:
    error = await failure(says(b"{}", status="429 Busy", headers=[f"Retry-After: {header}"]))
    assert (error.retry_after, error.retryable) == (seconds, True)


async def test_a_place_elsewhere_after_a_change_leaves_the_outcome_open(says: Says) -> None:
    for status, is_open in (("301 Moved", False), ("302 Found", True), ("303 See", True), ("308 Moved", False)):
        error = await failure(says(status=status, headers=["Location: /login"]), CHANGE)
        assert (error.outcome_unknown, error.nothing_done) == (is_open, not is_open)
        assert not (await failure(says(status=status, headers=["Location: /login"]))).outcome_unknown


# ---- no answer


@pytest.mark.parametrize("operation", [LOOK, CHANGE])
async def test_a_service_that_is_not_there_got_nothing(service: Service, operation: Operation) -> None:
    # Nobody listens on this port.
    gone = replace(service.origin, location="http://127.0.0.1:9")
    error = await failure(replace(service, origin=gone), operation)
    assert isinstance(error, UpstreamUnavailableError)
    assert (error.nothing_done, error.retryable, error.is_unanswered) == (True, True, False)
    assert service.sent == ["no"]


@pytest.mark.parametrize("fault", ["close", "reset", "close-after:10", "half-close", "garbage"])
@pytest.mark.parametrize("operation", [LOOK, CHANGE])
async def test_a_cut_is_an_error_that_the_engine_judges(service: Service, fault: str, operation: Operation) -> None:
    if fault == "half-close" and operation is CHANGE:
        # The status was there: the change was made.
        answer = await service.at(fault).call(operation)
        assert answer["message"] == "The change was made, but the response of shop could not be read."
        return
    error = await failure(service.at(fault), operation)
    assert isinstance(error, UnansweredError | UnreadableError)
    assert (error.is_unanswered, error.nothing_done, error.outcome_unknown) == (True, False, False)
    assert service.sent[-1] in ("maybe", "yes")
    assert len(service.server.requests) == 1


async def test_a_call_runs_at_most_once_wherever_its_answer_is_cut(service: Service) -> None:
    outcomes = set()
    chance = random.Random(1)
    for size in [0, 1, *(chance.randrange(140) for _ in range(60))]:
        service.server.requests.clear()
        # Over a connection that is open already, and over one of its own.
        await service.call(CHANGE)
        outcomes.add(await outcome_of(service.at(f"close-after:{size}")))
        assert len(service.server.requests) == 2
    assert outcomes == {"answered", "open"}


async def outcome_of(service: Service) -> str:
    try:
        await service.call(CHANGE)
    except ToolError as error:
        failed = error
    else:
        return "answered"
    assert not failed.nothing_done
    failed.leave_outcome_open()
    assert (failed.code, failed.retryable) == ("OUTCOME_UNKNOWN", False)
    return "open"


async def test_a_deadline_ends_a_call(service: Service) -> None:
    for fault in ("hang", "drip-headers", "drip-body"):
        with pytest.raises(TimeoutError):
            await service.at(fault).call(CHANGE, seconds=0.5)
        assert service.sent[-1] == "maybe"


async def test_a_cancelled_call_ends_its_connection(service: Service) -> None:
    started, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(wire: Wire) -> None:
        loop.call_soon_threadsafe(started.set)
        await wire.reader.read()
        loop.call_soon_threadsafe(ended.set)

    service.server.answer("hang-once", hang)
    task = asyncio.create_task(service.at("hang-once").call(CHANGE, seconds=60))
    async with asyncio.timeout(30):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()
    assert service.sent == ["maybe"]


async def test_the_end_of_a_source_lets_its_calls_finish(service: Service) -> None:
    call = asyncio.create_task(service.at("delay:500").call(CHANGE))
    async with asyncio.timeout(30):
        await until(lambda: service.server.requests, 30)
        await service.upstreams.reconnect("shop")
        assert (await call)["method"] == "POST"
    assert await service.call(CHANGE)


async def test_a_changed_source_gets_connections_of_its_own(service: Service) -> None:
    before = service.server.connections
    await service.call(CHANGE)
    await service.at("ok", epoch=2).call(CHANGE)
    assert service.server.connections == before + 2


async def test_a_definition_without_an_operation_is_read_again(service: Service) -> None:
    with pytest.raises(ConfigurationError, match="no operation"):
        service.upstreams.runner(service.origin, ToolSpec({"name": "shop_call"}, {})).prepared({})
