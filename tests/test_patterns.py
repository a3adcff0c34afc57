"""Patterns of operators cannot be made slow by the texts of strangers."""

from __future__ import annotations

import pytest

from tools_app.sdk import patterns


@pytest.mark.parametrize("pattern", ["^Error", "(?i)FAILED", r"\bfail(ed|ure)\b", "", "(a+)+$"])
def test_what_can_be_matched_in_linear_time_is_permitted(pattern: str) -> None:
    assert patterns.fault(pattern) == ""


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?<=a)b", "(?=a)", "x{1,1000000}"])
def test_everything_else_is_refused_and_matches_nothing(pattern: str) -> None:
    assert "cannot" in (fault := patterns.fault(pattern)) or "not a regular expression" in fault
    assert not patterns.matches(pattern, "aab")


def test_matches_anywhere_in_the_text() -> None:
    assert patterns.matches("^Error", "Error: no such page")
    assert not patterns.matches("^Error", "No Error")
    assert patterns.matches("no such", "Error: no such page")


def test_a_pattern_that_backtracks_elsewhere_ends_here() -> None:
    """With Python's own engine, this takes longer than the universe is old."""
    assert not patterns.matches("(a+)+$", "a" * 10_000 + "b")
