"""The tools every hub has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.effects import HUB, OFTEN, READS, Effects
from toolhub import testing
from tools_app.packs.builtin import calculate, echo, pack
from tools_app.sdk.errors import InvalidArgumentsError

# What tests/packs/test_hints.py compares with the hints.
EFFECTS: Effects = {
    "echo": (READS, OFTEN, HUB, "gives back what it is given"),
    "calculate": (READS, OFTEN, HUB, "computes"),
    "read_result": (READS, OFTEN, HUB, "reads an answer that the hub keeps"),
}


def test_the_pack_holds_these_tools() -> None:
    assert [tool.name for tool in pack.tools] == list(EFFECTS)
    assert pack.broken == []


@pytest.mark.parametrize("message", ["Hello", "", "日本語 👩‍👧", "a\nb\x00", "x" * 100_000])
def test_echo_sends_back_what_was_sent(message: str) -> None:
    assert testing.call(echo, message=message) == {"message": message}


def test_echo_needs_a_message() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^Required parameter missing: message$"):
        testing.call(echo)


@pytest.mark.parametrize(
    ("operation", "a", "b", "result"),
    [
        ("add", 2, 3, 5),
        ("add", 0.1, 0.2, 0.1 + 0.2),
        ("subtract", 2, 3, -1),
        ("multiply", 2.5, 4, 10.0),
        ("multiply", 10**15, 10**15, 10**30),
        ("divide", 6, 3, 2),
        ("divide", 7, 2, 3.5),
        ("divide", -7, 7, -1),
        ("divide", 1.0, 4, 0.25),
        ("divide", 0, 5, 0),
        ("divide", 10**40, 10**39, 10),
    ],
)
def test_calculates(operation: str, a: Any, b: Any, result: Any) -> None:
    answer = testing.call(calculate, operation=operation, a=a, b=b)
    assert answer == {"result": result}
    assert type(answer["result"]) is type(result)


@pytest.mark.parametrize("b", [0, 0.0, -0.0])
def test_division_by_zero_is_refused_in_the_documents_words(b: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^Division by zero is not allowed$") as caught:
        testing.call(calculate, operation="divide", a=1, b=b)
    assert caught.value.as_dict()["details"] == [
        {"path": "/b", "message": "Division by zero is not allowed", "expected": "a number other than 0"}
    ]


@pytest.mark.parametrize(
    ("operation", "a", "b"),
    [
        ("multiply", 1e308, 10),
        ("add", 1e308, 1.7e308),
        ("subtract", -1e308, 1.7e308),
        ("multiply", 10**200, 10**200),
        ("divide", 10**400, 3),
        ("divide", 1e308, 1e-10),
        ("add", 10**400, 0.5),
    ],
)
def test_a_result_that_json_cannot_hold_is_refused(operation: str, a: Any, b: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^The result is too large$"):
        testing.call(calculate, operation=operation, a=a, b=b)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"operation": "power", "a": 1, "b": 2},
            "Invalid value for parameter operation: expected one of add, subtract,",
        ),
        ({"operation": "add", "a": "1", "b": 2}, "Invalid type for parameter a: expected number"),
        ({"operation": "add", "a": True, "b": 2}, "Invalid type for parameter a: expected number"),
        ({"operation": "add", "a": float("nan"), "b": 2}, "Invalid type for parameter a: expected number"),
        ({"operation": "add", "a": 1, "b": float("inf")}, "Invalid type for parameter b: expected number"),
        ({"operation": "add", "a": 1}, "Required parameter missing: b"),
    ],
)
def test_what_cannot_be_calculated_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=f"^{message}"):
        testing.call(calculate, **arguments)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.sampled_from(["add", "subtract", "multiply", "divide"]), numbers, numbers)
@settings(max_examples=100, deadline=None)
def test_any_two_numbers_give_json_or_a_reason(operation: str, a: Any, b: Any) -> None:
    try:
        answer = testing.call(calculate, operation=operation, a=a, b=b)
    except InvalidArgumentsError:
        return
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
