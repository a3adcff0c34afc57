"""What the log says of calls: operators find a reported call by it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.tools import Hub, Programmable
from tools_app import engine
from tools_app.base.logs import MOST_BYTES, ConsoleFormatter, JsonFormatter
from tools_app.models import Call, ErrorLog
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import ApiError, NotFoundError, ToolError, UpstreamUnavailableError
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError

Line = dict[str, Any]


def call(name: str, arguments: Any, caller: Caller, **options: Any) -> engine.Result:
    return engine.call_sync(name, arguments, caller, door="code", options=engine.Options(**options))


@pytest.fixture
def failing(
    hub: Hub, programmable: Programmable, alice: Caller, caplog: pytest.LogCaptureFixture
) -> Callable[[Any], tuple[ToolError, Line, str]]:
    """Has a call end with an error: what the caller is told, and the log's line of it as JSON and for the console."""

    def fail(outcome: Any, **arguments: Any) -> tuple[ToolError, Line, str]:
        programmable.outcomes = [outcome]
        with caplog.at_level(logging.INFO, "tools_app"), pytest.raises(ToolError) as caught:
            call("programmable", arguments, alice)
        (record,) = [each for each in caplog.records if "Error: " in each.getMessage()]
        return caught.value, json.loads(JsonFormatter().format(record)), ConsoleFormatter().format(record)

    return fail


def refusal() -> ApiError:
    context = {"operation": "update workflow", "statusCode": 400, "errorDetails": "Field 'settings' is required"}
    return ApiError(
        "Failed to update workflow", context=context, detail="PUT https://n8n.test/workflows/1?text=private"
    )


Fail = Callable[..., tuple[ToolError, Line, str]]


@pytest.mark.parametrize("outcome", [refusal(), RuntimeError("boom")], ids=["foreseen", "unforeseen"])
def test_a_failure_is_found_by_the_ids_that_its_caller_is_told(failing: Fail, outcome: Exception) -> None:
    error, line, console = failing(outcome)
    assert error.error_id
    assert error.call_id
    assert (line["error_id"], line["call_id"]) == (error.error_id, error.call_id)
    assert error.error_id in console
    assert error.call_id in console
    assert ErrorLog.objects.get().id == error.error_id


def test_a_typed_failure_is_told_with_status_and_context(failing: Fail) -> None:
    _, line, console = failing(refusal())
    assert line["message"] == "[programmable] Error: API_ERROR Failed to update workflow"
    assert (line["status"], line["context"]["statusCode"]) == (502, 400)
    assert line["context"]["errorDetails"] == "Field 'settings' is required"
    assert "Field 'settings' is required" in console
    assert len(console.splitlines()) == 1


def test_a_typed_failure_is_told_with_what_caused_it(failing: Fail) -> None:
    outcome = UpstreamUnavailableError("Network error: n8n refuses connections")
    outcome.__cause__ = ApiError("All attempts failed", context={"operation": "connect", "statusCode": 503})
    outcome.__cause__.__cause__ = ConnectionRefusedError(111, "Connection refused\nforged password=hunter2-Xy9")
    _, line, console = failing(outcome)
    assert line["cause"] == (
        'ApiError: All attempts failed {"operation":"connect","statusCode":503} < '
        "ConnectionRefusedError: [Errno 111] Connection refused\nforged password=***"
    )
    assert len(console.splitlines()) == 1
    assert "hunter2" not in console


def test_a_detail_that_is_an_exception_is_a_cause(failing: Fail) -> None:
    _, line, _ = failing(ApiError("Refused", detail=TimeoutError("slow"), context={"operation": "read"}))
    assert line["cause"] == "TimeoutError: slow"


def test_causes_that_go_round_or_on_and_on_end(failing: Fail) -> None:
    outcome = ApiError("Refused", context={"operation": "read"})
    causes = [ValueError("x" * 10_000) for _ in range(50)]
    for one, another in zip([outcome, *causes], [*causes, causes[0]], strict=True):
        one.__cause__ = another
    _, line, _ = failing(outcome)
    assert line["cause"].startswith("ValueError: xxx")
    assert len(line["cause"]) < MOST_BYTES // 2


