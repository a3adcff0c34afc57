"""The one path of every call."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from datetime import date
from typing import Any

import pytest
from django.db import transaction
from pydantic import BaseModel

from tests.support.tools import Hub, Programmable, blocking_tool, eventually
from tools_app import engine, governance
from tools_app.base import hub as hubs
from tools_app.engine.process import Engine
from tools_app.models import Call, ErrorGroup, ErrorLog
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import (
    ApiError,
    AuthorizationError,
    InternalError,
    InvalidArgumentsError,
    NotFoundError,
    ToolDisabledError,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import ShuttingDownError
from tools_app.sdk.questions import NO_CLIENT
from tools_app.sdk.tool import Tool


def call(name: str, arguments: Any, caller: Caller, **options: Any) -> engine.Result:
    return engine.call_sync(name, arguments, caller, door="code", options=engine.Options(**options))


def test_answers_with_what_the_tool_returned(hub: Hub, alice: Caller) -> None:
    result = call("echo", {"message": "hi"}, alice)
    assert result.answer.value == {"message": "hi"}
    assert result.answer.text == '{"message":"hi"}'
    assert result.duration_ms >= 0


def test_writes_every_call_down_before_it_answers(hub: Hub, alice: Caller) -> None:
    result = call("echo", {"message": "hi"}, alice)
    row = Call.objects.get()
    assert row.id == result.call_id
    assert (row.tool_name, row.tool_version, row.status, row.code) == ("echo", "1.0.0", "succeeded", "")
    assert (row.caller_kind, row.caller_id, row.caller_name, row.door) == ("key", "key:1", "alice", "code")
    assert json.loads(row.arguments) == {"message": "hi"}
    assert row.definition_hash == hub.entry("echo").definition_hash
    assert row.result_bytes == len(b'{"message":"hi"}')
    assert row.finished_at is not None
    assert row.finished_at >= row.started_at


def test_finds_a_tool_by_either_spelling_and_by_its_alias(hub: Hub, alice: Caller) -> None:
    hub.add(Programmable("get_issue", aliases=["show_issue"]).tool)
    for name in ("get_issue", "get-issue", "show_issue", "show-issue"):
        assert call(name, {}, alice).entry.name == "get_issue"


@pytest.mark.parametrize("name", ["nope", "", "a" * 5000, "Echo", "../echo", "echo\n", "echo\x00"])
def test_refuses_a_tool_that_does_not_exist(hub: Hub, alice: Caller, name: str) -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        call(name, {}, alice)
    assert caught.value.message.startswith("Tool not found: ")
    assert len(caught.value.message) < 150
    assert Call.objects.get().status == "refused"


def test_refuses_a_tool_that_is_switched_off_without_running_it(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))
    with pytest.raises(ToolDisabledError) as caught:
        call("programmable", {}, alice)
    assert caught.value.message == "Tool is disabled: programmable"
    assert caught.value.context["reason"] == "switched off by an operator"
    assert programmable.calls == []
    assert Call.objects.get().code == "TOOL_DISABLED"


def test_refuses_a_caller_without_the_scope(hub: Hub, programmable: Programmable, charlie: Caller) -> None:
    with pytest.raises(AuthorizationError, match="requires scope tools:execute"):
        call("programmable", {}, charlie)
    assert programmable.calls == []


def test_names_everything_that_is_wrong_with_the_arguments(hub: Hub, alice: Caller) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        call("calculate", {"operation": "power", "a": "1", "c": 3}, alice)
    assert caught.value.message == "Required parameter missing: b"
    assert {problem.path for problem in caught.value.details} == {"/b", "/operation", "/a", "/c"}
    assert Call.objects.get().status == "refused"
    assert not ErrorLog.objects.exists()


@pytest.mark.parametrize("arguments", [[], "x", 3, [("message", "hi")]])
def test_refuses_arguments_that_are_no_object(hub: Hub, alice: Caller, arguments: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="expected object"):
        call("echo", arguments, alice)


def test_refuses_arguments_nested_too_deeply(hub: Hub, alice: Caller) -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]

    async def take(anything: list[Any]) -> str:
        """Take anything."""
        return "taken"

    hub.add(tool(hints=Hints(read_only=True))(take))
    with pytest.raises(InvalidArgumentsError, match="nested deeper than 64 levels"):
        call("take", {"anything": deep}, alice)


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1"])
def test_refuses_what_is_no_number(hub: Hub, alice: Caller, value: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="Invalid type for parameter a: expected number"):
        call("calculate", {"operation": "add", "a": value, "b": 1}, alice)


def test_hands_over_values_of_the_annotated_types(hub: Hub, alice: Caller) -> None:
    seen: list[Any] = []

    async def remember(day: date, times: int = 2) -> str:
        """Remember a day."""
        seen.extend([day, times])
        return "ok"

    hub.add(tool(hints=Hints(read_only=True))(remember))
    call("remember", {"day": "2026-02-28"}, alice)
    assert seen == [date(2026, 2, 28), 2]
    with pytest.raises(InvalidArgumentsError, match="Invalid value for parameter day"):
        call("remember", {"day": "2026-02-31"}, alice)


def test_passes_a_tools_own_errors_on_unchanged(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    context = {"operation": "get workflow", "resourceType": "Workflow", "resourceId": "abc123"}
    raised = NotFoundError("Workflow 'abc123' not found", context=context, detail="upstream said: no such row")
    programmable.outcomes = [raised]
    with pytest.raises(NotFoundError) as caught:
        call("programmable", {}, alice)
    assert caught.value is raised
    row, log = Call.objects.get(), ErrorLog.objects.get()
    assert (row.status, row.code, row.error) == ("refused", "NOT_FOUND", "Workflow 'abc123' not found")
    assert (log.id, log.call_id) == (caught.value.error_id, row.id)
    assert log.detail == "upstream said: no such row"


def test_an_error_hides_nothing(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    context = {"operation": "get\u200b", "errorDetails": "\x1b[31mred"}
    programmable.outcomes = [ApiError("Not\u202e found", context=context, next_step="Look\u2066 again")]
    with pytest.raises(ApiError) as caught:
        call("programmable", {}, alice)
    told = caught.value
    assert (told.message, told.context["errorDetails"], told.next_step) == ("Not found", "red", "Look again")
    assert Call.objects.get().error == "Not found"


def test_what_an_upstream_repeats_of_our_secrets_goes_nowhere(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    body = {"sent": {"X-API-Key": "hunter2"}, "at": "https://ann:hunter2@h.test", "why": "expired"}
    context = {"operation": "read", "errorDetails": body}
    cut = "x" * 65_300 + " https://ann:" + "hunter2" * 70 + "@h.test"
    programmable.outcomes = [ApiError("It did not take Bearer hunter2", context=context, detail=cut)]
    with pytest.raises(ApiError) as caught:
        call("programmable", {}, alice)
    assert caught.value.context["errorDetails"] == {
        "sent": {"X-API-Key": "***"},
        "at": "https://***@h.test",
        "why": "expired",
    }
    row, log = Call.objects.get(), ErrorLog.objects.get()
    assert row.error == log.message == ErrorGroup.objects.get().message == "It did not take Bearer ***"
    assert log.detail == "x" * 65_300 + " "


def test_a_name_that_nobody_has_is_on_record_without_secrets(hub: Hub, alice: Caller) -> None:
    with pytest.raises(ToolNotFoundError):
        call("Bearer hunter2", {}, alice)
    row = Call.objects.get()
    assert (row.tool_name, row.error) == ("Bearer ***", "Tool not found: Bearer ***")


def test_wraps_what_nobody_foresaw_and_keeps_its_text_inside(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any
) -> None:
    programmable.outcomes = [KeyError("secret-thing")]
    with pytest.raises(ToolExecutionError) as caught:
        call("programmable", {}, alice)
    assert caught.value.message == "Tool execution failed: programmable"
    assert "secret-thing" not in json.dumps(caught.value.as_dict())
    assert isinstance(caught.value.__cause__, KeyError)
    log = ErrorLog.objects.get()
    assert caught.value.error_id == log.id
    assert "KeyError: 'secret-thing'" in log.detail
    assert "Traceback" in log.detail


def test_shows_the_cause_where_the_operator_wants_it(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_ERROR_DETAIL = "message"
    programmable.outcomes = [RuntimeError("the disk is full")]
    with pytest.raises(ToolExecutionError) as caught:
        call("programmable", {}, alice)
    assert caught.value.message == "Tool execution failed: programmable: RuntimeError: the disk is full"


@pytest.mark.parametrize("outcome", [SystemExit(3), StopIteration(), asyncio.CancelledError(), TimeoutError("own")])
def test_survives_whatever_a_tool_raises(
    hub: Hub, programmable: Programmable, alice: Caller, outcome: BaseException
) -> None:
    programmable.outcomes = [outcome]
    with pytest.raises(ToolExecutionError):
        call("programmable", {}, alice)
    assert call("programmable", {}, alice).answer.value == {"value": 0}


def test_ends_a_call_at_its_deadline(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    programmable.outcomes = [hang]
    with pytest.raises(ToolTimeoutError) as caught:
        call("programmable", {}, alice, timeout_ms=120)
    assert caught.value.message == "Execution timeout after 120ms"
    assert ended == ["cancelled"]
    row = Call.objects.get()
    assert (row.status, row.code) == ("timeout", "TIMEOUT")
    assert row.duration_ms is not None
    assert 120 <= row.duration_ms < 1000


def test_says_that_the_outcome_is_unknown_when_a_writing_tool_times_out(hub: Hub, alice: Caller) -> None:
    writes = Programmable("writes", hints=Hints())
    writes.outcomes = [lambda: asyncio.sleep(60)]
    hub.add(writes.tool)
    with pytest.raises(ToolTimeoutError) as caught:
        call("writes", {}, alice, timeout_ms=100)
    assert "outcome is unknown" in caught.value.next_step
    assert caught.value.as_dict()["retryable"] is False
    assert caught.value.as_dict()["outcomeUnknown"] is True


def test_answers_in_time_although_a_blocking_tool_does_not_end(hub: Hub, alice: Caller) -> None:
    release = threading.Event()
    hub.add(blocking_tool("blocks", release))
    try:
        with pytest.raises(ToolTimeoutError):
            call("blocks", {}, alice, timeout_ms=100)
        assert call("echo", {"message": "still here"}, alice).answer.value == {"message": "still here"}
    finally:
        release.set()


@pytest.mark.parametrize("timeout_ms", [0, 99, 120_001, -5])
def test_refuses_a_deadline_out_of_bounds(hub: Hub, alice: Caller, timeout_ms: int) -> None:
    with pytest.raises(ValidationError, match="between 100 and 120000"):
        call("echo", {"message": "hi"}, alice, timeout_ms=timeout_ms)


def test_applies_the_operators_deadline_before_the_settings(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    governance.set_policy("programmable", {"timeout_ms": 150}, actor=governance.trusted("test"))
    programmable.outcomes = [lambda: asyncio.sleep(60)]
    with pytest.raises(ToolTimeoutError, match="after 150ms"):
        call("programmable", {}, alice)


def test_has_a_writing_tool_on_record_before_it_runs(hub: Hub, alice: Caller) -> None:
    seen: list[str] = []

    def look() -> str:
        """Look at the journal from inside the call."""
        seen.extend(Call.objects.values_list("status", flat=True))
        return "looked"

    hub.add(tool(name="writer")(look), tool(name="reader", hints=Hints(read_only=True))(look))
    call("reader", {}, alice)
    assert seen == []
    call("writer", {}, alice)
    assert sorted(seen) == ["started", "succeeded"]
    assert list(Call.objects.values_list("status", flat=True)) == ["succeeded", "succeeded"]


def test_lets_calls_run_side_by_side(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    together = asyncio.Barrier(10)
    programmable.outcomes = [together.wait] * 10

    async def all_at_once() -> list[engine.Result]:
        return await asyncio.gather(*(engine.call("programmable", {}, alice, door="code") for _ in range(10)))

    assert len({result.call_id for result in asyncio.run(all_at_once())}) == 10
    assert Call.objects.filter(status="succeeded").count() == 10


def test_records_a_cancelled_call_as_cancelled(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    begun = threading.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.sleep(60)

    programmable.outcomes = [hang]

    async def cancel() -> None:
        task = asyncio.create_task(engine.call("programmable", {}, alice, door="code"))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert eventually(lambda: Call.objects.filter(status="cancelled").count() == 1)


@pytest.mark.parametrize(
    "outcome",
    [
        {"x": math.nan},
        {"x": math.inf},
        {"x": "\ud800"},
        "\ud800",
        b"\xff\xfe",
        object(),
        {1: object()},
    ],
)
def test_never_lets_broken_json_out(hub: Hub, programmable: Programmable, alice: Caller, outcome: Any) -> None:
    programmable.outcomes = [outcome] if not callable(outcome) else [lambda: outcome]
    with pytest.raises(ToolExecutionError, match="cannot be expressed as JSON"):
        call("programmable", {}, alice)


def test_refuses_an_answer_that_is_too_large(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_MAX_ANSWER_BYTES = 2048
    programmable.outcomes = ["x" * 2048, "x" * 2049]
    assert call("programmable", {}, alice).answer.size == 2048
    with pytest.raises(ToolExecutionError, match="more than the 2,048 allowed"):
        call("programmable", {}, alice)


def test_gives_the_short_answer_unless_the_full_one_is_asked_for(hub: Hub, alice: Caller) -> None:
    received: list[dict[str, Any]] = []

    async def workflow(id: str) -> dict[str, Any]:
        """Get a workflow."""
        received.append({"id": id})
        return {"id": id, "nodes": [1, 2, 3]}

    hub.add(
        tool(
            hints=Hints(read_only=True),
            minimal=lambda full: {"id": full["id"], "nodeCount": len(full["nodes"])},
            done="Workflow retrieved",
            guidance=lambda data: {"message": f"Next: call it for {data['id']}"},
        )(workflow)
    )
    guidance = {"message": "Next: call it for 7"}
    short = call("workflow", {"id": "7"}, alice).answer
    assert short.structured == {"id": "7", "nodeCount": 3, "_guidance": guidance}
    assert short.value == {"success": True, "message": "Workflow retrieved", "data": short.structured}
    full = call("workflow", {"id": "7", "raw": True}, alice).answer
    assert full.structured == {"id": "7", "nodes": [1, 2, 3], "_guidance": guidance}
    assert received == [{"id": "7"}, {"id": "7"}]
    with pytest.raises(InvalidArgumentsError, match="Invalid type for parameter raw: expected boolean"):
        call("workflow", {"id": "7", "raw": "yes"}, alice)


class Forecast(BaseModel):
    city: str
    degrees: float


def test_refuses_an_answer_that_breaks_the_tools_own_promise(hub: Hub, alice: Caller) -> None:
    answers: list[Any] = [Forecast(city="Kyoto", degrees=21.5), {"city": "Kyoto"}]

    async def forecast() -> Forecast:
        """Tell the weather."""
        answer: Forecast = answers.pop(0)
        return answer

    hub.add(tool(hints=Hints(read_only=True))(forecast))
    assert call("forecast", {}, alice).answer.value == {"city": "Kyoto", "degrees": 21.5}
    with pytest.raises(ToolExecutionError) as caught:
        call("forecast", {}, alice)
    assert caught.value.message == "Tool execution failed: forecast"
    assert "does not fit the output schema" in ErrorLog.objects.get().detail


def test_runs_a_tool_written_as_a_class(hub: Hub, alice: Caller) -> None:
    class Greet(Tool):
        """Greet somebody."""

        name = "greet"
        hints = Hints(read_only=True)

        class Arguments(BaseModel):
            who: str = "you"

        def run(self, ctx: Any, arguments: Any) -> str:
            return f"Hello {arguments.who}"

    hub.add(Greet())
    assert call("greet", {"who": "Ada"}, alice).answer.text == "Hello Ada"
    assert call("greet", {}, alice).answer.text == "Hello you"


def test_tells_the_tool_about_its_call(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    result = call("programmable", {}, alice, timeout_ms=5000)
    (context,) = programmable.contexts
    assert (context.call_id, context.tool, context.caller) == (result.call_id, "programmable", alice)
    assert 0 < context.remaining() <= 5


def test_refuses_to_run_inside_a_transaction(hub: Hub, alice: Caller) -> None:
    with pytest.raises(RuntimeError, match="inside a transaction"), transaction.atomic():
        call("echo", {"message": "hi"}, alice)


def test_turns_its_own_bugs_into_an_internal_error(
    hub: Hub, programmable: Programmable, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(arguments: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(programmable.tool, "convert", broken)
    with pytest.raises(InternalError) as caught:
        call("programmable", {}, alice)
    assert caught.value.message == "Internal server error"
    assert "a bug of ours" in ErrorLog.objects.get(id=caught.value.error_id).detail
    assert "a bug of ours" not in json.dumps(caught.value.as_dict())


def test_logs_failures_without_arguments(
    hub: Hub, programmable: Programmable, alice: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    programmable.outcomes = [ApiError("Failed to update workflow", context={"operation": "update"})]
    with caplog.at_level(logging.INFO, logger="tools_app"), pytest.raises(ApiError):
        call("programmable", {"text": "very-private"}, alice)
    (failure,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert failure.getMessage() == "[programmable] Error: API_ERROR Failed to update workflow"
    assert "very-private" not in caplog.text


def test_refuses_new_calls_while_it_drains(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    begun, finish = threading.Event(), threading.Event()

    async def work() -> str:
        begun.set()
        await asyncio.to_thread(finish.wait, 5)
        return "finished"

    programmable.outcomes = [work]

    async def drain() -> Any:
        engine.adopt_running_loop()
        running = asyncio.create_task(engine.call("programmable", {}, alice, door="code"))
        await asyncio.to_thread(begun.wait, 5)
        calls = hubs.part(Engine).calls
        assert calls is not None
        closing = asyncio.create_task(engine.close(5))
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDownError):
            await calls.call(
                "echo", {"message": "late"}, alice, door="code", options=engine.Options(), client=NO_CLIENT
            )
        finish.set()
        await closing
        return (await running).answer.value

    assert asyncio.run(drain()) == "finished"
    assert set(Call.objects.values_list("tool_name", "status")) == {("programmable", "succeeded"), ("echo", "refused")}


def test_stays_usable_from_one_loop_to_the_next(hub: Hub, alice: Caller) -> None:
    async def once() -> Any:
        return (await engine.call("echo", {"message": "hi"}, alice, door="code")).answer.value

    assert [asyncio.run(once()) for _ in range(3)] == [{"message": "hi"}] * 3


def test_every_error_knows_its_call(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    with pytest.raises(ToolError) as caught:
        call("nope", {}, alice)
    assert caught.value.call_id == Call.objects.get().id
    assert caught.value.duration_ms is not None


@pytest.mark.parametrize(
    ("kept", "arguments", "result"),
    [
        ("none", "", ""),
        ("redacted", '{"value":1,"text":"api_key=***"}', ""),
        ("full", '{"value":1,"text":"api_key=***"}', '{"value":1}'),
    ],
)
def test_keeps_of_arguments_and_answers_what_the_operator_wants(
    programmable: Programmable, alice: Caller, settings: Any, kept: str, arguments: str, result: str
) -> None:
    settings.TOOLHUB_PAYLOADS = kept
    call("programmable", {"value": 1, "text": "api_key=abcdef123456"}, alice)
    row = Call.objects.get()
    assert (row.arguments, row.result) == (arguments, result)
    assert row.argument_bytes > 0
    assert row.result_bytes == len('{"value":1}')


def test_keeps_no_more_than_fits(programmable: Programmable, alice: Caller, settings: Any) -> None:
    long = "ä" * 100_000
    for kept, most in (("redacted", 2 * 1024), ("full", 64 * 1024)):
        settings.TOOLHUB_PAYLOADS = kept
        programmable.outcomes = [{"text": [long] * 30}]
        call("programmable", {"text": long}, alice)
        row = Call.objects.latest("started_at")
        assert len(row.arguments.encode()) <= most
        assert len(row.result.encode()) <= most
        assert row.argument_bytes > most
