"""What an example expects, and what an answer may be."""

from __future__ import annotations

from typing import Any

import pytest

from tools_app.sdk.examples import MOST_MISMATCHES, Example


def mismatches(expected: Any, answer: Any) -> list[str]:
    return Example("one", {}, expected).mismatches(answer)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (None, "anything"),
        ({"id": 1}, {"id": 1, "more": True}),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "x", "d": 0}], "e": 1}}),
        ("<any>", None),
        ({"name": "<string>", "n": "<number>", "i": "<integer>"}, {"name": "", "n": 1.5, "i": 2.0}),
        ({"yes": "<boolean>", "list": "<array>", "thing": "<object>"}, {"yes": False, "list": [], "thing": {}}),
        ([1, 2], [1, 2]),
        ([1, "<more>"], [1, 2, 3]),
        (["<more>"], []),
        ([{"id": "<integer>"}, "<more>"], [{"id": 1, "x": 2}]),
        (1, 1.0),
        ("<b>", "<b>"),
        ((1, 2), [1, 2]),
    ],
)
def test_fits(expected: Any, answer: Any) -> None:
    assert mismatches(expected, answer) == []


@pytest.mark.parametrize(
    ("expected", "answer", "told"),
    [
        ({"id": 1}, {"id": 2}, "result.id: expected 1, got 2"),
        ({"id": 1}, {}, "result.id: is missing"),
        ({"id": 1}, [1], "result: expected an object, got [1]"),
        ([1], {}, "result: expected a list, got {}"),
        ([1, 2], [1], "result: expected 2 items, got 1"),
        ([1, 2, "<more>"], [1], "result: expected 2 or more items, got 1"),
        ([1], [1, 2], "result: expected 1 items, got 2"),
        ([{"a": "<string>"}], [{"a": 5}], "result[0].a: expected <string>, got 5"),
        ("<number>", True, "result: expected <number>, got true"),
        ("<integer>", 1.5, "result: expected <integer>, got 1.5"),
        ("<integer>", float("inf"), "result: expected <integer>, got Infinity"),
        (True, 1, "result: expected true, got 1"),
        (0, False, "result: expected 0, got false"),
        ("a", None, 'result: expected "a", got null'),
    ],
)
def test_does_not_fit(expected: Any, answer: Any, told: str) -> None:
    assert mismatches(expected, answer) == [told]


def test_only_the_first_problems_are_listed_and_values_are_cut() -> None:
    found = mismatches(list(range(50)), [f"x{'y' * 500}" for _ in range(50)])
    assert len(found) == MOST_MISMATCHES
    assert all(len(line) < 200 for line in found)
