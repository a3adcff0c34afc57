"""A schema as agents read it: without what costs them tokens and tells them nothing.

Pure and deterministic. A definition and its hash keep the full schema, and the hub checks arguments against that one:
a caller that exceeds a bound is told which. Only `_needless` decides what an agent can do without, with the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tools_app.sdk.schemas import Schema, with_parts

# No id, count or offset of JSON goes beyond these: whole numbers of 32 bits, and those that floats represent exactly.
_WHOLE: Final = 2**31 - 1
_EXACT: Final = 2**53 - 1
# The longest list that an agent plans with: it fills smaller ones, and splits its work.
_LONGEST_PLANNED: Final = 50
_NOT_BLANK: Final = frozenset({r"\S", r".*\S.*", r"^.*\S.*$", r"^\s*\S", ".", ".+", "^.+$"})
_LETTERS: Final = re.compile(r"[^a-z0-9]+")
# Below these, less would mean more: a value is refused for what its schema says.
_NEGATIVE: Final = ("not", "if", "then", "else", "contains", "propertyNames", "dependentSchemas")
# How many members or items there have to be, and which.
_COUNTED: Final = frozenset({"required", "minProperties", "minItems", "minContains", "dependentRequired"})
# What JSON Schema assumes anyway.
_ASSUMED: Final[Mapping[str, tuple[Any, ...]]] = {
    "additionalProperties": (True, {}),
    "required": ([],),
    "minLength": (0,),
    "minItems": (0,),
    "minProperties": (0,),
    "uniqueItems": (False,),
    "deprecated": (False,),
    "readOnly": (False,),
    "writeOnly": (False,),
    "description": ("",),
}


def lean(schema: Schema, *, outside: bool) -> Schema:
    """A shorter schema that accepts every value that this one accepts.

    Of sources outside, only what JSON Schema gives no meaning is left out: their authors know why the rest is there.
    """
    kept = {name: value for name, value in schema.items() if not _needless(name, value, schema, outside=outside)}
    if isinstance(properties := kept.get("properties"), dict):
        kept["properties"] = {name: _untitled(name, part) for name, part in properties.items()}
    untouched = {name: kept[name] for name in _NEGATIVE if name in kept}
    return with_parts(kept, lambda part: lean(part, outside=outside)) | untouched


def selectable(schema: Schema) -> Schema:
    """The form of an answer, of which callers may have selected parts: no member has to be there."""
    kept = {name: value for name, value in schema.items() if name not in _COUNTED}
    if isinstance(branches := kept.pop("oneOf", None), list):
        # With fewer members, a value can fit several of them.
        kept["allOf"] = [*kept.get("allOf", ()), {"anyOf": branches}]
    untouched = {name: kept[name] for name in _NEGATIVE if name in kept}
    return with_parts(kept, selectable) | untouched


def _untitled(name: str, part: Any) -> Any:
    """Without a title that only repeats the name, as generators write it."""
    if isinstance(part, dict) and isinstance(title := part.get("title"), str) and _letters(title) == _letters(name):
        return {keyword: value for keyword, value in part.items() if keyword != "title"}
    return part


def _letters(text: str) -> str:
    return _LETTERS.sub("", text.lower())


def _needless(keyword: str, value: Any, schema: Schema, *, outside: bool) -> bool:
    if keyword == "$comment" or any(_same(value, assumed) for assumed in _ASSUMED.get(keyword, ())):
        return True
    if keyword in ("maximum", "exclusiveMaximum") and _is_number(value) and value >= (_EXACT if outside else _WHOLE):
        return True
    if keyword in ("minimum", "exclusiveMinimum") and _is_number(value) and value <= -_EXACT:
        return True
    return not outside and _needless_here(keyword, value, schema)


def _needless_here(keyword: str, value: Any, schema: Schema) -> bool:
    match keyword:
        case "maxLength" | "maxProperties" | "unevaluatedProperties":
            # Models do not count characters; the refusal names the bound.
            return True
        case "minLength" | "pattern":
            # A blank text is a mistake, and refused with these words.
            return value == 1 or value in _NOT_BLANK
        case "additionalProperties":
            # Evident, and a refusal lists the names there are.
            return value is False
        case "minimum":
            # Ids, counts and offsets are not negative.
            return schema.get("type") == "integer" and value in (0, 1)
        case "maxItems":
            return isinstance(value, int) and value > _LONGEST_PLANNED
        case "default":
            # What leaving it out suggests. Of an enumeration, the first is taken.
            choices = schema.get("enum") or [None]
            return not value or value == choices[0]
    return False


def _same(value: Any, assumed: Any) -> bool:
    return type(value) is type(assumed) and bool(value == assumed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
