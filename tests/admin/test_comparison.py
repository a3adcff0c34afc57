"""Two definitions of a tool, compared in words."""

from __future__ import annotations

from typing import Any

from tools_app.admin.comparison import MOST_DIFFERENCES, compare


def body(**given: Any) -> dict[str, Any]:
    return {
        "name": "forecast",
        "description": "Tell the weather. Needs a city.",
        "version": "1.0.0",
        "tags": ["weather"],
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
        "inputSchema": schema(city={"type": "string"}),
        "outputSchema": None,
        **given,
    }


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def told(**given: Any) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.label, one.before, one.after) for one in compare(body(), body(**given))]


def test_the_same_is_no_difference() -> None:
    assert compare(body(), body()) == []
    assert compare({}, {}) == compare(None, "nonsense") == []


def test_words_and_hints_are_told_from_what_to_what() -> None:
    assert told(
        version="1.1.0", title="Forecast", tags=[], annotations={"readOnlyHint": False, "destructiveHint": True}
    ) == [
        ("added", "Title", "", "Forecast"),
        ("changed", "Version", "1.0.0", "1.1.0"),
        ("removed", "Tags", "weather", ""),
        ("changed", "Read-only", "yes", "no"),
        ("changed", "Destructive", "no", "yes"),
    ]


def test_a_description_is_compared_sentence_by_sentence() -> None:
    [only] = compare(body(), body(description="Tell the weather. Needs a city and a day."))
    assert [(line.kind, line.text) for line in only.lines] == [
        ("kept", " Tell the weather."),
        ("removed", "-Needs a city."),
        ("added", "+Needs a city and a day."),
    ]


def test_parameters_come_go_and_change() -> None:
    new = schema("city", city={"type": "string", "minLength": 2}, days={"type": "integer", "default": 3})
    assert told(inputSchema=new) == [
        ("changed", "Parameter city: required", "no", "yes"),
        ("changed", "Parameter city: constraints", "", "at least 2 characters"),
        ("added", "Parameter days", "", "integer, optional"),
    ]
    assert told(inputSchema=schema()) == [("removed", "Parameter city", "string, optional", "")]


def test_a_nested_value_is_told_by_its_path() -> None:
    inner = schema("lat", lat={"type": "number"})
    assert told(inputSchema=schema(city={"type": "string"}, at=inner)) == [
        ("added", "Parameter at", "", "object, optional"),
        ("added", "Parameter at.lat", "", "number, required"),
    ]


def test_what_no_table_shows_is_still_said_to_differ() -> None:
    new = {**schema(city={"type": "string"}), "dependentRequired": {"city": ["day"]}}
    assert told(inputSchema=new) == [("changed", "Parameters, in the JSON Schema only", "", "")]
    assert told(examples=[{"description": "x"}]) == [("added", "Examples", "", "")]


def test_there_is_an_end_to_it() -> None:
    long = {
        f"p{number}": {"type": "string", "description": "x" * 9_000, "default": "y" * 9_000} for number in range(500)
    }
    found = compare(
        body(inputSchema=schema(**{name: {"type": "integer"} for name in long})), body(inputSchema=schema(**long))
    )
    assert len(found) == MOST_DIFFERENCES
    assert max(len(one.after) for one in found) <= 501
