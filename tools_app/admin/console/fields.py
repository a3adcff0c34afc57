"""Form fields for the arguments of a tool: text input to JSON value and back.

A field only parses. The tool's own checker validates the value, with the messages that every caller gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.catalog.schema_table import resolved
from tools_app.text import json_text
from tools_app.text.json_text import JsonError

MOST_TEXT: Final = 200_000
MOST_LINES: Final = 1_000
MOST_CHOICES: Final = 300
# Texts up to this length get a single-line input.
SHORT: Final = 120
# Names of arguments whose texts usually have several lines.
LONG_TEXTS: Final = frozenset(
    {"body", "code", "content", "contents", "css", "data", "description", "html", "instructions", "json", "markdown"}
    | {"message", "note", "notes", "prompt", "query", "script", "source", "sql", "text", "xml", "yaml"}
)

ABSENT: Final = object()
"""The value of an empty field: the argument is not sent."""

_NUMBERS: Final = ("integer", "number")
_SCALARS: Final = frozenset({"string", "boolean", *_NUMBERS})


class Argument(forms.Field):
    """The input of one argument, parsed to a JSON value. This base class takes JSON text."""

    box: type[forms.Widget] = forms.Textarea
    attributes: Mapping[str, Any] = {"rows": 3, "spellcheck": "false", "class": "hub-input hub-code"}
    written_as: str | Promise = gettext_lazy("JSON")
    """Help: how to enter the value; empty if that is obvious."""

    def __init__(self, name: str, *, required: bool, nullable: bool = False, **attributes: Any) -> None:
        self.nullable = nullable
        widget_attributes = {"autocomplete": "off", **self.attributes, **attributes}
        super().__init__(required=required, label=name, widget=self.box(attrs=widget_attributes))

    def clean(self, value: Any) -> Any:
        """Raises: ValidationError."""
        # Browsers send their own line endings.
        text = str(value or "").replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > MOST_TEXT:
            raise ValidationError(_("Longer than %(most)s characters") % {"most": f"{MOST_TEXT:,}"})
        if "\x00" in text:
            raise ValidationError(_("Text cannot contain the NUL character"))
        if text == "":
            if not self.required:
                return ABSENT
            if self.nullable:
                return None
            raise ValidationError(_("A value is required"))
        return self.parse(text)

    def parse(self, text: str) -> Any:
        """Raises: ValidationError."""
        return _parse_json(text)

    def as_text(self, value: Any) -> str:
        """The text that `parse` turns into this value."""
        return readable(value)

    def holds(self, value: Any) -> bool:
        """True if the value survives being shown in this field and submitted."""
        try:
            return same_json(self.clean(self.as_text(value)), value)
        except ValidationError:
            return False


class TextArgument(Argument):
    attributes = {"class": "hub-input"}
    written_as = ""

    def __init__(self, name: str, *, is_line: bool = True, **attributes: Any) -> None:
        self.box = forms.TextInput if is_line else forms.Textarea
        super().__init__(name, **attributes if is_line else {"rows": 2, **attributes})

    def make_room(self, text: str) -> None:
        """Browsers drop line breaks in a single-line input, and show only the beginning of a long text."""
        if isinstance(self.widget, forms.TextInput) and ("\n" in text or len(text) > SHORT):
            self.widget = forms.Textarea(attrs={**self.widget.attrs, "rows": 2})

    def parse(self, text: str) -> Any:
        return text

    def as_text(self, value: Any) -> str:
        return value if isinstance(value, str) else readable(value)


class LineArgument(TextArgument):
    """Text for which browsers have an input of their own: a date."""


class NumberArgument(Argument):
    box = forms.NumberInput
    attributes = {"class": "hub-input"}
    written_as = ""

    def parse(self, text: str) -> Any:
        return _number(text)


class ChoiceArgument(Argument):
    """One of several values; each is submitted as JSON."""

    box = forms.Select
    attributes = {"class": "hub-input"}
    written_as = ""

    def __init__(self, name: str, values: Sequence[Any], *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        empty_label = _("Choose …") if required else _("(omit)")
        if required and len(values) == 1:
            self.initial = _compact(values[0])
        self.widget.choices = [("", empty_label), *((_compact(value), in_words(value)) for value in values)]

    def as_text(self, value: Any) -> str:
        return _compact(value)


class MixedArgument(Argument):
    """Text or another scalar: parsed as a number or boolean where possible; quotes force text."""

    attributes = {"rows": 1, "class": "hub-input"}
    written_as = gettext_lazy('Quote numbers to send them as text: "7"')

    def __init__(self, name: str, types: frozenset[str], *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        self._types = types

    def parse(self, text: str) -> Any:
        try:
            value = json_text.parsed(text.encode())
        except JsonError:
            return text
        number = isinstance(value, int | float) and not isinstance(value, bool) and not self._types.isdisjoint(_NUMBERS)
        truth = isinstance(value, bool) and "boolean" in self._types
        return value if number or truth or isinstance(value, str) else text

    def as_text(self, value: Any) -> str:
        if isinstance(value, str) and same_json(self.parse(value), value):
            return value
        return _compact(value)


class LinesArgument(Argument):
    """A list of scalars, one per line."""

    attributes = {"rows": 3, "class": "hub-input"}
    written_as = gettext_lazy("One per line.")

    def __init__(self, name: str, kind: str, *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        self._kind = kind

    def parse(self, text: str) -> Any:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > MOST_LINES:
            raise ValidationError(_("More than %(most)s lines") % {"most": f"{MOST_LINES:,}"})
        values = []
        for number, line in enumerate(lines, 1):
            try:
                values.append(line if self._kind == "string" else _scalar(line, self._kind))
            except ValidationError as error:
                line_problem = {"number": number, "problem": error.message}
                raise ValidationError(_("Line %(number)s: %(problem)s") % line_problem) from error
        return values

    def as_text(self, value: Any) -> str:
        if not isinstance(value, list):
            return readable(value)
        return "\n".join(item if isinstance(item, str) else _compact(item) for item in value)


def field_of(name: str, part: Any, definitions: Mapping[str, Any], *, required: bool) -> Argument:
    """The field for a part of a schema; anything without a simple form is entered as JSON."""
    shape, nullable = without_null(resolved(part, definitions), definitions)
    values = [shape["const"]] if "const" in shape else shape.get("enum")
    kind = shape.get("type")
    if kind == "boolean" and values is None:
        values = [True, False]
    if isinstance(values, list) and 0 < len(values) <= MOST_CHOICES:
        return ChoiceArgument(name, [one for one in values if one is not None], required=required, nullable=nullable)
    if kind in _NUMBERS:
        return NumberArgument(name, required=required, nullable=nullable, **_bounds(shape))
    if kind == "string":
        return _text(name, shape, required=required, nullable=nullable)
    if "string" in (types := _scalar_types(shape, definitions)):
        return MixedArgument(name, types, required=required, nullable=nullable)
    item = resolved(shape.get("items"), definitions).get("type") if kind == "array" else None
    if isinstance(item, str) and item in _SCALARS:
        return LinesArgument(name, item, required=required, nullable=nullable)
    return Argument(name, required=required, nullable=nullable)


def _text(name: str, shape: Mapping[str, Any], *, required: bool, nullable: bool) -> Argument:
    if shape.get("format") == "date":
        return LineArgument(name, required=required, nullable=nullable, type="date")
    longest, words = shape.get("maxLength"), {name.lower(), *re.split(r"[^a-z]+", name.lower())}
    is_line = longest <= SHORT if isinstance(longest, int) else "format" in shape or words.isdisjoint(LONG_TEXTS)
    return TextArgument(name, required=required, nullable=nullable, is_line=is_line)


def _bounds(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes for the browser. The checker decides, also about exclusive bounds."""
    bounds: dict[str, Any] = {"step": "1" if shape["type"] == "integer" else "any"}
    for attribute, keyword in (("min", "minimum"), ("max", "maximum")):
        if isinstance(shape.get(keyword), int | float):
            bounds[attribute] = shape[keyword]
    return bounds


