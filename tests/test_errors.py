"""How calls fail: the documents' codes, statuses and words, and nothing of the inside on the outside."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

import toolhub
from tools_app.sdk import errors
from tools_app.sdk.errors import (
    ApiError,
    AuthenticationError,
    AuthorizationError,
    InputRequiredError,
    InternalError,
    InvalidArgumentsError,
    NotFoundError,
    Problem,
    RateLimitError,
    ToolDisabledError,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    UpstreamValidationError,
    ValidationError,
    restored,
    shortened,
)
from tools_app.sdk.hub_errors import (
    AnswerNotFoundError,
    ApprovalInvalidError,
    ApprovalRefusedError,
    ApprovalRequiredError,
    CircuitOpenError,
    ContractBrokenError,
    DefinitionChangedError,
    IdempotencyInProgressError,
    IdempotencyMismatchError,
    MaintenanceError,
    OutcomeUnknownError,
    OverloadedError,
    Refusal,
    ReplyGoneError,
    ShuttingDownError,
    StoppedError,
    StorageBusyError,
    all_errors,
)

# code, class, REST status, retryable, level of the log
TABLE = [
    ("API_ERROR", "ApiError", 502, False, "ERROR"),
    ("AUTHENTICATION_ERROR", "AuthenticationError", 401, False, "WARNING"),
    ("AUTHORIZATION_ERROR", "AuthorizationError", 403, False, "WARNING"),
    ("CIRCUIT_OPEN", "CircuitOpenError", 503, True, "WARNING"),
    ("CONFIGURATION_ERROR", "ConfigurationError", 500, False, "ERROR"),
    ("CONFLICT", "ConflictError", 409, False, "WARNING"),
    ("DEFINITION_CHANGED", "DefinitionChangedError", 409, False, "WARNING"),
    ("INPUT_REQUIRED", "InputRequiredError", 409, False, "WARNING"),
    ("IDEMPOTENCY_IN_PROGRESS", "IdempotencyInProgressError", 409, True, "WARNING"),
    ("IDEMPOTENCY_MISMATCH", "IdempotencyMismatchError", 422, False, "WARNING"),
    ("INTERNAL_ERROR", "InternalError", 500, False, "ERROR"),
    ("MCP_SERVER_ERROR", "MCPServerError", 502, False, "ERROR"),
    ("NOT_FOUND", "NotFoundError", 404, False, "WARNING"),
    ("OUTCOME_UNKNOWN", "OutcomeUnknownError", 409, False, "WARNING"),
    ("OVERLOADED", "OverloadedError", 503, True, "WARNING"),
    ("RATE_LIMIT_EXCEEDED", "RateLimitError", 429, True, "WARNING"),
    ("REPLY_GONE", "ReplyGoneError", 409, False, "WARNING"),
    ("SHUTTING_DOWN", "ShuttingDownError", 503, True, "WARNING"),
    ("STOPPED", "StoppedError", 403, False, "WARNING"),
    ("MAINTENANCE", "MaintenanceError", 503, True, "WARNING"),
    ("STORAGE_BUSY", "StorageBusyError", 503, True, "ERROR"),
    ("TIMEOUT", "ToolTimeoutError", 408, True, "WARNING"),
    ("TOOL_DISABLED", "ToolDisabledError", 403, False, "WARNING"),
    ("CONTRACT_BROKEN", "ContractBrokenError", 500, False, "ERROR"),
    ("TOOL_EXECUTION_ERROR", "ToolExecutionError", 500, False, "ERROR"),
    ("APPROVAL_INVALID", "ApprovalInvalidError", 409, False, "WARNING"),
    ("APPROVAL_REFUSED", "ApprovalRefusedError", 403, False, "WARNING"),
    ("APPROVAL_REQUIRED", "ApprovalRequiredError", 403, False, "WARNING"),
    ("BUDGET_SPENT", "BudgetSpentError", 429, True, "WARNING"),
    ("ANSWER_NOT_FOUND", "AnswerNotFoundError", 404, False, "WARNING"),
    ("TOOL_NOT_FOUND", "ToolNotFoundError", 404, False, "WARNING"),
    ("UPSTREAM_INVALID_RESPONSE", "UpstreamInvalidResponseError", 502, False, "ERROR"),
    ("UPSTREAM_SIGN_IN", "UpstreamSignInError", 503, False, "WARNING"),
    ("UPSTREAM_STARTING", "UpstreamStartingError", 503, True, "WARNING"),
    ("UPSTREAM_TLS", "UpstreamTlsError", 502, False, "ERROR"),
    ("UPSTREAM_UNAVAILABLE", "UpstreamUnavailableError", 502, True, "ERROR"),
    ("UPSTREAM_VALIDATION", "UpstreamValidationError", 422, False, "WARNING"),
    ("VALIDATION_ERROR", "ValidationError", 400, False, "WARNING"),
]


@pytest.mark.parametrize(("code", "name", "status", "retryable", "level"), TABLE, ids=[row[0] for row in TABLE])
def test_every_code_has_its_class_status_and_level(
    code: str, name: str, status: int, retryable: bool, level: str
) -> None:
    error = {kind.__name__: kind for kind in all_errors()}[name]
    found = (error.code, error.status, error.retryable, logging.getLevelName(error.log_level))
    assert found == (code, status, retryable, level)


def test_the_table_holds_every_error_there_is() -> None:
    known = {code for code, *_ in TABLE}
    assert known == {error.code for error in all_errors()}
    assert len({error.code for error in all_errors()}) == len(all_errors())


def test_every_error_says_when_it_is_raised() -> None:
    assert all(error.__doc__ for error in all_errors())


TELL_AN_OPERATOR = "Tell an operator the errorId: the error log has the cause."

# How an error is made, and what of it travels besides its code and whether it can pass.
# Made when the test runs and not before, so that a fault in the making is a failure of the test.
MADE: list[tuple[Callable[[], ToolError], dict[str, Any]]] = [
    (
        lambda: ToolNotFoundError.named("nope"),
        {"error": "Tool not found: nope", "nextStep": "List the tools to see which names exist."},
    ),
    (
        lambda: ToolDisabledError.named("echo", "not configured: N8N_URL", "Ask an operator."),
        {
            "error": "Tool is disabled: echo",
            "context": {"reason": "not configured: N8N_URL"},
            "nextStep": "Ask an operator.",
        },
    ),
    (
        lambda: AuthorizationError.lacking("tools:execute"),
        {
            "error": "Permission denied: requires scope tools:execute",
            "context": {"requiredScope": "tools:execute"},
            "nextStep": "Ask an administrator of this hub for a key with that scope.",
        },
    ),
    (
        lambda: CircuitOpenError.of("n8n", 12.6, 47.44),
        {
            "error": "n8n keeps failing; calls to it are suspended (circuit open)",
            "context": {"upstream": "n8n", "sinceSeconds": 13},
            "nextStep": "Try again after `retryAfter` seconds; the error log shows operators what fails.",
            "retryAfter": 47.4,
        },
    ),
    (
        lambda: OverloadedError.of("n8n", 8, 16),
        {
            "error": "Too many concurrent calls to n8n",
            "context": {"upstream": "n8n", "running": 8, "waiting": 16},
            "nextStep": "Call again in a moment, with fewer concurrent calls.",
            "retryAfter": 1,
        },
    ),
    (
        lambda: ToolTimeoutError.after(30_000, writes=False),
        {"error": "Execution timeout after 30000ms", "nextStep": "Call again, if needed with a longer timeout."},
    ),
    (
        lambda: ToolTimeoutError.after(100, writes=True),
        {
            "error": "Execution timeout after 100ms",
            "outcomeUnknown": True,
            "nextStep": "The outcome is unknown: check whether the change was made before calling again.",
        },
    ),
    (
        lambda: ToolTimeoutError.after(1_000, writes=False, limited_by="an operator"),
        {
            "error": "Execution timeout after 1000ms",
            "nextStep": "Call again with less to do: an operator allows at most 1000 ms.",
        },
    ),
    (
        lambda: ToolExecutionError.of("echo", ValueError("inside")),
        {"error": "Tool execution failed: echo", "nextStep": TELL_AN_OPERATOR},
    ),
    (
        lambda: ToolExecutionError.of("echo", ValueError("x"), "ValueError: x"),
        {"error": "Tool execution failed: echo: ValueError: x", "nextStep": TELL_AN_OPERATOR},
    ),
    (lambda: ApiError("Busy", retry_after=2.5), {"error": "Busy", "retryAfter": 2.5}),
    (
        AuthenticationError,
        {
            "error": "Authentication required",
            "nextStep": "Send a key as `Authorization: Bearer <key>` or `X-API-Key: <key>`.",
        },
    ),
    (RateLimitError, {"error": "Rate limit exceeded"}),
    (ShuttingDownError, {"error": "The hub is shutting down", "nextStep": "Call again in a moment."}),
    (
        StorageBusyError,
        {
            "error": "The hub's database cannot be used right now",
            "nextStep": "Call again in a moment; if this continues, an operator should run `toolhub doctor`.",
        },
    ),
    (
        lambda: ShuttingDownError.amid(writes=False),
        {
            "error": "The hub is shutting down; the call was interrupted",
            "nextStep": "Call again in a moment.",
        },
    ),
    (
        lambda: ShuttingDownError.amid(writes=True),
        {
            "error": "The hub is shutting down; the call was interrupted",
            "outcomeUnknown": True,
            "nextStep": "The outcome is unknown: check whether the change was made before calling again.",
        },
    ),
    (
        OverloadedError.by_bodies,
        {
            "error": "The hub is receiving as much data as it can hold",
            "nextStep": "Retry in a moment, with fewer or smaller requests at once.",
            "retryAfter": 1,
        },
    ),
    (
        lambda: AuthorizationError.beyond("drop_table", "destroy"),
        {
            "error": "Permission denied: drop_table can destroy, and you may not use tools that do",
            "context": {"tool": "drop_table", "requires": "destroy"},
            "nextStep": "Ask an administrator of this hub for access to tools that destroy.",
        },
    ),
    (InternalError, {"error": "Internal server error", "nextStep": TELL_AN_OPERATOR}),
    (
        IdempotencyInProgressError,
        {
            "error": "A call with this Idempotency-Key is still running",
            "nextStep": "Wait, then send the same request again to get the answer of the first.",
            "retryAfter": 1,
        },
    ),
    (
        IdempotencyMismatchError,
        {
            "error": "This Idempotency-Key was used for a different request",
            "nextStep": "Use a new key for every new request.",
        },
    ),
    (
        lambda: DefinitionChangedError.of("echo"),
        {
            "error": "The definition of echo has changed; the call was not run",
            "nextStep": "List the tools again, and call it as its new definition says.",
        },
    ),
    (
        lambda: DefinitionChangedError.held("echo"),
        {
            "error": "The definition of echo has changed, and no operator has approved the new version",
            "nextStep": "Ask an operator of this hub: it is listed among the approvals in the admin.",
        },
    ),
    (
        lambda: DefinitionChangedError.outdated("echo"),
        {
            "error": "This process has loaded another version of echo than the recorded one",
            "nextStep": "Ask an operator of this hub to restart this process.",
        },
    ),
    (
        lambda: OutcomeUnknownError.of("c1"),
        {
            "error": "The call with this Idempotency-Key was interrupted, and its outcome is unknown",
            "context": {"callId": "c1"},
            "nextStep": "Check whether the change was made; if it was not, call again with a new key.",
        },
    ),
    (
        lambda: ToolNotFoundError.through("call_tool", "ecko", ["echo", "echo_all"]),
        {
            "error": "Tool not found: ecko",
            "context": {"through": "call_tool", "similar": ["echo", "echo_all"]},
            "nextStep": "Did you mean echo or echo_all? Find tools with search_tools.",
        },
    ),
    (
        lambda: ToolNotFoundError.through("call_tool", "nope", []),
        {
            "error": "Tool not found: nope",
            "context": {"through": "call_tool", "similar": []},
            "nextStep": "Find tools with search_tools.",
        },
    ),
    (
        lambda: RateLimitError.by_bodies(1_024),
        {
            "error": "Too many bytes at once: the request bodies of one caller are limited to 1,024 bytes at a time",
            "context": {"limit": 1_024},
            "nextStep": "Retry in a moment, with fewer or smaller requests at once.",
            "retryAfter": 1,
        },
    ),
    *(
        (
            lambda capability=capability: InputRequiredError.nobody_can(capability),
            {
                "error": f"The tool needs a client that can {ability} ({capability}), and this one cannot",
                "context": {"capability": capability},
                "nextStep": "Call it from an MCP client that supports this.",
            },
        )
        for capability, ability in (
            ("elicitation", "ask its user"),
            ("sampling", "ask its model"),
            ("roots", "list its roots"),
        )
    ),
    (
        lambda: InputRequiredError.unanswered("the client has left"),
        {
            "error": "The tool asked a question and got no answer: the client has left",
            "nextStep": "Call again.",
        },
    ),
    (
        lambda: AnswerNotFoundError.of("a1"),
        {
            "error": "Answer not found: a1",
            "nextStep": "Call the tool that gave the answer again: the new outline has a new id.",
        },
    ),
    (
        lambda: AnswerNotFoundError.expired("a1"),
        {
            "error": "Answer expired: a1",
            "nextStep": "Call the tool that gave the answer again: the new outline has a new id.",
        },
    ),
    (
        lambda: StoppedError.because("stopped since noon: moving house"),
        {
            "error": "Stopped since noon: moving house",
            "nextStep": "Do not repeat the call: ask an operator of this hub, who can remove the stop.",
        },
    ),
    (
        lambda: MaintenanceError.because("the hub is in maintenance since noon", 60),
        {
            "error": "The hub is in maintenance since noon",
            "nextStep": "Call again after `retryAfter` seconds; tools that only read can be called meanwhile.",
            "retryAfter": 60,
        },
    ),
    (
        lambda: ApprovalRequiredError.of("drop", "ap_1", "2026-11-19T12:00:00Z"),
        {
            "error": "Approval required: an operator must approve this call of drop",
            "context": {"approvalId": "ap_1", "expiresAt": "2026-11-19T12:00:00Z"},
            "nextStep": "Ask an operator of this hub to approve ap_1 (Approvals in the admin) before "
            "2026-11-19T12:00:00Z. Then repeat exactly this call, with approval id ap_1 if you can send it.",
        },
    ),
    (
        lambda: ApprovalRefusedError.of("drop", "ap_1", "not today"),
        {
            "error": "An operator refused this call of drop",
            "context": {"approvalId": "ap_1", "reason": "not today"},
            "nextStep": "Do not repeat this call: continue without it, or ask the operators of this hub.",
        },
    ),
    (
        lambda: ApprovalRefusedError.of("drop", "ap_1", ""),
        {
            "error": "An operator refused this call of drop",
            "context": {"approvalId": "ap_1", "reason": "no reason given"},
            "nextStep": "Do not repeat this call: continue without it, or ask the operators of this hub.",
        },
    ),
    (
        lambda: ApprovalInvalidError.because("it has expired"),
        {
            "error": "The approval is not valid: it has expired",
            "nextStep": "Make the call without an approval id: it will ask for a new approval.",
        },
    ),
    (
        lambda: ReplyGoneError.of("c1", "ok"),
        {
            "error": "The call with this Idempotency-Key has ended (ok), and its answer is no longer stored",
            "context": {"callId": "c1", "status": "ok"},
            "nextStep": "The call is not run again under this key. To run it again, send a new key.",
        },
    ),
    (
        lambda: ReplyGoneError.of("c1", ""),
        {
            "error": "The call with this Idempotency-Key has ended, and its answer is no longer stored",
            "context": {"callId": "c1"},
            "nextStep": "The call is not run again under this key. To run it again, send a new key.",
        },
    ),
    (
        lambda: ContractBrokenError.of("count", "three of them", ["/n: 3, not 4", "/m: missing"]),
        {
            "error": "count no longer returns the result of its example 'three of them'",
            "context": {"operation": "three of them"},
            "nextStep": "Fix the tool, or correct the example if the upstream has changed permanently.",
        },
    ),
    (
        lambda: Refusal("switched off", "Ask an operator.").error("echo"),
        {"error": "Tool is disabled: echo", "context": {"reason": "switched off"}, "nextStep": "Ask an operator."},
    ),
    (
        lambda: Refusal("stopped since noon", "Wait.", stopped=True).error("echo"),
        {
            "error": "Stopped since noon",
            "nextStep": "Do not repeat the call: ask an operator of this hub, who can remove the stop.",
        },
    ),
]


@pytest.mark.parametrize(("make", "told"), MADE, ids=[str(number) for number in range(len(MADE))])
def test_what_travels_of_an_error_is_the_documents_words(make: Callable[[], ToolError], told: dict[str, Any]) -> None:
    error = make()
    assert error.as_dict() == {"code": error.code, "retryable": error.retryable, **told}
    assert (error.message, str(error)) == (told["error"], told["error"])


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.code)
def test_every_error_keeps_what_it_is_given(kind: type[ToolError]) -> None:
    cause = ValueError("inside")
    error = kind("Nope", detail=cause, next_step="Wait.")
    assert (error.message, str(error), error.next_step) == ("Nope", "Nope", "Wait.")
    assert error.detail is cause


def test_a_failed_execution_keeps_its_cause_for_the_log() -> None:
    cause = ValueError("inside")
    assert ToolExecutionError.of("echo", cause).detail is cause


def test_a_new_error_belongs_to_no_call_yet() -> None:
    error = ToolError("Nope")
    assert (error.error_id, error.call_id, error.duration_ms) == (None, None, None)
    assert error.replayed is False


def test_the_faults_of_a_broken_contract_are_for_the_log() -> None:
    error = ContractBrokenError.of("count", "x" * 100, ["/n: 3, not 4", "/m: missing"])
    assert error.detail == "/n: 3, not 4\n/m: missing"
    assert error.context["operation"] == shortened("x" * 100, 80)
    assert shortened("x" * 100, 80) in error.message


def test_a_question_without_answer_keeps_the_cause_for_the_log() -> None:
    cause = ValueError("inside")
    assert InputRequiredError.unanswered("x", cause).detail is cause


def test_a_network_failure_of_a_tool_can_pass() -> None:
    error = ToolExecutionError.of("echo", OSError("inside")).by_network()
    assert (error.retryable, error.blames_upstream) == (True, True)
    assert error.next_step == f"Try again later: a network connection of the tool failed. {TELL_AN_OPERATOR}"


@pytest.mark.parametrize("retryable", [True, False])
def test_a_tool_that_may_be_repeated_can_be_retried_as_before(retryable: bool) -> None:
    error = ToolError("Nope", next_step="Wait.")
    error.retryable = retryable
    error.allow_repeat()
    assert (error.retryable, error.outcome_unknown, error.next_step) == (retryable, False, "Wait.")
    error.leave_outcome_open()
    error.next_step += " Look."
    error.allow_repeat()
    before = "The outcome is unknown: check whether the change was made before calling again."
    after = "Call again: this tool may be repeated." if retryable else before
    assert (error.retryable, error.outcome_unknown) == (retryable, not retryable)
    assert error.next_step == f"{after} Look."


def test_an_unknown_outcome_of_an_unknown_call_names_none() -> None:
    assert OutcomeUnknownError.of("").context == {}


def of_a_call(error: ToolError) -> ToolError:
    error.error_id, error.call_id, error.duration_ms = "e1", "c1", 12
    return error


def test_an_error_that_was_kept_as_json_says_the_same_when_it_is_restored() -> None:
    problems = [Problem("/a", "wrong", "right"), Problem("/b", "Unknown parameter: b")]
    passing = ApiError("Busy", context={"operation": "get", "statusCode": 503}, detail="secret-body")
    for error in [*(make() for make, _ in MADE), InvalidArgumentsError(problems=problems), passing]:
        back = restored(json.loads(json.dumps(of_a_call(error).kept())))
        assert isinstance(error, type(back))
        assert (back.as_dict(), str(back)) == (error.as_dict(), str(error))
        assert (back.call_id, back.duration_ms, back.detail) == ("c1", 12, None)


DOCUMENTED: list[tuple[str, tuple[Any, ...], str, int]] = [
    # name, arguments by position, code, status
    ("MCPError", ("m", "OUT_OF_TEA", 418), "OUT_OF_TEA", 418),
    ("MCPError", ("m", "OUT_OF_TEA"), "OUT_OF_TEA", 500),
    ("ToolNotFoundError", ("m",), "TOOL_NOT_FOUND", 404),
    ("ToolDisabledError", ("m",), "TOOL_DISABLED", 403),
    ("ToolExecutionError", ("m", ValueError("inside")), "TOOL_EXECUTION_ERROR", 500),
    ("ValidationError", ("m", "name"), "VALIDATION_ERROR", 400),
    ("ValidationError", ("m", {"field": "name", "expectedType": "string"}), "VALIDATION_ERROR", 400),
    ("TimeoutError", ("m",), "TIMEOUT", 408),
    ("AuthenticationError", ("m",), "AUTHENTICATION_ERROR", 401),
    ("AuthorizationError", ("m",), "AUTHORIZATION_ERROR", 403),
    ("RateLimitError", ("m", 30), "RATE_LIMIT_EXCEEDED", 429),
    ("MCPServerError", ("m",), "MCP_SERVER_ERROR", 502),
    ("ApiError", ("m", 400), "API_ERROR", 502),
    ("ApiError", ("m", 400, {"operation": "update workflow", "errorDetails": "no"}), "API_ERROR", 502),
    ("NotFoundError", ("m", {"operation": "o", "resourceType": "t", "resourceId": "i"}), "NOT_FOUND", 404),
]


@pytest.mark.parametrize(("name", "arguments", "code", "status"), DOCUMENTED, ids=range(len(DOCUMENTED)))
def test_the_documents_errors_are_made_as_they_make_them(
    name: str, arguments: tuple[Any, ...], code: str, status: int
) -> None:
    error = getattr(toolhub, name)(*arguments)
    assert isinstance(error, toolhub.MCPError)
    assert (error.message, error.code, error.status) == ("m", code, status)
    again = restored(json.loads(json.dumps(error.kept())))
    assert (again.as_dict(), again.code, again.status) == (error.as_dict(), code, status)


def test_what_they_are_given_by_position_is_where_the_hub_looks_for_it() -> None:
    cause = ValueError("inside")
    assert ToolExecutionError("m", cause).detail is cause
    assert RateLimitError("m", 30).as_dict()["retryAfter"] == 30
    assert ValidationError("m", "name").context == {"field": "name"}
    assert ApiError("m", 503).context == {"statusCode": 503}
    assert ApiError("m", 503).retryable
    details = {"operation": "update workflow", "errorDetails": "no"}
    assert ApiError("m", 400, details).context == {**details, "statusCode": 400}


@pytest.mark.parametrize("arguments", [("m", "out of tea"), ("m", "A" * 41), ("m", "TEA", 200), ("m", "TEA", 600)])
def test_a_code_or_status_that_is_none_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"must (look like MY_CODE|be an HTTP error status)"):
        ToolError(*arguments)


def test_the_documents_names_do_not_hide_pythons_own() -> None:
    import builtins

    assert errors.__dict__.get("TimeoutError") is None
    assert toolhub.TimeoutError is ToolTimeoutError
    assert not issubclass(toolhub.TimeoutError, builtins.TimeoutError)


def test_a_kept_error_of_a_kind_that_is_gone_is_a_failed_execution() -> None:
    back = restored({**ToolError("Nope", next_step="Wait.").kept(), "code": "LONG_GONE"})
    assert type(back) is ToolExecutionError
    assert (back.message, back.next_step) == ("Nope", "Wait.")


def test_another_call_with_the_same_error_gets_a_copy_without_a_call_id() -> None:
    error = of_a_call(RateLimitError(retry_after=3))
    again = error.again()
    assert again is not error
    assert again.as_dict() == error.as_dict()
    assert (again.call_id, again.duration_ms) == (None, None)


def test_a_plain_error_has_three_fields() -> None:
    assert ToolError("Nope").as_dict() == {"error": "Nope", "code": "TOOL_ERROR", "retryable": False}


def test_a_full_error_has_camel_case_fields() -> None:
    error = RateLimitError(context={"limit": 60}, next_step="Wait.", retry_after=1.5)
    error.error_id = "e1"
    assert error.as_dict() == {
        "error": "Rate limit exceeded",
        "code": "RATE_LIMIT_EXCEEDED",
        "retryable": True,
        "context": {"limit": 60},
        "nextStep": "Wait.",
        "retryAfter": 1.5,
        "errorId": "e1",
    }


def test_a_retry_after_of_zero_is_included() -> None:
    assert RateLimitError(retry_after=0).as_dict()["retryAfter"] == 0


def test_the_first_problem_is_the_message_and_all_are_details() -> None:
    problems = [Problem("/a", "Required parameter missing: a", "a value"), Problem("/b", "Unknown parameter: b")]
    assert InvalidArgumentsError(problems=problems).as_dict() == {
        "error": "Required parameter missing: a",
        "code": "VALIDATION_ERROR",
        "retryable": False,
        "details": [
            {"path": "/a", "message": "Required parameter missing: a", "expected": "a value"},
            {"path": "/b", "message": "Unknown parameter: b"},
        ],
        "nextStep": "Correct the arguments and call again; the tool's input schema says what it takes.",
    }


def test_a_message_of_its_own_wins_over_the_first_problem() -> None:
    error = ValidationError("Validation failed", problems=[Problem("/a", "wrong")])
    assert error.as_dict()["error"] == "Validation failed"


@pytest.mark.parametrize(
    ("error", "context", "lacking"),
    [
        (ApiError, {"statusCode": 500}, "operation"),
        (ApiError, {}, "operation"),
        (NotFoundError, {"operation": "get workflow", "resourceType": "Workflow"}, "resourceId"),
        (NotFoundError, {"operation": "x", "resourceType": None, "resourceId": None}, "resourceId, resourceType"),
        (UpstreamValidationError, {"expectedType": "string"}, "field"),
        (ValidationError, {"constraint": "required"}, "field"),
    ],
)
def test_a_context_without_its_required_keys_cannot_be_made(
    error: type[ToolError], context: dict[str, Any], lacking: str
) -> None:
    with pytest.raises(TypeError, match=f"^{error.__name__} context lacks {lacking}$"):
        error("x", context=context)


@pytest.mark.parametrize(
    ("error", "context", "unknown"),
    [
        (ApiError, {"operation": "update workflow", "stack": "…", "body": "…"}, "body, stack"),
        (NotFoundError, {"operation": "x", "resourceType": "y", "resourceId": "z", "body": "…"}, "body"),
        (UpstreamValidationError, {"field": "name", "value": "secret"}, "value"),
        (ValidationError, {"field": "name", "received": "secret"}, "received"),
    ],
)
def test_a_context_cannot_carry_what_is_not_meant_to_leave(
    error: type[ToolError], context: dict[str, Any], unknown: str
) -> None:
    with pytest.raises(TypeError, match=f"^{error.__name__} context has unknown keys: {unknown}$"):
        error("x", context=context)


def test_typed_contexts_hold_the_documents_keys() -> None:
    context = {"operation": "update workflow", "resourceType": "workflow", "resourceId": "abc", "statusCode": 400}
    error = ApiError("Failed to update workflow", context={**context, "errorDetails": None})
    assert error.as_dict()["context"] == context


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (409, False), (429, True), (500, False), (502, True), (503, True), (504, True)],
)
def test_whether_an_upstreams_error_can_pass_depends_on_its_status(status: int, retryable: bool) -> None:
    error = ApiError("x", context={"operation": "y", "statusCode": status})
    assert error.retryable is retryable
    assert error.as_dict()["retryable"] is retryable
    assert ApiError.retryable is False


def test_an_upstreams_error_without_a_status_does_not_pass() -> None:
    assert ApiError("x").retryable is False


@pytest.mark.parametrize(
    ("status", "blamed"),
    [(400, False), (404, False), (429, False), (499, False), (500, True), (503, True), (None, True)],
)
def test_an_upstream_that_answers_for_itself_is_not_to_blame(status: int | None, blamed: bool) -> None:
    assert ApiError("x", context={"operation": "y", "statusCode": status}).blames_upstream is blamed


def test_only_errors_of_an_upstream_and_timeouts_blame_it() -> None:
    assert {error.code for error in all_errors() if error.blames_upstream} == {
        *(
            "API_ERROR",
            "MCP_SERVER_ERROR",
            "TIMEOUT",
            "UPSTREAM_INVALID_RESPONSE",
            "UPSTREAM_TLS",
            "UPSTREAM_UNAVAILABLE",
        ),
    }


@pytest.mark.parametrize("value", ["text", 5, None, ValueError("boom"), ["a"]], ids=repr)
def test_a_message_of_any_type_becomes_text(value: Any) -> None:
    expected = "" if value is None else str(value)
    assert ToolError(value).as_dict()["error"] == expected


def failures_with_everything_inside() -> list[ToolError]:
    """One of each, raised where a stack is long, with the exception and an upstream's body as its detail."""
    made: list[ToolError] = []
    contexts: dict[str, Any] = {
        "ApiError": {"operation": "get", "statusCode": 500},
        "NotFoundError": {"operation": "get", "resourceType": "Workflow", "resourceId": "1"},
    }
    for kind in all_errors():
        try:
            try:
                json.loads("{")
            except ValueError as cause:
                context = contexts.get(kind.__name__)
                raise kind("Failed to get workflow", detail=f"{cause!r} secret-body", context=context) from cause
        except ToolError as error:
            error.detail = error if len(made) % 2 else error.detail
            made.append(error)
    return made


@pytest.mark.parametrize("error", failures_with_everything_inside(), ids=lambda error: error.code)
def test_no_wire_form_holds_a_stack_or_a_detail(error: ToolError) -> None:
    wire = json.dumps(error.as_dict())
    assert not re.search(r'Traceback|File \\?"|at .*\(.*:\d+|secret-body|JSONDecodeError|test_errors', wire)


def test_a_copy_of_an_error_says_the_same() -> None:
    error = InvalidArgumentsError(problems=[Problem("/a", "wrong", "right")])
    error.error_id = "e1"
    assert copy.copy(error).as_dict() == error.as_dict()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo", "echo"),
        ("日本語 ok", "日本語 ok"),
        ("a\nb\rc", "a�b�c"),
        ("\x1b[31mred", "�[31mred"),
        ("a\u202eb\u2028c\ud800", "a�b�c�"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
    ],
)
def test_names_from_outside_are_quoted_on_one_short_printable_line(text: str, shown: str) -> None:
    assert shortened(text) == shown


def test_an_unknown_tools_name_cannot_break_the_message() -> None:
    message = ToolNotFoundError.named("a\r\nX-Evil: 1" + "b" * 500).message
    assert message.isprintable()
    assert len(message) < 130
