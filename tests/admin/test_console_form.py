"""From a schema to a form, and from what was typed in to the arguments that were meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.http import QueryDict
from hypothesis import given, settings
from hypothesis import strategies as st

from tools_app.admin.console import form
from tools_app.admin.console.fields import (
    ABSENT,
    Argument,
    ChoiceArgument,
    LineArgument,
    LinesArgument,
    MixedArgument,
    NumberArgument,
    TextArgument,
    field_of,
)

DEFINED = {"Level": {"enum": ["low", "high"]}, "Count": {"type": "integer", "minimum": 1}}


def made(part: dict[str, Any], *, required: bool = False) -> Argument:
    return field_of("it", part, DEFINED, required=required)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, TextArgument),
        ({"type": "string", "format": "date"}, LineArgument),
        ({"type": "integer", "minimum": 1, "maximum": 5}, NumberArgument),
        ({"$ref": "#/$defs/Count"}, NumberArgument),
        ({"$ref": "#/$defs/Level"}, ChoiceArgument),
        ({"const": 3}, ChoiceArgument),
        ({"type": "boolean"}, ChoiceArgument),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, ChoiceArgument),
        ({"type": ["integer", "null"]}, NumberArgument),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, MixedArgument),
        ({"type": ["integer", "string"]}, MixedArgument),
        ({"type": "array", "items": {"type": "string"}}, LinesArgument),
        ({"type": "array", "items": {"$ref": "#/$defs/Count"}}, LinesArgument),
        ({"type": "array", "items": {"type": "object"}}, Argument),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, Argument),
        ({"anyOf": [{"type": "object"}, {"type": "string"}]}, Argument),
        ({"enum": list(range(1_000))}, Argument),
        ({"$ref": "#/$defs/Nowhere"}, Argument),
        ({"items": True, "type": "array"}, Argument),
        ({}, Argument),
    ],
)
def test_every_kind_of_schema_has_its_field(part: dict[str, Any], kind: type[Argument]) -> None:
    assert type(made(part)) is kind


@pytest.mark.parametrize(
    ("part", "typed", "value"),
    [
        ({"type": "string"}, "a\r\nb ", "a\nb "),
        ({"type": "integer"}, " 42 ", 42),
        ({"type": "number"}, "-1.5e3", -1500.0),
        ({"type": "boolean"}, "false", False),
        ({"enum": ["a", 1, None]}, "1", 1),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, '"7"', "7"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "shop", "shop"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "true", "true"),
        ({"type": "array", "items": {"type": "string"}}, "a\r\n\r\n b\n", ["a", " b"]),
        ({"type": "array", "items": {"type": "integer"}}, "1\n2", [1, 2]),
        ({"type": "array", "items": {"type": "boolean"}}, "true\nfalse", [True, False]),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "string"}, "", ABSENT),
    ],
)
def test_reads_what_was_meant(part: dict[str, Any], typed: str, value: Any) -> None:
    assert made(part).clean(typed) == value
    assert type(made(part).clean(typed)) is type(value)


@pytest.mark.parametrize(
    ("part", "typed", "words"),
    [
        ({"type": "integer"}, "NaN", "Expected a number"),
        ({"type": "integer"}, "1" * 400, "Expected a number"),
        ({"type": "integer"}, "true", "Expected a number"),
        ({"type": "array", "items": {"type": "integer"}}, "1\nx", "Line 2: Expected a number"),
        ({"type": "array", "items": {"type": "boolean"}}, "yes", "Line 1: Expected true or false"),
        ({"type": "array", "items": {"type": "string"}}, "a\n" * 1_001, "More than 1,000 lines"),
        ({"type": "object"}, '{"a": }', "Not JSON: syntax error in line 1, column 7"),
        ({"type": "object"}, '{"a": 1, "a": 2}', "same key twice"),
        ({"type": "object"}, '{"a":' * 70, "nested deeper"),
        ({"type": "string"}, "a\x00", "NUL"),
        ({"type": "string"}, "a" * 200_001, "Longer than"),
    ],
)
def test_says_what_it_cannot_read(part: dict[str, Any], typed: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        made(part).clean(typed)


def test_nothing_typed_in_is_nothing_sent_unless_it_is_needed() -> None:
    assert made({"type": "integer"}).clean("") is ABSENT
    assert made({"type": ["integer", "null"]}, required=True).clean("") is None
    with pytest.raises(ValidationError, match="A value is required"):
        made({"type": "integer"}, required=True).clean("")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))
PARTS: list[dict[str, Any]] = [
    {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"enum": ["a", 1, None, True]}, {"type": "object"}, {},
    {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "number"}},
]  # fmt: skip
NAMES = [f"p{number}" for number in range(len(PARTS))]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": dict(zip(NAMES, PARTS, strict=True)),
    "required": NAMES[:2],
    "additionalProperties": False,
}


@given(st.dictionaries(st.sampled_from([*NAMES, "unknown"]), VALUES, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_a_form_shows_it_sends_again(arguments: dict[str, Any]) -> None:
    """As fields where they can hold it, as JSON where they cannot: in no case another value."""
    shown = form.form_for(SCHEMA, arguments)
    data = QueryDict(mutable=True)
    for name in shown.fields:
        # As a browser has it: its lines end with CR LF.
        data[shown.add_prefix(name)] = (
            str(shown.initial.get(name, "")).replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        )
    if isinstance(shown, form.JsonForm):
        sent_again = form.JsonForm(data).arguments()
    else:
        again = form.ArgumentsForm(SCHEMA, data)
        sent_again = again.arguments()
        if sent_again is None:  # What is needed and was not given is asked for.
            assert set(again.errors) == set(NAMES[:2]) - arguments.keys()
            return
    assert json.dumps(sent_again, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def test_takes_json_where_there_are_too_many_fields_or_none() -> None:
    many = {"type": "object", "properties": {f"p{number}": {} for number in range(81)}}
    assert isinstance(form.form_for(many, {}), form.JsonForm)
    assert isinstance(form.form_for({"type": "object"}, {}), form.JsonForm)
    assert isinstance(form.form_for({"type": "object", "additionalProperties": False}, {}), form.ArgumentsForm)


@pytest.mark.parametrize("name", ["a.b", "a b", "fields", "data", "errors", "csrfmiddlewaretoken", "mode", "<b>", "é"])
def test_an_argument_may_be_called_anything(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    data = QueryDict(mutable=True)
    data[f"argument-{name}"] = "x"
    assert form.ArgumentsForm(schema, data).arguments() == {name: "x"}


def test_the_fields_without_which_there_is_no_call_come_first() -> None:
    properties = {"limit": {"type": "integer"}, "project": {"type": "string"}, "note": {"type": "string"}}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": ["project"]}
    shown = form.form_for(schema, {})
    assert isinstance(shown, form.ArgumentsForm)
    assert [line.row.path for line in shown.lines()] == ["project", "limit", "note"]
    # Each still stands beside what is said of it.
    assert all(
        line.field is not None and line.field.field.widget.attrs["aria-describedby"] == line.help_id
        for line in shown.lines()
    )
    again = form.form_for(schema, {"project": "shop"}, again=frozenset({"note"}))
    assert isinstance(again, form.ArgumentsForm)
    assert [line.row.path for line in again.lines()] == ["project", "note", "limit"]
