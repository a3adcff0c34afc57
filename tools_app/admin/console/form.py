"""The form for the arguments of a tool: a field for each, or one JSON text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _

from tools_app.admin.console.fields import ABSENT, Argument, field_of, in_words, readable
from tools_app.catalog import schema_table
from tools_app.sdk.errors import Problem
from tools_app.sdk.schemas import Schema

MOST_FIELDS: Final = 80
FIELDS: Final = "fields"
JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class FormLine:
    """A field with its documentation."""

    field: forms.BoundField
    row: schema_table.SchemaRow
    parts: Sequence[schema_table.SchemaRow]
    help_id: str


class ArgumentsForm(forms.Form):
    """A field for each argument. `again`: arguments that must be entered again, even if optional."""

    mode = FIELDS

    def __init__(self, schema: Schema, data: QueryDict | None = None, *, again: frozenset[str] = frozenset()) -> None:
        super().__init__(data, prefix="argument")
        definitions = schema_table.definitions(schema)
        required = {*schema.get("required", ()), *again}
        self._rows = schema_table.rows(schema)
        self._tops = [row for row in self._rows if row.depth == 0]
        for number, (name, part) in enumerate(schema.get("properties", {}).items()):
            field = field_of(name, part, definitions, required=name in required)
            field.widget.attrs["aria-describedby"] = f"about-{number}"
            if isinstance(part, Mapping) and part.get("default") not in (None, ""):
                field.widget.attrs["placeholder"] = in_words(part["default"])
            self.fields[name] = field

    def show(self, arguments: Mapping[str, Any]) -> bool:
        """Fill in the form. False if it cannot hold these arguments unchanged."""
        for name, value in arguments.items():
            field = self.fields.get(name)
            if not isinstance(field, Argument) or not field.holds(value):
                return False
            self.initial[name] = field.as_text(value)
        return True

    def arguments(self) -> dict[str, Any] | None:
        """The parsed arguments; None if one is invalid, with an error on its field."""
        if not self.is_valid():
            return None
        return {name: value for name, value in self.cleaned_data.items() if value is not ABSENT}

    def draft(self) -> dict[str, Any]:
        """The parsed arguments; invalid ones as the text that was entered, so that no input is lost."""
        self.is_valid()
        values = {name: value for name, value in self.cleaned_data.items() if value is not ABSENT}
        return values | {name: self[name].data for name in self.errors if name in self.fields and self[name].data}

    def tell(self, problems: Sequence[Problem]) -> None:
        """Attach each problem to its field."""
        for problem in problems:
            name = problem.path.removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")
            self.add_error(name if name in self.fields else None, problem.message)

    def lines(self) -> list[FormLine]:
        """Fields with their documentation, required ones first."""
        lines = []
        for number, (name, row) in enumerate(zip(self.fields, self._tops, strict=True)):
            inside = type(self.fields[name]) is Argument
            parts = [part for part in self._rows if inside and part.path.startswith((f"{name}.", f"{name}[]."))]
            lines.append(FormLine(self[name], row, parts, f"about-{number}"))
        return sorted(lines, key=lambda line: not line.field.field.required)


class JsonForm(forms.Form):
    """All arguments as one JSON text."""

    mode = JSON

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.fields[JSON] = Argument(_("Arguments"), required=True, rows=12)
        self.fields[JSON].widget.attrs["aria-describedby"] = "about-json"

    def show(self, arguments: Mapping[str, Any]) -> None:
        self.initial[JSON] = readable(arguments)

    def arguments(self) -> dict[str, Any] | None:
        """See `ArgumentsForm`."""
        if not self.is_valid():
            return None
        arguments = self.cleaned_data[JSON]
        if isinstance(arguments, dict):
            return arguments
        self.add_error(JSON, ValidationError(_("Expected a JSON object, like %(example)s") % {"example": '{"a": 1}'}))
        return None

    def tell(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.add_error(JSON, f"{problem.path or '/'}: {problem.message}")


def has_fields(schema: Schema) -> bool:
    """True if every argument can have a field, and there are not too many."""
    properties = schema.get("properties") or {}
    tops = [row for row in schema_table.rows(schema) if row.depth == 0]
    return len(tops) == len(properties) <= MOST_FIELDS and (bool(properties) or _is_closed(schema))


def _is_closed(schema: Schema) -> bool:
    return schema.get("additionalProperties") is False


def form_for(
    schema: Schema, arguments: Mapping[str, Any], *, mode: str = FIELDS, again: frozenset[str] = frozenset()
) -> ArgumentsForm | JsonForm:
    """A form with these arguments: fields if `mode` asks for them and they can hold the values, else JSON."""
    if mode == FIELDS and has_fields(schema):
        form = ArgumentsForm(schema, again=again)
        if form.show(arguments):
            return form
    json_form = JsonForm()
    json_form.show(arguments)
    return json_form