def without_null(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema without null, and True if it allowed null: an empty field means null."""
    kind = shape.get("type")
    if isinstance(kind, list) and "null" in kind:
        other_types = [name for name in kind if name != "null"]
        return {**shape, "type": other_types[0] if len(other_types) == 1 else other_types}, True
    options = shape.get("anyOf")
    if not isinstance(options, list):
        return shape, isinstance(shape.get("enum"), list) and None in shape["enum"]
    resolved_options = [resolved(option, definitions) for option in options]
    other_types = [option for option in resolved_options if option.get("type") != "null"]
    nullable = len(other_types) < len(resolved_options)
    if len(other_types) == 1:
        return {**other_types[0], **{key: value for key, value in shape.items() if key != "anyOf"}}, nullable
    return {**shape, "anyOf": other_types}, nullable


def _scalar_types(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> frozenset[str]:
    """The types that the schema allows, if all are scalars; else empty."""
    kind = shape.get("type")
    type_names = kind if isinstance(kind, list) else None
    if type_names is None and isinstance(options := shape.get("anyOf"), list):
        type_names = [resolved(option, definitions).get("type") for option in options]
    return frozenset(type_names) if _all_scalar(type_names) else frozenset()


def _all_scalar(type_names: Any) -> TypeGuard[list[str]]:
    return isinstance(type_names, list) and all(isinstance(name, str) and name in _SCALARS for name in type_names)


def _parse_json(text: str) -> Any:
    try:
        return json_text.parsed(text.encode(errors="replace"))
    except JsonError as error:
        raise ValidationError(_("Not JSON: %(problem)s") % {"problem": error}) from error


def _number(text: str) -> Any:
    try:
        value = json_text.parsed(text.strip().encode(errors="replace"))
    except JsonError:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValidationError(_("Expected a number"))
    return value


def _scalar(text: str, kind: str) -> Any:
    if kind != "boolean":
        return _number(text)
    truths = {"true": True, "false": False}
    if text.strip() not in truths:
        raise ValidationError(_("Expected true or false"))
    return truths[text.strip()]


def same_json(one: Any, other: Any) -> bool:
    """Compare as JSON: for Python, 1 equals True."""
    return one is other or (one is not ABSENT and other is not ABSENT and _sorted_json(one) == _sorted_json(other))


def in_words(value: Any) -> str:
    return value if isinstance(value, str) and value else _compact(value)


def readable(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
