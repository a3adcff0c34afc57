"""From Python annotations to JSON Schema, and from JSON arguments back to Python values.

The schemas are closed (`additionalProperties: false`). They have no unions for optional parameters, and `$ref` only
for recursive types, since many agents cannot read these.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired, Required

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic import ValidationError as PydanticError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema, to_jsonable_python
from typing_extensions import TypedDict  # pydantic takes typing's only from Python 3.12 on

from tools_app.sdk.checker import rejected
from tools_app.sdk.errors import InvalidArgumentsError, shortened
from tools_app.sdk.schemas import MESSAGE, OR_DIGITS, OR_NUMBER, Schema, SchemaError

# A JSON number: an integer stays one, and the schema says `number` instead of a union.
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]


class Says:
    """A custom message for a parameter that is missing, null, or of the right type but not valid.

    `workflow_id: Annotated[str, Field(min_length=1), Says("Workflow ID is required")]`
    """

    def __init__(self, message: str) -> None:
        self.message = message

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {MESSAGE: self.message}


class OrNumber:
    """Accepts a whole number for a text parameter: `tracker_id: Annotated[str, OrNumber()]`.

    Agents send ids as numbers whatever the schema says, and few of them can read a schema with two types.
    """

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {OR_NUMBER: True}


class OrDigits:
    """The reverse: accepts a text of digits for a whole number: `id: Annotated[int, OrDigits()]`."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {OR_DIGITS: True}


class _LeanSchema(GenerateJsonSchema):
    """Pydantic's generator, without the parts that only cost an agent tokens."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        # `x: str | None = None` means that x is optional, not that null can be sent. Answers can contain null.
        return (
            super().nullable_schema(schema) if self.mode == "serialization" else self.generate_inner(schema["schema"])
        )

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        json_schema = super().default_schema(schema)
        if self.mode == "validation" and json_schema.get("default", ...) is None:
            del json_schema["default"]
        return json_schema

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class Signature:
    """A function's parameters: the schema to publish, and the conversion to Python values."""

    schema: Schema
    context_parameter: str | None
    convert: Callable[[dict[str, Any]], dict[str, Any]]


