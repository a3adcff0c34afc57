"""The history of a tool's definition, and what each step changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import days_ago
from tools_app.admin import comparison, definitions
from tools_app.models import Definition, ToolRecord

pytestmark = pytest.mark.django_db


def tool_with(*bodies: Any) -> ToolRecord:
    """A tool that had these definitions, oldest first; the last is the current one."""
    tool = ToolRecord.objects.create(name="tool", source_kind="file")
    for number, body in enumerate(bodies):
        tool.definition = Definition.objects.create(
            tool=tool, hash=str(number), version=f"1.{number}", body=body, first_seen_at=days_ago(100 - number)
        )
    tool.save()
    return tool


def newest_change(tool: ToolRecord) -> definitions.VersionDiff:
    newest, _ = definitions.versions(tool)
    assert newest.diff is not None
    return newest.diff


def test_each_version_is_compared_with_the_one_before() -> None:
    shown = definitions.versions(tool_with({"a": 1}, {"a": 2}, {"a": 2, "b": 3}))
    assert [(version.version, version.current) for version in shown] == [("1.2", True), ("1.1", False), ("1.0", False)]
    changed = [
        [line.text for line in version.diff.json if line.kind in {"added", "removed"}]
        for version in shown
        if version.diff
    ]
    assert changed == [['-  "a": 2', '+  "a": 2,', '+  "b": 3'], ['-  "a": 1', '+  "a": 2']]
    assert shown[-1].diff is None


def test_the_order_of_keys_is_no_change() -> None:
    newest = newest_change(tool_with({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert newest.json == []


def test_only_the_newest_are_shown_and_the_oldest_of_them_is_still_compared() -> None:
    shown = definitions.versions(tool_with(*({"a": number} for number in range(15))))
    assert len(shown) == definitions.MOST_SHOWN
    assert all(version.diff and version.diff.json for version in shown)


def test_what_is_too_long_is_not_compared() -> None:
    long = {"lines": list(range(comparison.MOST_LINES))}
    newest = newest_change(tool_with({}, long))
    assert [line.text for line in newest.json] == ["Too long to compare."]


def test_a_long_difference_is_cut_and_says_so() -> None:
    newest = newest_change(tool_with({}, {"lines": list(range(comparison.MOST_DIFFERENCES * 2))}))
    assert len(newest.json) == comparison.MOST_DIFFERENCES
    assert newest.truncated
