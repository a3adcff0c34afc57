"""The arguments of a tool as a tree: objects and lists of objects have fields of their own, within limits.

What has no simple form – alternatives, open objects, what is nested too deep or has too many parts – is one field that
takes JSON. Keys of parts are JSON pointers without the first slash, like those in the problems that the checker finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.admin.console.fields import ABSENT, Argument, field_of, without_null
from tools_app.catalog import schema_table
from tools_app.catalog.schema_table import SchemaRow, resolved

# Levels of objects in objects, items of a list, and fields of a form: a schema or a request must not make a page large.
MOST_DEPTH: Final = 4
MOST_ITEMS: Final = 20
MOST_FIELDS: Final = 150
# Choices count as fields; the rows that describe what is inside of JSON are limited for the whole form.
CHOICES_OF_A_FIELD: Final = 10
MOST_ROWS: Final = 200
# Of a skeleton.
MOST_MEMBERS: Final = 200

_ALTERNATIVES: Final = ("oneOf", "anyOf", "allOf", "if", "patternProperties")
_EXAMPLES: Final[Mapping[str, Any]] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


@dataclass(slots=True)
class Part:
    """An argument, a member of an object, or an item of a list."""

    key: str
    name: str
    row: SchemaRow
    shape: Mapping[str, Any]
    is_required: bool
    is_nullable: bool = False
    is_item: bool = False
    # Of a part that is one input.
    input: Argument | None = None
    # Of an object its members; of a list its items, which are objects.
    children: list[Part] = field(default_factory=list)
    is_list: bool = False
    may_add: bool = False
    # What JSON text in its field has to be.
    inside: list[SchemaRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Of an item, as people count."""
        return int(self.name) + 1

    @property
    def list_key(self) -> str:
        return self.key.rpartition("/")[0]

    def inputs(self) -> Iterator[tuple[Part, Argument]]:
        """Itself and what is in it, as far as it is one input."""
        if self.input is not None:
            yield self, self.input
        for child in self.children:
            yield from child.inputs()

    def value(self, entered: Mapping[str, Any]) -> Any:
        """The value of what was entered, by key; ABSENT if nothing was."""
        if self.input is not None:
            return entered.get(self.key, ABSENT)
        if self.is_list:
            items = [child.value(entered) for child in self.children]
            return items or self._empty([])
        members = {child.name: child.value(entered) for child in self.children}
        members = {name: value for name, value in members.items() if value is not ABSENT}
        return members or ({} if self.is_item else self._empty({}))

    def _empty(self, value: Any) -> Any:
        if not self.is_required:
            return ABSENT
        return None if self.is_nullable else value


class TooManyPartsError(Exception):
    """What was entered has more parts than a form can have."""


@dataclass(slots=True)
class Given:
    """What the fields are to hold. `as_text`: the part is entered as JSON; `items`: how many a list has."""

    as_text: Callable[[str], bool] = lambda key: False
    items: Callable[[str], int] = lambda key: 0


