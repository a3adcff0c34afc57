"""How a call ended, as agents are sent it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.tools import Programmable
from tools_app.engine import Result
from tools_app.engine.answers import shaped
from tools_app.mcp_server import results
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    Problem,
    RateLimitError,
    ToolDisabledError,
    ToolError,
    ToolExecutionError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.reach import Detail
from tools_app.sdk.runner import Returned

OBJECT = {"type": "object"}


def ended(returned: Any, **declared: Any) -> dict[str, Any]:
    spec = Programmable(hints=Hints(open_world=False), **declared).tool.spec
    entry = cast(Any, SimpleNamespace(spec=spec, name=spec.name, detail=Detail.LEAN))
    answer = shaped(entry, Returned(returned))
    return results.success_result(Result("c1", entry, answer, datetime.now(UTC), 5))


def texts(wire: dict[str, Any]) -> list[str]:
    assert all(part["type"] == "text" for part in wire["content"])
    return [part["text"] for part in wire["content"]]


def test_a_text_is_sent_as_it_is() -> None:
    wire = ended("a\n“b” ü")
    assert wire == {
        "content": [{"type": "text", "text": "a\n“b” ü"}],
        "isError": False,
        "_meta": {"toolhub/callId": "c1"},
        "resultType": "complete",
    }


@pytest.mark.parametrize(("returned", "text"), [(None, "null"), ([1, "ü"], '[1,"ü"]'), (True, "true"), ("", "")])
def test_everything_else_is_sent_as_json(returned: Any, text: str) -> None:
    assert texts(ended(returned)) == [text]


def test_an_object_is_sent_twice_where_the_tool_declares_one() -> None:
    wire = ended({"n": 1, "none": None}, output_schema=OBJECT)
    assert texts(wire) == ['{"n":1,"none":null}']
    assert wire["structuredContent"] == {"n": 1, "none": None}


def test_the_object_of_a_wrapped_answer_is_the_data() -> None:
    wire = ended({"id": "w1"}, output_schema=OBJECT, done="Workflow created")
    assert json.loads(texts(wire)[0]) == {"success": True, "message": "Workflow created", "data": {"id": "w1"}}
    assert wire["structuredContent"] == {"id": "w1"}


def test_an_object_without_an_output_schema_is_sent_once() -> None:
    assert "structuredContent" not in ended({"n": 1})


def test_a_failure_says_its_message_exactly_and_nothing_else_where_there_is_nothing_else() -> None:
    wire = results.error_result(ToolError("Nope"))
    assert wire == {
        "content": [{"type": "text", "text": "Nope"}],
        "isError": True,
        "_meta": {"toolhub/error": {"error": "Nope", "code": "TOOL_ERROR", "retryable": False}},
        "resultType": "complete",
    }


def test_a_failure_says_in_words_all_that_is_wrong_and_what_to_do() -> None:
    error = InvalidArgumentsError(
        problems=[
            Problem("/a", "Required parameter missing: a"),
            Problem("/b", "Invalid type for parameter b: expected number", "number"),
            Problem("", "Too many", "at most 3"),
        ]
    )
    error.call_id = "c2"
    wire = results.error_result(error)
    message, more = texts(wire)
    assert message == "Required parameter missing: a"
    assert more.splitlines() == [
        "- /a: Required parameter missing: a",
        "- /b: Invalid type for parameter b: expected number",
        "- arguments: Too many (expected at most 3)",
        "Correct the arguments and call again; the tool's input schema says what it takes.",
    ]
    assert wire["_meta"] == {"toolhub/error": error.as_dict(), "toolhub/callId": "c2"}
    assert "structuredContent" not in wire


def test_a_single_problem_is_not_repeated() -> None:
    error = InvalidArgumentsError(problems=[Problem("/a", "Required parameter missing: a")], next_step="Do.")
    assert texts(results.error_result(error)) == ["Required parameter missing: a", "Do."]


def test_a_failure_says_why_when_to_come_back_and_what_to_tell_an_operator() -> None:
    disabled = ToolDisabledError.named("echo", "switched off by an operator", "Ask.")
    assert texts(results.error_result(disabled)) == [
        "Tool is disabled: echo",
        "Reason: switched off by an operator\nAsk.",
    ]
    limited = RateLimitError(retry_after=2.5)
    assert texts(results.error_result(limited)) == ["Rate limit exceeded", "Try again in 2.5 seconds."]
    crashed = ToolExecutionError("Tool execution failed: x", next_step="")
    crashed.error_id = "e1"
    assert texts(results.error_result(crashed)) == ["Tool execution failed: x", "errorId: e1"]


@pytest.mark.parametrize(
    ("given", "said"), [("Field 'settings' is required", "Field 'settings' is required"), ({"a": [1]}, '{"a": [1]}')]
)
def test_a_failure_includes_the_message_of_the_upstream(given: object, said: str) -> None:
    error = ApiError("Failed to update workflow", context={"operation": "update", "errorDetails": given})
    assert texts(results.error_result(error)) == ["Failed to update workflow", f"Reason: {said}"]


def test_a_failure_is_sent_with_any_context_of_a_tool() -> None:
    error = ToolError("Nope", context={"day": date(2026, 1, 2), "odd": object(), "nan": float("nan"), "set": {1}})
    context = results.error_result(error)["_meta"]["toolhub/error"]["context"]
    assert context["day"] == "2026-01-02"
    assert json.loads(json.dumps(context, allow_nan=False)) == context
