"""One argument of a tool as a field of a form: how it is typed in, and which JSON value that is.

A field only reads. Whether a value fits is for the tool's own checker to say, in the words that every caller gets.
"""

from __future__ import annotations

import json
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

ABSENT: Final = object()
"""What a field holds in which nothing was typed: the argument is not sent."""

_NUMBERS: Final = ("integer", "number")
_SCALARS: Final = frozenset({"string", "boolean", *_NUMBERS})


class Argument(forms.Field):
    """What is typed in for one argument, read as JSON; this one is for values that are written as JSON themselves."""

    box: type[forms.Widget] = forms.Textarea
    attributes: Mapping[str, Any] = {"rows": 3, "spellcheck": "false", "class": "hub-input hub-code"}
    written_as: str | Promise = gettext_lazy("JSON")
    """How to write it, where that does not show."""

    def __init__(self, name: str, *, required: bool, nullable: bool = False, **attributes: Any) -> None:
        self.nullable = nullable
        shown = {"autocomplete": "off", **self.attributes, **attributes}
        super().__init__(required=required, label=name, widget=self.box(attrs=shown))

    def clean(self, value: Any) -> Any:
        """Raises: ValidationError."""
        # However lines end, a browser sends them ended in its own way.
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
        return self.read(text)

    def read(self, text: str) -> Any:
        """Raises: ValidationError."""
        return _parsed(text)

    def written(self, value: Any) -> str:
        """The text from which this value is read."""
        return readable(value)

    def holds(self, value: Any) -> bool:
        """Whether the value comes back as it is when it is shown here and sent again."""
        try:
            return same(self.clean(self.written(value)), value)
        except ValidationError:
            return False


class Text(Argument):
    attributes = {"rows": 1, "class": "hub-input"}
    written_as = ""

    def read(self, text: str) -> Any:
        return text

    def written(self, value: Any) -> str:
        return value if isinstance(value, str) else readable(value)


class LineField(Text):
    """Text that the browser helps with: a date."""

    box = forms.TextInput
    attributes = {"class": "hub-input"}


class Number(Argument):
    box = forms.NumberInput
    attributes = {"class": "hub-input"}
    written_as = ""

    def read(self, text: str) -> Any:
        return _number(text)