def from_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """Read a function's parameters; the one annotated with `context_type` is not an argument.

    Raises:
        SchemaError: an annotation is missing or cannot be expressed.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise SchemaError(f"cannot read the annotations: {_brief(error)}") from error
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    context_parameter = None
    for name, parameter in inspect.signature(function).parameters.items():
        _check_parameter(parameter, hints)
        if hints[name] is context_type:
            if context_parameter is not None:
                raise SchemaError(f"both {context_parameter!r} and {name!r} are a {context_type.__name__}")
            context_parameter = name
        elif parameter.default is parameter.empty:
            fields[name] = Required[_described(hints[name])]
        else:
            fields[name] = NotRequired[_described(hints[name])]
            if parameter.default is not None:
                defaults[name] = parameter.default
    adapter = _adapter(_closed_dict(fields))
    schema = from_adapter(adapter)
    for name, default in defaults.items():
        schema["properties"][_alias(fields[name]) or name]["default"] = _jsonable(name, default)
    validate = adapter.validator.validate_python
    return Signature(schema, context_parameter, functools.partial(_converted, validate))


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise SchemaError(f"parameter {name!r} must accept its argument by name")
    if name not in hints:
        raise SchemaError(f"parameter {name!r} has no annotation")
    if isinstance(parameter.default, FieldInfo):
        raise SchemaError(f"parameter {name!r}: write Annotated[..., Field(...)], and its default after the `=`")


def from_model(model: Any) -> tuple[Schema, Callable[[dict[str, Any]], Any]]:
    """Read a pydantic model, dataclass or TypedDict that describes all arguments at once.

    Raises:
        SchemaError: it does not describe an object, or something in it cannot be expressed.
    """
    adapter = _adapter(model)
    return from_adapter(adapter), functools.partial(_converted, adapter.validator.validate_python)


def from_result(function: Callable[..., Any]) -> Schema | None:
    """The output schema for a return annotation; None if it does not describe an object."""
    try:
        annotation: Any = typing.get_type_hints(function, include_extras=True).get("return")
        schema = from_adapter(TypeAdapter(annotation), mode="serialization")
    except Exception:
        # Output schemas are optional.
        return None
    return schema if schema["properties"] else None


def from_adapter(adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"] = "validation") -> Schema:
    """The schema of a pydantic adapter. Schemas for arguments are closed, those for answers are open.

    Raises:
        SchemaError: it is not an object, or cannot be expressed.
    """
    try:
        raw = adapter.json_schema(schema_generator=_LeanSchema, mode=mode)
    except Exception as error:  # pydantic, and the types themselves, may raise anything here
        raise SchemaError(f"cannot be expressed as JSON Schema: {_brief(error)}") from error
    definitions = raw.pop("$defs", {})
    while (name := _referred(raw)) in definitions:
        raw = {**definitions[name], **{key: value for key, value in raw.items() if key != "$ref"}}
    closed = mode == "validation"
    schema: Schema = _lean(raw, definitions, closed)
    if recursive := _references(schema, definitions):
        schema["$defs"] = {name: _lean(definitions[name], definitions, closed) for name in sorted(recursive)}
    if schema.get("type") != "object":
        raise SchemaError("does not describe an object")
    schema.pop("description", None)
    schema.setdefault("properties", {})
    if closed:
        schema.setdefault("additionalProperties", False)
    return schema


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except Exception as error:  # as above
        raise SchemaError(f"cannot be expressed as JSON Schema: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    """The message on one line: those of pydantic have many."""
    return shortened(" ".join(str(error).split()), 300)


def _jsonable(name: str, default: Any) -> Any:
    try:
        return to_jsonable_python(default, by_alias=True, exclude_none=True)
    except ValueError as error:
        raise SchemaError(f"the default of {name!r} cannot be expressed as JSON: {_brief(error)}") from error


def _closed_dict(fields: dict[str, Any]) -> Any:
    # Any: type checkers do not support fields that are only known at run time.
    make: Any = TypedDict
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    return arguments


def _described(annotation: Any) -> Any:
    """`Annotated[str, "text"]` is short for `Field(description="text")`."""
    if typing.get_origin(annotation) is not Annotated:
        return annotation
    base, *extras = typing.get_args(annotation)
    metadata = tuple(Field(description=extra) if isinstance(extra, str) else extra for extra in extras)
    return Annotated[(base, *metadata)]


def _alias(annotation: Any) -> str | None:
    for part in typing.get_args(annotation):
        for extra in getattr(part, "__metadata__", ()):
            if alias := getattr(extra, "alias", None):
                return str(alias)
    return None


def _converted(validate: Callable[[Any], Any], arguments: dict[str, Any]) -> Any:
    """The arguments as Python values.

    Raises:
        InvalidArgumentsError: they match the schema, but not the Python types (the 31st of February).
    """
    try:
        return validate(arguments)
    except PydanticError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        problems = [rejected(fault["loc"], _reason(fault["msg"])) for fault in faults]
        raise InvalidArgumentsError(problems=problems) from None


def _reason(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


# ---- leaner schemas

# Keywords with data, which stays unchanged, and keywords with a schema for each name.
_DATA: Final = frozenset({"default", "const", "enum", "examples"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
# Several schemas for the same object: a closed one would refuse the properties of the others.
_PARTIAL: Final = frozenset({"allOf", "not", "if", "then", "else", "dependentSchemas"})
_NEEDLESS: Final = frozenset({"title", "discriminator"})


def _lean(node: Any, definitions: Mapping[str, Any], closed: bool) -> Any:
    """Drop titles, close objects, and replace references by their definitions, except recursive ones."""
    if isinstance(node, list):
        return [_lean(item, definitions, closed) for item in node]
    if not isinstance(node, dict):
        return node
    name = _referred(node)
    if name in definitions and name not in _references(definitions[name], definitions):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_lean(definitions[name], definitions, closed), **_lean(rest, definitions, closed)}
    lean: Schema = {}
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            inner = closed and key not in _PARTIAL
            lean[key] = {name: _lean(part, definitions, inner) for name, part in value.items()}
        elif key not in _NEEDLESS:
            lean[key] = value if key in _DATA else _lean(value, definitions, closed and key not in _PARTIAL)
    if closed and "properties" in lean:
        lean.setdefault("additionalProperties", False)
    return lean


def _referred(node: Mapping[str, Any]) -> str:
    reference = node.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def _references(node: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Names of all definitions that `node` needs, directly or through others."""
    names: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, dict):
            name = _referred(current)
            if name in definitions and name not in names:
                names.add(name)
                pending.append(definitions[name])
            pending.extend(current.values())
    return names