class Builder:
    """Makes the parts of one form."""

    def __init__(self, definitions: Mapping[str, Any], given: Given) -> None:
        self._definitions, self._given = definitions, given
        self._left, self._rows = MOST_FIELDS, MOST_ROWS

    def part(
        self, key: str, name: str, schema: Any, *, required: bool, entered: bool = True, depth: int = 0, path: str = ""
    ) -> Part:
        """`entered`: everything that it is in is there, so that the browser can insist on a required value.

        Raises: TooManyPartsError.
        """
        shape, nullable = without_null(resolved(schema, self._definitions), self._definitions)
        path = path or name
        row = schema_table.row(path, schema, self._definitions, required=required)
        part = Part(key, name, row, shape, required, nullable)
        if not self._given.as_text(key) and depth < MOST_DEPTH:
            members = _members(shape)
            if members is not None and len(members) <= self._left:
                self._add_members(part, members, entered and required, depth, path)
                return part
            item = resolved(shape.get("items"), self._definitions) if shape.get("type") == "array" else {}
            if (members := _members(item)) is not None:
                self._add_items(part, item, members, depth, path)
                return part
        part.input = field_of(name, schema, self._definitions, required=required and entered)
        choices = getattr(part.input.widget, "choices", ())
        self._left -= 1 + len(choices) // CHOICES_OF_A_FIELD
        if type(part.input) is Argument:
            part.inside = schema_table.rows_below(path, schema, self._definitions)[: self._rows]
            self._rows -= len(part.inside)
        return part

    def _add_members(self, part: Part, members: Mapping[str, Any], entered: bool, depth: int, path: str) -> None:
        names = part.shape.get("required")
        required = set(map(str, names)) if isinstance(names, list) else set()
        for name, schema in members.items():
            key, below = f"{part.key}/{pointer(name)}", f"{path}.{name}"
            child = self.part(
                key, name, schema, required=name in required, entered=entered, depth=depth + 1, path=below
            )
            part.children.append(child)
        part.children.sort(key=lambda child: not child.is_required)

    def _add_items(
        self, part: Part, item: Mapping[str, Any], members: Mapping[str, Any], depth: int, path: str
    ) -> None:
        part.is_list = True
        count = self._given.items(part.key)
        for index in range(count):
            if index >= MOST_ITEMS or len(members) > self._left:
                raise TooManyPartsError
            name = str(index)
            row = schema_table.row(f"{path}[{index}]", item, self._definitions, required=True)
            child = Part(f"{part.key}/{index}", name, row, item, is_required=True, is_item=True)
            self._add_members(child, members, True, depth + 1, f"{path}[{index}]")
            part.children.append(child)
        part.may_add = count < MOST_ITEMS and len(members) <= self._left


def pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _members(shape: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The members of an object that can have fields; None if it has none, or alternatives with members of their own."""
    members = shape.get("properties")
    if not isinstance(members, Mapping) or not members or shape.get("type", "object") != "object":
        return None
    return None if any(_brings_members(shape.get(keyword)) for keyword in _ALTERNATIVES) else members


def _brings_members(alternative: Any) -> bool:
    options = alternative if isinstance(alternative, list) else [alternative]
    return any(isinstance(option, Mapping) and not option.keys() <= {"required"} for option in options)


def fits(part: Part, value: Any) -> bool:
    """True if the fields of the part can hold the value, as far as its own form goes."""
    if part.input is not None:
        return part.input.holds(value)
    if part.is_list:
        return isinstance(value, list) and (bool(value) or (part.is_required and not part.is_nullable))
    known = {child.name for child in part.children}
    return isinstance(value, dict) and value.keys() <= known and (bool(value) or part.is_item or part.is_required)


def skeleton(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """An example to fill in: what is required, or all members where nothing is."""
    return _Skeleton(definitions).of(schema, 0)


class _Skeleton:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions, self._left = definitions, MOST_MEMBERS

    def of(self, schema: Any, depth: int) -> Any:
        shape, nullable = without_null(resolved(schema, self._definitions), self._definitions)
        for keyword in ("default", "const"):
            if keyword in shape:
                return shape[keyword]
        if isinstance(choices := shape.get("enum"), list) and choices:
            return choices[0]
        for keyword in ("oneOf", "anyOf", "allOf"):
            if isinstance(options := shape.get(keyword), list) and options and "properties" not in shape:
                return self.of(options[0], depth + 1) if depth < 2 * MOST_DEPTH else None
        kind = shape.get("type", "object" if "properties" in shape else None)
        if kind == "object":
            return self._members(shape, depth)
        if kind == "array" and depth < 2 * MOST_DEPTH and shape.get("items"):
            return [self.of(shape["items"], depth + 1)]
        if kind in ("integer", "number") and isinstance(shape.get("minimum"), int | float):
            return shape["minimum"]
        kind = kind[0] if isinstance(kind, list) and kind else kind
        return None if nullable and kind is None else _EXAMPLES.get(str(kind))

    def _members(self, shape: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = shape.get("properties")
        if not isinstance(properties, Mapping) or depth >= 2 * MOST_DEPTH:
            return {}
        required = shape.get("required")
        names = [name for name in properties if isinstance(required, list) and name in required] or list(properties)
        members = {}
        for name in names:
            if self._left <= 0:
                break
            self._left -= 1
            members[str(name)] = self.of(properties[name], depth + 1)
        return members
