"""Schemas of OpenAPI 3.0 and 3.1 as JSON Schema 2020-12, with the components that they refer to in `$defs`.

One conversion makes all schemas of one operation. It converts level by level and has a budget: of a very large schema
the upper levels are listed, and what is below accepts everything. What the result says is never more than what the
document said, as the service checks the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from tools_app.sdk.schemas import Schema
from tools_app.sources.openapi import texts
from tools_app.sources.openapi.references import UnresolvedError, resolved, target_of

# Characters of the schemas of one tool.
BUDGET: Final = 8_000
NOT_IN_FULL: Final = "Not listed in full."
# Characters of descriptions, by level; and if there is no room for all levels.
_DESCRIPTIONS: Final = (300, 200, 120, 80)
_SHORT: Final = (200, 60, 0)
_MOST_NAME: Final = 500
_MOST_ENUM: Final = 1_500
_ENUM_SHOWN: Final = 300
_MOST_DEFAULT: Final = 300
_MOST_FORMAT: Final = 60
_MOST_EXAMPLE: Final = 100
_MOST_PATTERN: Final = 300
# The least that a part costs, and what may be used beyond the budget to name all parts of a schema.
_LEAST: Final = 10
_RESERVE: Final = 16_000
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Keywords that are taken as they are → whether a value of them is valid.
_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), texts.is_number),
    "multipleOf": lambda value: texts.is_number(value) and value > 0,
    **dict.fromkeys(
        (
            *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
            *("minContains", "maxContains"),
        ),
        lambda value: texts.is_number(value) and value >= 0 and value == int(value),
    ),
    **dict.fromkeys(("uniqueItems", "deprecated"), lambda value: value is True),
    **dict.fromkeys(
        ("format", "contentEncoding", "contentMediaType"),
        lambda value: isinstance(value, str) and 0 < len(value) <= _MOST_FORMAT and value.isprintable(),
    ),
    "default": lambda value: texts.fits(value, _MOST_DEFAULT),
    "const": lambda value: texts.fits(value, _MOST_ENUM),
}
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES: Final = (
    *("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"),
    *("unevaluatedProperties", "unevaluatedItems"),
)
# Weaker parts under these keywords make the whole accept less.
_INVERTING: Final = ("not", "if", "then", "else", "maxContains")
_CLOSING: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_WITH_PARTS: Final = frozenset({*_MAPS, *_LISTS, *_SINGLES})
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class Conversion:
    """The schemas of one operation."""

    def __init__(
        self,
        root: dict[str, Any],
        *,
        version: str = "3.1",
        answers: bool = False,
        budget: int = BUDGET,
        short: bool = False,
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        # Each once, in order.
        self.problems: dict[str, None] = {}
        self.characters = 0
        self.is_cut = False
        self._root, self._is_old, self._answers, self._left = root, version.startswith("3.0"), answers, budget
        self._descriptions = _SHORT if short else _DESCRIPTIONS
        self._is_weaker = False
        # Reference → name in `$defs`.
        self._names: dict[str, str] = {}
        # Source, where its conversion goes, level, and the name of the definition that it is part of.
        self._pending: deque[tuple[Any, Schema, int, str]] = deque()
        self._extra: list[tuple[Schema, Mapping[str, Schema]]] = []
        self._converted: list[Schema] = []
        self._refers: dict[str, set[str]] = {}

    def add(
        self, source: Any, level: int = 0, definition: str = "", *, extra: Mapping[str, Schema] | None = None
    ) -> Schema:
        """The conversion of a schema. It is empty until `finish`. `extra`: properties that it gets as they are."""
        target: Schema = {}
        if extra:
            self._extra.append((target, extra))
        self._pending.append((source, target, level, definition))
        return target

    def finish(self) -> None:
        while self._pending:
            source, target, level, definition = self._pending.popleft()
            if self._left <= 0:
                self._cut(source, target)
                continue
            self._convert(source, target, level, definition)
            self._converted.append(target)
            self._charge(_own_size(target))
            if isinstance(source, dict) and source.get("nullable") is True:
                self._accept_null(target)
        if self._is_weaker:
            self._relax()
        for target, extra in self._extra:
            target["properties"] = {**target.get("properties", {}), **extra}
        if self._is_recursive():
            self.problems["It has a schema that refers to itself; some clients cannot read those."] = None
        if self.is_cut:
            self.problems["Its schemas are large: only their upper levels are listed."] = None

    def _charge(self, characters: int) -> None:
        self.characters += characters
        self._left -= characters

    def _cut(self, source: Any, target: Schema) -> None:
        """The part of a schema for which there is no room."""
        if not isinstance(source, dict):
            return
        self.is_cut = self._is_weaker = True
        kind = source.get("type")
        if isinstance(kind, str) and kind in _TYPES and source.get("nullable") is not True:
            target["type"] = kind
        if self._left > -_RESERVE // 4 and kind in (None, "object", "array"):
            target["description"] = NOT_IN_FULL
        self._charge(_own_size(target))

    # ---- one schema

    def _convert(self, source: Any, target: Schema, level: int, definition: str) -> None:
        if not isinstance(source, dict):
            if source is False:
                target["not"] = {}
            return
        if "$ref" in source:
            self._refer(source, target, level, definition)
        # Beside a reference, version 3.0 ignores everything; authors still describe it.
        if "$ref" not in source or not self._is_old:
            self._types(source, target)
            self._values(source, target)
            self._choices(source, target)
            self._parts(source, target, level, definition)
        self._describe(source, target, level)

    def _refer(self, source: Mapping[str, Any], target: Schema, level: int, definition: str) -> None:
        reference = source["$ref"]
        try:
            name = self._name(reference, level)
        except UnresolvedError as error:
            target["description"] = f"Defined elsewhere: {texts.text(str(reference), 100, line=True)}"
            self.problems[f"A schema is missing: {error}."] = None
            self._is_weaker = True
            return
        target["$ref"] = f"#/$defs/{name}"
        self._refers.setdefault(definition, set()).add(name)

    def _name(self, reference: Any, level: int) -> str:
        if isinstance(reference, str) and reference in self._names:
            return self._names[reference]
        source = target_of(self._root, reference)
        resolved(self._root, source)  # References that lead back to themselves mean nothing.
        last = str(reference).rsplit("/", 1)[-1]
        name = last
        if not _ACCEPTED.fullmatch(last) or not str(reference).startswith("#/components/schemas/"):
            digest = hashlib.sha256(str(reference).encode(errors="surrogatepass")).hexdigest()
            name = f"{_OTHERS.sub('_', last).strip('_')[:40] or 'part'}_{digest[:8]}"
        while name in self.definitions:
            name = f"{name}_"
        self._names[reference] = name
        self._charge(len(name) + 6)
        self.definitions[name] = self.add(source, level, name)
        return name

    def _values(self, source: Mapping[str, Any], target: Schema) -> None:
        for keyword, value in source.items():
            if (accepts := _VALUES.get(keyword)) is not None and accepts(value):
                target[keyword] = value
        for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if source.get(exclusive) is True and limit in target:
                target[exclusive] = target.pop(limit)
        if isinstance(pattern := source.get("pattern"), str):
            if len(pattern) <= _MOST_PATTERN and not texts.UNSTORABLE.search(pattern):
                target["pattern"] = pattern
            else:
                self._is_weaker = True
        self._required(source, target)

    def _required(self, source: Mapping[str, Any], target: Schema) -> None:
        if isinstance(required := source.get("required"), list) and self._has_room(len(required)):
            names = [name for name in required if isinstance(name, str) and _is_name(name)]
            properties = _mapping(source.get("properties"))
            names = [name for name in names if not self._is_left_out(properties.get(name))]
            if names:
                target["required"] = list(dict.fromkeys(names))
        dependent = source.get("dependentRequired")
        if isinstance(dependent, dict) and texts.fits(dependent, _MOST_ENUM):
            target["dependentRequired"] = {
                name: list(dict.fromkeys(names))
                for name, names in dependent.items()
                if isinstance(names, list) and all(isinstance(one, str) and _is_name(one) for one in (name, *names))
            }

    def _types(self, source: Mapping[str, Any], target: Schema) -> None:
        named = source.get("type")
        types = named if isinstance(named, list) else [named]
        types = [kind for kind in types if isinstance(kind, str)]
        if types and _TYPES.issuperset(types):
            target["type"] = types[0] if len(types) == 1 else list(dict.fromkeys(types))
        elif types:
            # `file`, `date`, `any`: whatever it is, the service knows.
            self._is_weaker = True

    def _choices(self, source: Mapping[str, Any], target: Schema) -> None:
        if isinstance(choices := source.get("enum"), list) and choices:
            if texts.fits(choices, _MOST_ENUM):
                target["enum"] = list(choices)
            else:
                shown = texts.text(", ".join(map(str, choices[:50])), _ENUM_SHOWN, line=True)
                target["description"] = f"One of {len(choices):,} values, such as {shown}"
                self._is_weaker = True

    def _parts(self, source: Mapping[str, Any], target: Schema, level: int, definition: str) -> None:
        if source.keys().isdisjoint(_WITH_PARTS):
            return
        unnamed = False
        for keyword, parts in source.items():
            if keyword in _MAPS and isinstance(parts, dict):
                if self._has_room(len(parts)):
                    self._map(keyword, parts, target, level + 1, definition)
                else:
                    unnamed = True
            elif keyword in _LISTS and isinstance(parts, list) and parts and self._has_room(len(parts)):
                # Alternatives describe the same value.
                inner = level if keyword in _COMBINING else level + 1
                target[keyword] = [self.add(part, inner, definition) for part in parts]
            elif keyword in _SINGLES and parts is False:
                target[keyword] = False
            elif keyword in _SINGLES and isinstance(parts, dict):
                target[keyword] = self.add(parts, level + 1, definition)
        for keyword in _CLOSING if unnamed else ():
            # Properties that are not named must be accepted.
            target.pop(keyword, None)

    def _map(self, keyword: str, parts: Mapping[Any, Any], target: Schema, level: int, definition: str) -> None:
        listed: Schema = {}
        for name, part in parts.items():
            if not isinstance(name, str) or not _is_name(name):
                self.problems["A property has a name that cannot be listed."] = None
                self._is_weaker = True
            elif keyword == "properties" and self._is_left_out(part):
                self._is_weaker = True
            else:
                self._charge(len(name) + 5)
                listed[name] = self.add(part, level, definition)
        target[keyword] = listed

    def _has_room(self, parts: int) -> bool:
        """Whether all of these parts can at least be named. If not, none is: some of them would say something else."""
        if parts * _LEAST <= self._left + _RESERVE:
            return True
        self.is_cut = self._is_weaker = True
        return False

    def _is_left_out(self, part: object) -> bool:
        """Whether a property occurs only in the other direction: in answers, or in requests."""
        keyword = "writeOnly" if self._answers else "readOnly"
        if not isinstance(part, dict):
            return False
        if part.get(keyword) is True:
            return True
        try:
            return "$ref" in part and _mapping(resolved(self._root, part)).get(keyword) is True
        except UnresolvedError:
            return False

    def _describe(self, source: Mapping[str, Any], target: Schema, level: int) -> None:
        most = self._descriptions[min(level, len(self._descriptions) - 1)]
        description = texts.text(source.get("description"), most, line=level > 0) if most else ""
        if isinstance(discriminator := source.get("discriminator"), dict):
            kinds = ", ".join(map(str, list(_mapping(discriminator.get("mapping")))[:20]))
            name = texts.text(discriminator.get("propertyName"), 60, line=True)
            note = f"{name} says which one it is: {kinds}." if kinds else f"{name} says which one it is."
            description = " ".join(filter(None, (description, texts.text(note, 200, line=True) if name else "")))
        if description:
            target["description"] = "\n".join(filter(None, (description, target.get("description"))))
        if level == 0 and "enum" not in target and "default" not in target:
            examples = source.get("examples")
            examples = examples if isinstance(examples, list) else [source["example"]] if "example" in source else []
            if examples and texts.fits(examples[:1], _MOST_EXAMPLE):
                target["examples"] = examples[:1]

    def _accept_null(self, target: Schema) -> None:
        """`nullable` of OpenAPI 3.0."""
        if "enum" in target and None not in target["enum"]:
            target["enum"] = [*target["enum"], None]
        kind = target.get("type")
        if isinstance(kind, str) and kind != "null":
            target["type"] = [kind, "null"]
        elif isinstance(kind, list) and "null" not in kind:
            target["type"] = [*kind, "null"]
        elif kind is None and ("$ref" in target or any(keyword in target for keyword in _COMBINING)):
            about: Schema = {
                name: target.pop(name) for name in ("description", "default", "examples") if name in target
            }
            inner = dict(target)
            target.clear()
            target.update({"anyOf": [inner, {"type": "null"}], **about})
            self._converted.append(inner)

    # ---- the whole

    def _relax(self) -> None:
        """Parts accept more than in the document: conditions that need them to refuse something are dropped."""
        for schema in self._converted:
            for keyword in _INVERTING:
                if not (keyword == "not" and schema.get("not") == {}):
                    schema.pop(keyword, None)
            if "oneOf" in schema:
                choices = schema.pop("oneOf")
                if "anyOf" in schema:
                    schema.setdefault("allOf", []).append({"anyOf": choices})
                else:
                    schema["anyOf"] = choices

    def _is_recursive(self) -> bool:
        """Whether a definition reaches itself."""
        done: set[str] = set()
        for start in self._refers:
            path, pending = set[str](), [(start, False)]
            while pending:
                name, is_left = pending.pop()
                if is_left:
                    path.discard(name)
                    done.add(name)
                elif name in path:
                    return True
                elif name not in done:
                    path.add(name)
                    pending.append((name, True))
                    pending += [(other, False) for other in self._refers.get(name, ())]
        return False


def _own_size(target: Schema) -> int:
    """Characters of a schema without its parts."""
    size = 2
    for keyword, value in target.items():
        size += len(keyword) + 4
        if isinstance(value, str):
            size += len(value) + 2
        elif isinstance(value, list) and keyword not in _LISTS:
            size += sum(len(str(one)) + 3 for one in value)
        elif not isinstance(value, dict):
            size += len(str(value))
    return size


def _is_name(name: str) -> bool:
    return len(name) <= _MOST_NAME and not texts.UNSTORABLE.search(name)


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