class Choice(Argument):
    """One of some values; each is sent as JSON."""

    box = forms.Select
    attributes = {"class": "hub-input"}
    written_as = ""

    def __init__(self, name: str, values: Sequence[Any], *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        nothing = _("Choose …") if required else _("(omit)")
        self.widget.choices = [("", nothing), *((_compact(value), in_words(value)) for value in values)]

    def written(self, value: Any) -> str:
        return _compact(value)


class Mixed(Argument):
    """A text or something else: what can be read as a number is one, and a text that looks like one has quotes."""

    attributes = {"rows": 1, "class": "hub-input"}
    written_as = gettext_lazy('Quote numbers to send them as text: "7"')

    def __init__(self, name: str, types: frozenset[str], *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        self._types = types

    def read(self, text: str) -> Any:
        try:
            value = json_text.parsed(text.encode())
        except JsonError:
            return text
        number = isinstance(value, int | float) and not isinstance(value, bool) and not self._types.isdisjoint(_NUMBERS)
        truth = isinstance(value, bool) and "boolean" in self._types
        return value if number or truth or isinstance(value, str) else text

    def written(self, value: Any) -> str:
        if isinstance(value, str) and same(self.read(value), value):
            return value
        return _compact(value)


class Lines(Argument):
    """A list of simple values, each on a line of its own."""

    attributes = {"rows": 3, "class": "hub-input"}
    written_as = gettext_lazy("One per line.")

    def __init__(self, name: str, kind: str, *, required: bool, nullable: bool = False) -> None:
        super().__init__(name, required=required, nullable=nullable)
        self._kind = kind

    def read(self, text: str) -> Any:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > MOST_LINES:
            raise ValidationError(_("More than %(most)s lines") % {"most": f"{MOST_LINES:,}"})
        found = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(line if self._kind == "string" else _scalar(line, self._kind))
            except ValidationError as error:
                said = {"number": number, "problem": error.message}
                raise ValidationError(_("Line %(number)s: %(problem)s") % said) from error
        return found

    def written(self, value: Any) -> str:
        if not isinstance(value, list):
            return readable(value)
        return "\n".join(item if isinstance(item, str) else _compact(item) for item in value)


def field_of(name: str, part: Any, known: Mapping[str, Any], *, required: bool) -> Argument:
    """The field for a part of a schema; what has no simple form is typed in as JSON."""
    shape, nullable = _without_null(resolved(part, known), known)
    values = [shape["const"]] if "const" in shape else shape.get("enum")
    kind = shape.get("type")
    if kind == "boolean" and values is None:
        values = [True, False]
    if isinstance(values, list) and 0 < len(values) <= MOST_CHOICES:
        return Choice(name, [value for value in values if value is not None], required=required, nullable=nullable)
    if kind in _NUMBERS:
        return Number(name, required=required, nullable=nullable, **_bounds(shape))
    if kind == "string":
        return _text(name, shape, required=required, nullable=nullable)
    if "string" in (types := _scalar_types(shape, known)):
        return Mixed(name, types, required=required, nullable=nullable)
    if kind == "array" and (item := resolved(shape.get("items"), known).get("type")) in _SCALARS:
        return Lines(name, str(item), required=required, nullable=nullable)
    return Argument(name, required=required, nullable=nullable)


def _text(name: str, shape: Mapping[str, Any], *, required: bool, nullable: bool) -> Argument:
    if shape.get("format") == "date":
        return LineField(name, required=required, nullable=nullable, type="date")
    longest = shape.get("maxLength")
    rows = 1 if isinstance(longest, int) and longest <= SHORT else 2
    return Text(name, required=required, nullable=nullable, rows=rows)


def _bounds(shape: Mapping[str, Any]) -> dict[str, Any]:
    """What the browser is told; the checker has the last word, about exclusive bounds too."""
    found: dict[str, Any] = {"step": "1" if shape["type"] == "integer" else "any"}
    for attribute, keyword in (("min", "minimum"), ("max", "maximum")):
        if isinstance(shape.get(keyword), int | float):
            found[attribute] = shape[keyword]
    return found


def _without_null(shape: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """A shape that may be null, without that: an empty field says it."""
    kind = shape.get("type")
    if isinstance(kind, list) and "null" in kind:
        others = [name for name in kind if name != "null"]
        return {**shape, "type": others[0] if len(others) == 1 else others}, True
    options = shape.get("anyOf")
    if not isinstance(options, list):
        return shape, isinstance(shape.get("enum"), list) and None in shape["enum"]
    followed = [resolved(option, known) for option in options]
    others = [option for option in followed if option.get("type") != "null"]
    nullable = len(others) < len(followed)
    if len(others) == 1:
        return {**others[0], **{key: value for key, value in shape.items() if key != "anyOf"}}, nullable
    return {**shape, "anyOf": others}, nullable


def _scalar_types(shape: Mapping[str, Any], known: Mapping[str, Any]) -> frozenset[str]:
    """The types of which it may be one, where all of them are simple."""
    kind = shape.get("type")
    named = kind if isinstance(kind, list) else None
    if named is None and isinstance(options := shape.get("anyOf"), list):
        named = [resolved(option, known).get("type") for option in options]
    return frozenset(named) if _all_scalar(named) else frozenset()


def _all_scalar(named: Any) -> TypeGuard[list[str]]:
    return isinstance(named, list) and all(isinstance(name, str) and name in _SCALARS for name in named)


def _parsed(text: str) -> Any:
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


def same(one: Any, other: Any) -> bool:
    """Whether both are the same JSON: for Python, 1 is True."""
    return one is other or (one is not ABSENT and other is not ABSENT and _sorted(one) == _sorted(other))


def in_words(value: Any) -> str:
    return value if isinstance(value, str) and value else _compact(value)


def readable(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
