"""Calling a tool: what goes in, what comes out, and how it fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.rest import TIMESTAMP, Rest, check_form, failure
from tests.support.tools import Programmable
from tools_app import engine, governance
from tools_app.base import hub as hubs
from tools_app.engine.process import Engine
from tools_app.models import Call, ErrorLog, IdempotencyKey
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    NotFoundError,
    Problem,
    RateLimitError,
    ToolError,
    UpstreamUnavailableError,
)

WRONG_REQUESTS: list[tuple[Any, dict[str, str]]] = [
    ({}, {"/name": "Required parameter missing: name"}),
    ({"parameters": {}}, {"/name": "Required parameter missing: name"}),
    ({"name": None}, {"/name": "Invalid type for parameter name: expected string"}),
    ({"name": 3}, {"/name": "Invalid type for parameter name: expected string"}),
    ({"name": ["echo"]}, {"/name": "Invalid type for parameter name: expected string"}),
    ({"name": ""}, {"/name": "Invalid value for parameter name: expected a value that is not empty"}),
    (
        {"name": "echo", "parameters": None},
        {"/parameters": "Invalid type for parameter parameters: expected object"},
    ),
    ({"name": "echo", "parameters": []}, {"/parameters": "Invalid type for parameter parameters: expected object"}),
    (
        {"name": "echo", "parameters": "{}"},
        {"/parameters": "Invalid type for parameter parameters: expected object"},
    ),
    ({"name": "echo", "arguments": {}}, {"/arguments": "Unknown parameter: arguments"}),
    ({"name": "echo", "role": "admin"}, {"/role": "Unknown parameter: role"}),
    ({"name": "echo", "options": None}, {"/options": "Invalid type for parameter options: expected object"}),
    ({"name": "echo", "options": []}, {"/options": "Invalid type for parameter options: expected object"}),
    (
        {"name": "echo", "options": {"timeout": "1"}},
        {"/options/timeout": "Invalid type for parameter options.timeout: expected integer"},
    ),
    (
        {"name": "echo", "options": {"timeout": True}},
        {"/options/timeout": "Invalid type for parameter options.timeout: expected integer"},
    ),
    (
        {"name": "echo", "options": {"timeout": 1000.5}},
        {"/options/timeout": "Invalid type for parameter options.timeout: expected integer"},
    ),
    ({"name": "echo", "options": {"patience": 3}}, {"/options/patience": "Unknown parameter: options.patience"}),
    ([], {"": "Invalid type for the body: expected object"}),
    ("text", {"": "Invalid type for the body: expected object"}),
    (3, {"": "Invalid type for the body: expected object"}),
    (None, {"": "Invalid type for the body: expected object"}),
    (
        {"name": 1, "parameters": 2, "options": {"timeout": "3"}, "a/b~c": 4},
        {
            "/name": "Invalid type for parameter name: expected string",
            "/parameters": "Invalid type for parameter parameters: expected object",
            "/options/timeout": "Invalid type for parameter options.timeout: expected integer",
            "/a~1b~0c": "Unknown parameter: a/b~c",
        },
    ),
]


def test_a_call_answers_with_the_result_and_what_the_document_asks_for(rest: Rest) -> None:
    response = rest.call("echo", {"message": "Hello"})

    told = response.json()
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    assert told.keys() == {"success", "result", "executionTime", "timestamp", "callId"}
    assert (told["success"], told["result"]) == (True, {"message": "Hello"})
    assert isinstance(told["executionTime"], int)
    assert TIMESTAMP.fullmatch(told["timestamp"])
    check_form("CallAnswer", told)


def test_a_call_is_recorded_under_the_id_in_its_response(rest: Rest) -> None:
    told = rest.call("echo", {"message": "Hello"}).json()

    row = Call.objects.get()
    assert (row.id, row.door, row.status, row.caller_name) == (told["callId"], "rest", "succeeded", "alice")


def test_parameters_can_be_left_out(rest: Rest, programmable: Programmable) -> None:
    assert rest.post("/v1/tools/call", {"name": "programmable"}).json()["result"] == {"value": 0}


@pytest.mark.parametrize("result", ["text", "", 3, 1.5, True, None, [], [1, {"a": None}], {"": "ä\n😀"}])
def test_any_json_can_be_a_result(rest: Rest, programmable: Programmable, result: Any) -> None:
    programmable.outcomes.append(result)

    assert rest.call("programmable").json()["result"] == result


def test_a_result_hides_nothing(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes.append({"a\u200b": "safe\u202e\x00\u2028text"})

    assert rest.call("programmable").json()["result"] == {"a": "safe\ntext"}


@pytest.mark.parametrize("result", [float("nan"), {"a": [float("inf")]}, "\ud800", object()])
def test_a_result_that_json_cannot_say_is_a_failure_of_the_tool(
    rest: Rest, programmable: Programmable, result: Any
) -> None:
    programmable.outcomes.append(result)

    failure(rest.call("programmable"), 500, "TOOL_EXECUTION_ERROR")


@pytest.mark.parametrize("name", ["nope", "Echo", "../echo", "echo\n", "__class__", "a" * 5000, "😀"])
def test_an_unknown_tool_is_not_found(rest: Rest, name: str) -> None:
    told = failure(rest.call(name), 404, "TOOL_NOT_FOUND")

    assert told["error"].startswith("Tool not found: ")
    assert len(told["error"]) < 150
    assert Call.objects.get().id == told["callId"]


def test_a_tool_that_is_switched_off_is_refused_by_the_next_call(rest: Rest, programmable: Programmable) -> None:
    assert rest.call("programmable").status_code == 200

    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))

    told = failure(rest.call("programmable"), 403, "TOOL_DISABLED")
    assert told["error"] == "Tool is disabled: programmable"
    assert told["context"] == {"reason": "switched off by an operator"}
    assert len(programmable.calls) == 1


def test_says_everything_that_is_wrong_with_the_arguments(rest: Rest) -> None:
    told = failure(rest.call("calculate", {"operation": "power", "a": "2", "c": 1}), 400, "VALIDATION_ERROR")

    assert told["error"] == "Required parameter missing: b"
    assert {problem["path"] for problem in told["details"]} == {"/operation", "/a", "/b", "/c"}
    assert told["executionTime"] >= 0
    assert Call.objects.get().status == "refused"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "Required parameter missing: message"),
        ({"message": 1}, "Invalid type for parameter message: expected string"),
        ({"message": None}, "Invalid type for parameter message: expected string"),
        ({"message": ["a"]}, "Invalid type for parameter message: expected string"),
        ({"message": "a", "__proto__": {}}, "Unknown parameter: __proto__"),
        ({"message": "a", "__class__": "x"}, "Unknown parameter: __class__"),
        ({"message": "a", "enabled": True}, "Unknown parameter: enabled"),
    ],
)
def test_arguments_must_be_of_the_declared_types(rest: Rest, parameters: Any, message: str) -> None:
    assert failure(rest.call("echo", parameters), 400, "VALIDATION_ERROR")["error"] == message


@pytest.mark.parametrize("number", [True, "2", None, [], {}])
def test_nothing_else_is_a_number(rest: Rest, number: Any) -> None:
    told = failure(rest.call("calculate", {"operation": "add", "a": number, "b": 1}), 400, "VALIDATION_ERROR")

    assert told["error"].startswith("Invalid type for parameter a: expected ")


def test_says_everything_that_is_wrong_with_the_request(rest: Rest, subtests: pytest.Subtests) -> None:
    for body, details in WRONG_REQUESTS:
        with subtests.test(body=str(body)):
            told = failure(rest.post("/v1/tools/call", json.dumps(body)), 400, "VALIDATION_ERROR")
            assert told["error"] == "Validation failed"
            assert {problem["path"]: problem["message"] for problem in told["details"]} == details
    assert Call.objects.count() == 0


def test_repeats_nothing_of_what_was_sent(rest: Rest) -> None:
    response = rest.post(
        "/v1/tools/call", {"name": ["hunter2"], "parameters": "hunter2", "options": {"timeout": "hunter2"}}
    )

    failure(response, 400, "VALIDATION_ERROR")
    assert b"hunter2" not in response.content


@pytest.mark.parametrize("timeout", [0, -1, 99, 120_001, 2**63 - 1])
def test_a_timeout_out_of_bounds_is_refused(rest: Rest, timeout: int) -> None:
    body = {"name": "echo", "parameters": {"message": "hi"}, "options": {"timeout": timeout}}

    told = failure(rest.post("/v1/tools/call", body), 400, "VALIDATION_ERROR")

    assert [problem["path"] for problem in told["details"]] == ["/options/timeout"]


def test_a_call_that_takes_too_long_ends_with_408(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes.append(lambda: asyncio.sleep(5))

    response = rest.post("/v1/tools/call", {"name": "programmable", "options": {"timeout": 100}})

    told = failure(response, 408, "TIMEOUT")
    assert told["error"] == "Execution timeout after 100ms"
    assert told["retryable"] is True
    assert 100 <= told["executionTime"] < 1000
    assert Call.objects.get().status == "timeout"


def test_a_tool_that_breaks_tells_an_id_and_nothing_else(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes.append(RuntimeError("the password is hunter2"))

    response = rest.call("programmable")

    told = failure(response, 500, "TOOL_EXECUTION_ERROR")
    assert told["error"] == "Tool execution failed: programmable"
    assert b"hunter2" not in response.content
    assert b"RuntimeError" not in response.content
    logged = ErrorLog.objects.get(pk=told["errorId"])
    assert (logged.call_id, logged.door) == (told["callId"], "rest")
    assert "RuntimeError" in logged.detail


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ApiError("Failed to update workflow", context={"operation": "update", "statusCode": 400}), 502),
        (NotFoundError("Issue #7 not found", context={"operation": "get", "resourceType": "x", "resourceId": 7}), 404),
        (InvalidArgumentsError(problems=[Problem("/id", "Workflow ID is required")]), 400),
    ],
)  # fmt: skip
def test_what_a_tool_says_goes_out_as_it_is(
    rest: Rest, programmable: Programmable, error: ToolError, status: int
) -> None:
    programmable.outcomes.append(error)

    told = failure(rest.call("programmable"), status, error.code)

    assert told["error"] == error.message
    assert told.get("context", {}) == error.context


def test_an_error_says_when_to_come_back(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes.append(RateLimitError(retry_after=1.2))

    response = rest.call("programmable")

    told = failure(response, 429, "RATE_LIMIT_EXCEEDED")
    assert (told["retryAfter"], told["retryable"]) == (1.2, True)
    assert response.headers["Retry-After"] == "2"


@pytest.mark.parametrize("text", ["a\r\nSet-Cookie: a=b", "\ud800", "日本語", "\x00\x1b[31m", "a" * 10_000])
def test_no_text_of_an_error_breaks_the_answer(rest: Rest, programmable: Programmable, text: str) -> None:
    programmable.outcomes.append(ApiError(text, context={"operation": text}, next_step=text))

    response = rest.call("programmable")

    failure(response, 502, "API_ERROR")
    assert "Set-Cookie" not in response.headers


def test_every_call_has_one_row(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes += [1, RuntimeError("x"), ApiError("y", context={"operation": "z"})]

    answers = [rest.call("programmable"), rest.call("programmable"), rest.call("programmable"), rest.call("nope")]

    assert {answer.json()["callId"] for answer in answers} == set(Call.objects.values_list("id", flat=True))
    assert Call.objects.count() == 4


def test_a_hub_that_ends_takes_no_calls(rest: Rest) -> None:
    assert rest.call("echo", {"message": "hi"}).status_code == 200
    calls = hubs.part(Engine).calls
    assert calls is not None
    calls.closing = True

    assert failure(rest.call("echo", {"message": "hi"}), 503, "SHUTTING_DOWN")["retryable"] is True


def test_a_caller_can_ask_for_retries(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes = [UpstreamUnavailableError("down"), {"value": "second"}]

    told = rest.post("/v1/tools/call", {"name": "programmable", "options": {"retry": 1, "retryDelay": 100}}).json()

    assert told["result"] == {"value": "second"}
    assert Call.objects.get().attempts == 2


def test_a_call_with_the_key_of_an_earlier_one_gets_its_answer(rest: Rest, programmable: Programmable) -> None:
    first = rest.call("programmable", {"value": 3}, Idempotency_Key="k1")
    second = rest.call("programmable", {"value": 3}, Idempotency_Key="k1")
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert {**first.json(), "timestamp": ""} == {**second.json(), "timestamp": ""}
    assert len(programmable.calls) == 1

    failure(rest.call("programmable", {"value": 4}, Idempotency_Key="k1"), 422, "IDEMPOTENCY_MISMATCH")
    failure(rest.call("programmable", {"value": 3}, Idempotency_Key="x" * 256), 400, "VALIDATION_ERROR")
    assert rest.call("programmable", {"value": 3}, Idempotency_Key="k2").status_code == 200


def test_a_replayed_error_says_so(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes = [ApiError("no", context={"operation": "x", "statusCode": 400})]
    first = rest.call("programmable", Idempotency_Key="k1")
    second = rest.call("programmable", Idempotency_Key="k1")
    assert (first.status_code, second.status_code) == (502, 502)
    assert ("Idempotent-Replayed" in first.headers, "Idempotent-Replayed" in second.headers) == (False, True)


def test_a_key_whose_call_is_under_way_says_when_to_come_back(rest: Rest, programmable: Programmable) -> None:
    call_id = rest.call("programmable", Idempotency_Key="k1").json()["callId"]
    IdempotencyKey.objects.update(reply=None)
    Call.objects.filter(pk=call_id).update(status="started")
    response = rest.call("programmable", Idempotency_Key="k1")
    assert failure(response, 409, "IDEMPOTENCY_IN_PROGRESS")["retryable"] is True
    assert response.headers["Retry-After"] == "1"


def test_a_dry_run_says_what_would_be_done_and_does_nothing(rest: Rest, programmable: Programmable) -> None:
    governance.set_policy("programmable", {"retries": 2}, actor=governance.trusted("test"))
    body = {"name": "programmable", "parameters": {"value": 3}, "options": {"dryRun": True, "timeout": 5000}}
    told = rest.post("/v1/tools/call", body).json()
    assert told["dryRun"] is True
    plan = told["result"]
    assert (plan["tool"], plan["arguments"], plan["timeoutMs"], plan["retries"]) == (
        "programmable", {"value": 3, "text": ""}, 5000, 2,
    )  # fmt: skip
    assert plan["policy"]["origins"]["retries"] == "operator"
    assert plan["upstream"] == {"name": "programmable", "circuit": "closed", "running": 0, "waiting": 0}
    assert not programmable.calls
    assert not Call.objects.exists()


def test_a_dry_run_is_refused_for_what_a_call_would_be(rest: Rest, programmable: Programmable) -> None:
    def dry(parameters: dict[str, Any]) -> Any:
        return rest.post("/v1/tools/call", {"name": "programmable", "parameters": parameters, "options": {"dryRun": 1}})

    failure(dry({}), 400, "VALIDATION_ERROR")
    body = {"name": "programmable", "parameters": {"value": "x"}, "options": {"dryRun": True}}
    failure(rest.post("/v1/tools/call", body), 400, "VALIDATION_ERROR")
    governance.set_enabled(["programmable"], enabled=False, actor=governance.trusted("test"))
    failure(rest.post("/v1/tools/call", {**body, "parameters": {}}), 403, "TOOL_DISABLED")
    assert not Call.objects.exists()


def test_a_cached_answer_says_so(rest: Rest, programmable: Programmable) -> None:
    governance.set_policy("programmable", {"cache_seconds": 60}, actor=governance.trusted("test"))
    first, second = rest.call("programmable").json(), rest.call("programmable").json()
    assert ("cached" in first, second["cached"]) == (False, True)
    assert first["result"] == second["result"]
    assert first["callId"] != second["callId"]


def test_a_hub_whose_journal_cannot_be_written_takes_no_calls_and_says_so(
    rest: Rest, programmable: Programmable
) -> None:
    rest.call("programmable")
    calls = hubs.part(Engine).calls
    assert calls is not None
    calls.journal._writer.trouble = "disk full"

    failure(rest.call("programmable"), 503, "STORAGE_BUSY")
    health = rest.get("/health")
    assert (health.status_code, health.json()["checks"]["database"]) == (503, "fail")
    assert len(programmable.calls) == 1


def test_those_without_a_key_are_counted(rest: Rest) -> None:
    for _ in range(20):
        assert rest.call("echo", key=None).status_code == 401
    asyncio.run(engine.close())
    assert list(Call.objects.values_list("code", "count")) == [("AUTHENTICATION_ERROR", 20)]


def test_parts_of_the_result_can_be_asked_for(rest: Rest, programmable: Programmable) -> None:
    programmable.outcomes += [{"items": [{"id": 1, "name": "a"}], "total": 1}] * 3
    body = {"name": "programmable", "options": {"fields": ["/items/*/id"]}}
    assert rest.post("/v1/tools/call", body).json()["result"] == {"items": [{"id": 1}]}
    part = rest.post("/v1/tools/programmable/call?fields=/items/*/name,total", {}).json()["result"]
    assert part == {"items": [{"name": "a"}], "total": 1}
    refused = rest.post("/v1/tools/programmable/call?fields=/item", {})
    assert refused.status_code == 400
    expected = "/items, or one of: items, total"
    message = f"/item is not in the answer: expected {expected}"
    assert refused.json()["details"] == [{"path": "/_fields", "message": message, "expected": expected}]
