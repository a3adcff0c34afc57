"""The form for the arguments of a tool: fields for each and its parts, or one JSON text."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _

from tools_app.admin.console.fields import ABSENT, Argument, TextArgument, in_words, readable
from tools_app.admin.console.parts import Builder, Given, Part, TooManyPartsError, fits, pointer, skeleton
from tools_app.catalog import schema_table
from tools_app.sdk.errors import Problem
from tools_app.sdk.schemas import Schema
from tools_app.text import json_text
from tools_app.text.json_text import JsonError

MOST_FIELDS: Final = 80
# Names of inputs: of a value, and of the number of items in a list.
PREFIX: Final = "argument"
COUNT: Final = "count"
FIELDS: Final = "fields"
JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class FormLine:
    """An argument or a part of one, with its documentation. Without a field it has lines of its own."""

    part: Part
    field: forms.BoundField | None
    lines: Sequence[FormLine]
    help_id: str
    # False: an optional part in which nothing was entered, which is folded.
    is_open: bool

    @property
    def row(self) -> schema_table.SchemaRow:
        return self.part.row


class ArgumentsForm(forms.Form):
    """Fields for the arguments and their parts. `again`: arguments that must be entered again, even if optional.

    With `data` it has what was submitted; `as_draft` shows that without looking for mistakes.
    """

    mode = FIELDS

    def __init__(
        self,
        schema: Schema,
        data: QueryDict | None = None,
        *,
        again: frozenset[str] = frozenset(),
        as_draft: bool = False,
    ) -> None:
        super().__init__(None if as_draft else data, prefix=PREFIX)
        self._schema, self._required = schema, {*schema.get("required", ()), *again}
        self.has_too_many = False
        given = _submitted(data) if data is not None else Given()
        try:
            self._build(given)
        except TooManyPartsError:
            self.has_too_many = True
            self._build(Given(as_text=given.as_text))
        if data is not None:
            for key, field in self.fields.items():
                if text := data.get(f"{PREFIX}-{key}"):
                    self._set(key, field, text)

    def _build(self, given: Given) -> None:
        """Raises: TooManyPartsError."""
        self.fields.clear()
        builder = Builder(schema_table.definitions(self._schema), given)
        properties = self._schema.get("properties", {})
        self.parts = [
            builder.part(pointer(name), name, schema, required=name in self._required)
            for name, schema in properties.items()
        ]
        self._by_key = {}
        waiting = list(self.parts)
        while waiting:
            part = waiting.pop()
            self._by_key[part.key] = part
            waiting.extend(part.children)
        for number, (part, field) in enumerate(one for top in self.parts for one in top.inputs()):
            field.widget.attrs["aria-describedby"] = f"about-{number}"
            if part.shape.get("default") not in (None, ""):
                field.widget.attrs["placeholder"] = in_words(part.shape["default"])
            self.fields[part.key] = field

    def _set(self, key: str, field: forms.Field, text: str) -> None:
        self.initial[key] = text
        if isinstance(field, TextArgument):
            field.make_room(text)

    def show(self, arguments: Mapping[str, Any]) -> bool:
        """Fill in the form. False if it cannot hold these arguments unchanged."""
        if not {pointer(name) for name in arguments} <= {part.key for part in self.parts}:
            return False
        as_text: set[str] = set()
        given = Given(as_text.__contains__, lambda key: _length(value_at(arguments, key)))
        while True:
            try:
                self._build(given)
            except TooManyPartsError:
                return False
            misfits = [part for part in self._by_key.values() if not self._holds(part, arguments)]
            if not misfits:
                break
            if any(part.input is not None for part in misfits):
                return False
            # An item has no text of its own: its list has.
            as_text |= {part.list_key if part.is_item else part.key for part in misfits}
        for key, field in self.fields.items():
            value = value_at(arguments, key)
            if value is not ABSENT and isinstance(field, Argument):
                self._set(key, field, field.as_text(value))
        return True

    def _holds(self, part: Part, arguments: Mapping[str, Any]) -> bool:
        value = value_at(arguments, part.key)
        return value is ABSENT or fits(part, value)

    def arguments(self) -> dict[str, Any] | None:
        """The parsed arguments; None if one is invalid, with an error on its field."""
        if self.has_too_many:
            self.add_error(None, _("Too many parts for fields. Edit as JSON."))
        if not self.is_valid():
            return None
        return self._combined(self.cleaned_data)

    def _combined(self, entered: Mapping[str, Any]) -> dict[str, Any]:
        values = {part.name: part.value(entered) for part in self.parts}
        return {name: value for name, value in values.items() if value is not ABSENT}

    def draft(self) -> str:
        """What was entered, as JSON; texts that are no JSON stay as they were typed, so that no input is lost."""
        self.is_valid()
        entered, typed = dict(self.cleaned_data), {}
        for key in self.errors:
            text = str(self[key].data or "") if key in self.fields else ""
            if text and type(self.fields[key]) is Argument:
                mark = secrets.token_hex(16)
                typed[json.dumps(mark)] = text
                entered[key] = mark
            elif text:
                entered[key] = text
        whole = readable(self._combined(entered))
        for mark, text in typed.items():
            whole = whole.replace(mark, text)
        return whole

    def tell(self, problems: Sequence[Problem]) -> None:
        """Attach each problem to its field, or to the part that it is about."""
        for problem in problems:
            key, rest = problem.path.removeprefix("/"), ""
            while key and key not in self._by_key:
                key, _slash, last = key.rpartition("/")
                rest = f"/{last}{rest}"
            message = f"{rest}: {problem.message}" if key and rest else problem.message
            if key in self._by_key and key not in self.fields:
                self._by_key[key].problems.append(message)
            else:
                self.add_error(key or None, message)

    def items_of(self, key: str) -> Sequence[Part]:
        part = self._by_key.get(key)
        return part.children if part is not None else ()

    def add_skeleton(self, key: str) -> bool:
        """Complete the text of a part by an example. False: the text is no JSON."""
        field, part = self.fields.get(key), self._by_key.get(key)
        if part is None or field is None or type(field) is not Argument:
            return True
        text = _completed(str(self.initial.get(key, "")), part.shape, schema_table.definitions(self._schema))
        if text is not None:
            self.initial[key] = text
        return text is not None

    def lines(self) -> list[FormLine]:
        """The arguments with their documentation, required ones first."""
        return self._lines(sorted(self.parts, key=lambda part: not part.is_required))

    def _lines(self, parts: Sequence[Part]) -> list[FormLine]:
        lines = []
        for part in parts:
            bound = self[part.key] if part.input is not None else None
            help_id = part.input.widget.attrs["aria-describedby"] if part.input is not None else ""
            below = self._lines(part.children)
            is_open = part.is_required or bool(part.problems) or any(self._is_used(key) for key in _keys(part))
            lines.append(FormLine(part, bound, below, help_id, is_open or part.is_list))
        return lines

    def _is_used(self, key: str) -> bool:
        return bool(self.initial.get(key)) or key in (self.errors if self.is_bound else ())


def _keys(part: Part) -> Iterator[str]:
    return (one.key for one, _field in part.inputs())


def value_at(arguments: Mapping[str, Any], key: str) -> Any:
    """The part of the arguments with that key; ABSENT if there is none."""
    value: Any = arguments
    for step in key.split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, Mapping) and name in value:
            value = value[name]
        else:
            return ABSENT
    return value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _submitted(data: QueryDict) -> Given:
    def items(key: str) -> int:
        number = data.get(f"{COUNT}-{key}", "")
        return int(number) if number.isascii() and number.isdecimal() and len(number) < 5 else 0

    return Given(lambda key: f"{PREFIX}-{key}" in data, items)


def with_item(data: QueryDict, key: str) -> QueryDict:
    """The submitted form with one more item in a list."""
    changed = data.copy()
    changed[f"{COUNT}-{key}"] = str(_submitted(data).items(key) + 1)
    return changed


def without_item(data: QueryDict, key: str, index: int) -> QueryDict:
    """The submitted form without that item; those after it move up."""
    changed = QueryDict(mutable=True)
    starts = tuple((f"{kind}-{key}/", kind) for kind in (PREFIX, COUNT))
    for name, values in data.lists():
        start = next((start for start, _kind in starts if name.startswith(start)), "")
        number, _slash, rest = name.removeprefix(start).partition("/")
        if not start or not number.isdecimal() or int(number) < index:
            changed.setlist(name, values)
        elif int(number) > index:
            changed.setlist(f"{start}{int(number) - 1}/{rest}", values)
    changed[f"{COUNT}-{key}"] = str(max(0, _submitted(data).items(key) - 1))
    return changed


class JsonForm(forms.Form):
    """All arguments as one JSON text."""

    mode = JSON

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.fields[JSON] = Argument(_("Arguments"), required=True, rows=12)
        self.fields[JSON].widget.attrs["aria-describedby"] = "about-json"

    def show(self, arguments: Mapping[str, Any]) -> None:
        self.show_text(readable(arguments))

    def show_text(self, text: str) -> None:
        self.initial[JSON] = text

    @classmethod
    def of(cls, text: str) -> JsonForm:
        form = cls()
        form.show_text(text)
        return form

    def add_skeleton(self, schema: Schema) -> None:
        """Complete the text by an example; a text that is no JSON object stays, with the problem."""
        text = str(self.data.get(JSON, ""))
        completed = _completed(text, schema, schema_table.definitions(schema))
        if completed is not None:
            self.is_bound = False
            self.show_text(completed)

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


def _completed(text: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str | None:
    """The text with what an example has besides; None if it is no JSON."""
    example = skeleton(schema, definitions)
    if not text.strip():
        return readable(example)
    try:
        value = json_text.parsed(text.encode(errors="replace"))
    except JsonError:
        return None
    return readable({**example, **value} if isinstance(value, dict) and isinstance(example, dict) else value)


def has_fields(schema: Schema) -> bool:
    """True if there are not too many arguments for fields, and at least one."""
    properties = schema.get("properties") or {}
    return len(properties) <= MOST_FIELDS and (bool(properties) or _is_closed(schema))


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
