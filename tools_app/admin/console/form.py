"""What a tool takes, as a form: a field for each argument, or all of them as one JSON text."""

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
    """A field with what there is to say about it."""

    field: forms.BoundField
    row: schema_table.SchemaRow
    parts: Sequence[schema_table.SchemaRow]
    help_id: str


class ArgumentsForm(forms.Form):
    """A field for each argument. `again` names those that must be typed in once more, whatever the schema says."""

    mode = FIELDS

    def __init__(self, schema: Schema, data: QueryDict | None = None, *, again: frozenset[str] = frozenset()) -> None:
        super().__init__(data, prefix="argument")
        known = schema_table.definitions(schema)
        needed = {*schema.get("required", ()), *again}
        self._rows = schema_table.rows(schema)
        self._tops = [row for row in self._rows if row.depth == 0]
        for number, (name, part) in enumerate(schema.get("properties", {}).items()):
            field = field_of(name, part, known, required=name in needed)
            field.widget.attrs["aria-describedby"] = f"about-{number}"
            if isinstance(part, Mapping) and part.get("default") not in (None, ""):
                field.widget.attrs["placeholder"] = in_words(part["default"])
            self.fields[name] = field

    def show(self, arguments: Mapping[str, Any]) -> bool:
        """Fill the form in; False where it has no place for these arguments, or would change them."""
        for name, value in arguments.items():
            field = self.fields.get(name)
            if not isinstance(field, Argument) or not field.holds(value):
                return False
            self.initial[name] = field.written(value)
        return True

    def arguments(self) -> dict[str, Any] | None:
        """What was typed in; None where something of it cannot be read, which the form then says."""
        if not self.is_valid():
            return None
        return {name: value for name, value in self.cleaned_data.items() if value is not ABSENT}

    def drafted(self) -> dict[str, Any]:
        """What was typed in as far as it can be read, and the rest as text: nothing gets lost."""
        self.is_valid()
        drafted = {name: value for name, value in self.cleaned_data.items() if value is not ABSENT}
        return drafted | {name: self[name].data for name in self.errors if name in self.fields and self[name].data}

    def tell(self, problems: Sequence[Problem]) -> None:
        """Put each problem beside its field."""
        for problem in problems:
            name = problem.path.removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")
            self.add_error(name if name in self.fields else None, problem.message)

    def lines(self) -> list[FormLine]:
        """Each field with what is said of it; first those without which there is no call."""
        found = []
        for number, (name, row) in enumerate(zip(self.fields, self._tops, strict=True)):
            inside = type(self.fields[name]) is Argument
            parts = [part for part in self._rows if inside and part.path.startswith((f"{name}.", f"{name}[]."))]
            found.append(FormLine(self[name], row, parts, f"about-{number}"))
        return sorted(found, key=lambda line: not line.field.field.required)


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
        """As for `ArgumentsForm`."""
        if not self.is_valid():
            return None
        given = self.cleaned_data[JSON]
        if isinstance(given, dict):
            return given
        self.add_error(JSON, ValidationError(_("Expected a JSON object, like %(example)s") % {"example": '{"a": 1}'}))
        return None

    def tell(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.add_error(JSON, f"{problem.path or '/'}: {problem.message}")


def has_fields(schema: Schema) -> bool:
    """Whether a form of fields can be made of it that people can use."""
    properties = schema.get("properties") or {}
    tops = [row for row in schema_table.rows(schema) if row.depth == 0]
    return len(tops) == len(properties) <= MOST_FIELDS and (bool(properties) or _closed(schema))


def _closed(schema: Schema) -> bool:
    return schema.get("additionalProperties") is False


def showing(
    schema: Schema, arguments: Mapping[str, Any], *, mode: str = FIELDS, again: frozenset[str] = frozenset()
) -> ArgumentsForm | JsonForm:
    """A form that shows these arguments: with fields, where that was wanted and they can hold them."""
    if mode == FIELDS and has_fields(schema):
        form = ArgumentsForm(schema, again=again)
        if form.show(arguments):
            return form
    whole = JsonForm()
    whole.show(arguments)
    return whole