def test_neither_arguments_nor_what_an_upstream_answered_is_told(failing: Fail) -> None:
    _, line, console = failing(refusal(), text="very-private")
    assert "very-private" not in console
    assert "n8n.test" not in json.dumps(line)


def test_a_refusal_is_found_by_the_id_that_its_caller_is_told(
    hub: Hub, alice: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    for _ in range(3):  # the second is counted in the row of the first
        with pytest.raises(ToolError) as caught:
            call("echo", {}, alice)
        told.append(caught.value.call_id)
    lines = [json.loads(JsonFormatter().format(each)) for each in caplog.records if "Error: " in each.getMessage()]
    assert [line["call_id"] for line in lines] == told
    assert set(told) == set(Call.objects.values_list("id", flat=True))


def test_a_dry_run_that_fails_is_in_the_log(hub: Hub, alice: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ToolError):
        call("echo", {}, alice, dry_run=True)
    (record,) = [each for each in caplog.records if "Error: " in each.getMessage()]
    assert record.getMessage() == "[echo] Error: VALIDATION_ERROR Required parameter missing: message"


def test_a_failure_that_is_told_again_has_the_first_one_s_id(
    hub: Hub, programmable: Programmable, alice: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    programmable.outcomes = [NotFoundError("Gone", context=dict.fromkeys(NotFoundError.required_context, "x"))]
    told = []
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            call("programmable", {}, alice, idempotency_key="k")
        told.append(caught.value.error_id)
    lines = [json.loads(JsonFormatter().format(each)) for each in caplog.records if "Error: " in each.getMessage()]
    assert told[0] == told[1]
    assert [line["error_id"] for line in lines] == told


# ---- what a tool has the log say


@pytest.fixture
def searching(hub: Hub) -> None:
    @tool(hints=Hints(read_only=True), logged=("query",))
    async def seek(ctx: Context, query: str, private: str = "") -> str:
        """Look for something."""
        ctx.note(results=3, name="a name that Python's logging has, too")
        return "found"

    hub.add(seek)


def lines_of(caplog: pytest.LogCaptureFixture) -> dict[str, Line]:
    return {record.getMessage(): json.loads(JsonFormatter().format(record)) for record in caplog.records}


def test_the_log_names_what_the_tool_declares_and_notes(
    searching: None, alice: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tools_app"):
        call("seek", {"query": "rust", "private": "diary"}, alice)
    lines = lines_of(caplog)
    assert (lines["Tool invoked"]["tool"], lines["Tool invoked"]["query"]) == ("seek", "rust")
    completed = lines["Tool completed"]
    assert (completed["tool"], completed["query"], completed["results"]) == ("seek", "rust", 3)
    assert completed["name_"] == "a name that Python's logging has, too"
    assert "diary" not in caplog.text + json.dumps(lines)


def test_it_names_no_argument_where_none_may_be_kept(
    searching: None, alice: Caller, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.TOOLHUB_PAYLOADS = "none"
    with caplog.at_level(logging.INFO, "tools_app"):
        call("seek", {"query": "rust"}, alice)
    assert "rust" not in json.dumps(lines_of(caplog))
    assert lines_of(caplog)["Tool completed"]["results"] == 3


@pytest.mark.parametrize("query", ["", " \n\u3000", "\u200b"])
def test_an_empty_argument_that_it_would_name_is_a_warning(
    searching: None, alice: Caller, caplog: pytest.LogCaptureFixture, query: str
) -> None:
    call("seek", {"query": query}, alice)
    (record,) = [each for each in caplog.records if each.getMessage() == "Empty query received"]
    assert record.levelname == "WARNING"


def test_refuses_to_log_a_parameter_that_is_not_there() -> None:
    with pytest.raises(DefinitionError, match="logged names 'word', which is not one of its parameters"):

        @tool(logged=["word"])
        def seek(query: str) -> str:
            """Look for something."""
            return query
