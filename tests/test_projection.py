"""What clients accept of a tool: the limits, their evidence, and the hint about large answers."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tools_app.catalog import projection
from tools_app.catalog.projection import LIMITS, Part, by_client, findings, list_findings

NESTED = {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/A"}}}, "$defs": {"A": {}}}


def clients(name: str, schema: dict[str, Any] | None = None) -> list[str]:
    return [finding.client for finding in findings(name, schema)]


def test_every_limit_has_evidence() -> None:
    for limit in LIMITS:
        assert "#" in limit.evidence, limit
        assert date(2025, 1, 1) < limit.as_of <= date(2026, 11, 19), limit
        assert (limit.value > 0) == (limit.part not in (Part.REFERENCE, Part.ALTERNATIVES)), limit
    assert len({(limit.client, limit.part) for limit in LIMITS}) == len(LIMITS)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (50, []),
        (51, ["Claude"]),
        (52, ["Claude"]),
        (53, ["Claude", "Cursor"]),
        (64, ["Claude", "Cursor"]),
        (65, ["Claude", "Cursor", "OpenAI", "Bedrock"]),
    ],
)
def test_names_are_counted_with_what_the_client_adds(length: int, expected: list[str]) -> None:
    assert clients("a" * length) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, []),
        ({"type": "object", "properties": {"a.b-c_1": {"anyOf": [{"type": "string"}]}}}, []),
        ({"type": "object", "properties": {"$top": {}, "a b": {}}}, ["Claude"]),
        ({"type": "object", "properties": {"a" * 65: {}}}, ["Claude"]),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, ["Claude", "OpenAI", "Gemini", "Bedrock"]),
        ({"type": "object", "oneOf": []}, ["Claude", "OpenAI", "Gemini", "Bedrock"]),
        (NESTED, ["Gemini"]),
        ({"type": "object", "properties": {"$ref": {"type": "string"}}}, ["Claude"]),
    ],
)
def test_parameters_are_judged_by_what_clients_refuse(schema: dict[str, Any] | None, expected: list[str]) -> None:
    assert clients("read", schema) == expected


def test_a_finding_says_who_does_what_and_why() -> None:
    (finding,) = findings("a" * 60, NESTED, client="Gemini")
    assert str(finding) == (
        "Gemini refuses the list, or does not see the structure of the parameter: its parameters refer to definitions "
        "($ref)"
    )
    (finding,) = findings("a" * 60, client="Cursor")
    assert str(finding) == (
        "Cursor leaves the tool out: the name has 67 characters with the 7 that it adds, of at most 59"
    )


@pytest.mark.parametrize(
    ("tools", "expected"), [(80, []), (81, ["Cursor"]), (128, ["Cursor"]), (129, ["Cursor", "VS Code", "OpenAI"])]
)
def test_long_lists_are_too_long_for_some(tools: int, expected: list[str]) -> None:
    assert [finding.client for finding in list_findings(tools)] == expected
    assert by_client(list_findings(tools)) == dict.fromkeys(expected, 1)


def test_the_hint_is_sent_where_an_answer_can_be_longer_than_what_is_shown() -> None:
    assert [projection.result_size(tokens) for tokens in (1_000, 16_666, 16_667, 25_000, 1_000_000)] == [
        None, None, 50_001, 75_000, 500_000,
    ]  # fmt: skip
    assert projection.reads_result_size("claude-code")
    assert not projection.reads_result_size("cursor-vscode")
