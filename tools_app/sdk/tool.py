"""What a tool is and how to write one.

    @tool(category="forecast", hints=Hints(read_only=True))
    async def forecast(ctx: Context, city: Annotated[str, Field(min_length=1)], days: int = 3) -> str:
        \"\"\"Tell the weather of a city.\"\"\"

The signature becomes the input schema, the docstring the description. A subclass of `Tool` with `name`, `description`,
`Arguments` and `run` works like a function. A tool knows nothing about the database, the channels or other tools.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tools_app.sdk import signatures, wording
from tools_app.sdk.accounts import PARAMETER as CONNECTION_PARAMETER
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.checker import Checker
from tools_app.sdk.context import Context
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.examples import Example
from tools_app.sdk.icons import Icon, IconError, icon
from tools_app.sdk.names import DefinitionError, check_name, folded
from tools_app.sdk.parameters import ToolParameter
from tools_app.sdk.places import place_of
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema, SchemaError, faults, take_leniency, take_messages
from tools_app.text.budget import FEWEST_TOKENS

if TYPE_CHECKING:
    from tools_app.sdk.pack import Pack, TextForm

# Limit for all keywords together: a tool with too many keywords would match every search.
MOST_KEYWORD_CHARACTERS: Final = 500
RAW_PARAMETER: Final = "raw"
_RAW_SCHEMA: Final = {
    "type": "boolean",
    "default": False,
    "description": "Set to true for the full answer instead of the short one.",
}

FORMAT_PARAMETER: Final = "format"

Formatter = Callable[[Any], Any]
Guidance = str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Hints:
    """What a call of the tool does to its environment. The defaults assume the worst, as in MCP."""

    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True

    @property
    def writes(self) -> bool:
        return not self.read_only

    @property
    def destroys(self) -> bool:
        return not self.read_only if self.destructive is None else self.destructive

    @property
    def repeatable(self) -> bool:
        """Idempotent: running it twice has the same effect as running it once."""
        return self.read_only or bool(self.idempotent)

    def as_dict(self) -> dict[str, bool]:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destroys,
            "idempotentHint": self.read_only if self.idempotent is None else self.idempotent,
            "openWorldHint": self.open_world,
        }


class Tool:
    """An operation that an agent can call.

    A subclass defines `name`, `description`, `Arguments` (a pydantic model, dataclass or TypedDict) and
    `run(self, ctx, arguments)`, plain or async; the rest has defaults. A plain `run` may block: the engine
    runs it in a thread.
    """

    name: str = ""
    title: str = ""
    description: str = ""
    category: str = ""
    tags: Sequence[str] = ()
    author: str = ""
    version: str = ""
    hints: Hints = Hints()
    examples: Sequence[Example] = ()
    aliases: Sequence[str] = ()
    keywords: Sequence[str] = ()
    """Search terms in any language. Part of the search index, never listed to agents."""
    dependencies: Sequence[str] = ()
    timeout: float | None = None
    retries: int | None = None
    rate: Rate | None = None
    cache_seconds: int | None = None
    answer_tokens: int | None = None
    starts_off: bool = False
    deprecated: str = ""
    minimal: Formatter | None = None
    done: str = ""
    guidance: Guidance | None = None
    untrusted: bool | None = None
    escapes: bool = False
    logged: Sequence[str] = ()
    icon: str = ""
    pack: Pack | None = None
    place: str = ""

    Arguments: ClassVar[Any] = None

    input_schema: Schema
    output_schema: Schema | None = None
    checker: Checker
    output_checker: Checker | None = None
    needs: tuple[Dependency, ...] = ()
    picture: Icon | None = None
    convert: Callable[[dict[str, Any]], Any]
    _hub_parameters: tuple[str, ...] = ()
    blocking: bool
    """Whether `run` would block the event loop."""
    speaks: bool = True
    """Whether `run` gets a context, with which it can send messages and questions to the client."""

    forwards: bool = False
    """Whether a call is forwarded to the tool that its arguments `name` and `arguments` describe."""

    def __init__(self) -> None:
        self.place = self.place or place_of(type(self))
        self.description = inspect.cleandoc(self.description or vars(type(self)).get("__doc__") or "")
        if self.Arguments is None:
            raise DefinitionError(f"{type(self).__name__} has no Arguments", self.place)
        if type(self).run is Tool.run:
            raise DefinitionError(f"{type(self).__name__} has no run()", self.place)
        try:
            schema, self.convert = signatures.from_model(self.Arguments)
        except SchemaError as error:
            raise DefinitionError(f"{self.name or type(self).__name__}: {error}", self.place) from error
        self.settle(schema, self.run)

    def run(self, ctx: Context, arguments: Any) -> Any:
        """Do the work and return the answer. Raise a `ToolError` for failures that the caller should read."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ for the hub

    def settle(self, schema: Schema, function: Callable[..., Any]) -> None:
        """Check everything that is declared, compile the schema, and find out how to run `function`.

        Raises:
            DefinitionError: for names and descriptions with the exact texts of the specification.
        """
        self._check_declarations()
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._wrong("it must return its answer, not yield it")
        self.blocking = not inspect.iscoroutinefunction(function)
        if self.output_schema is None and self.minimal is None and not self.done and self.guidance is None:
            # With any of these, the caller does not get what the function returns.
            self.output_schema = signatures.from_result(function)
        if schema_faults := faults(schema):
            raise self._wrong(f"input schema: {schema_faults[0]}")
        if self.output_schema is not None and (schema_faults := faults(self.output_schema)):
            raise self._wrong(f"output schema: {schema_faults[0]}")
        self.input_schema, messages = take_messages(schema)
        numbers, digits = take_leniency(self.input_schema)
        if unknown := [name for name in self.logged if name not in self.input_schema.get("properties", {})]:
            raise self._wrong(f"logged names {unknown[0]!r}, which is not one of its parameters")
        if self.minimal is not None:
            self._add_parameter(RAW_PARAMETER, _RAW_SCHEMA, "a tool with minimal=")
        if self.text_form is not None:
            self._add_parameter(FORMAT_PARAMETER, self.text_form.parameter(), "a tool whose pack has text_form=")
        if self.connection_kind is not None and CONNECTION_PARAMETER in self.input_schema.get("properties", {}):
            # Callers select their account with that parameter.
            raise self._wrong(f"a tool whose pack has connection= may not have a parameter `{CONNECTION_PARAMETER}`")
        self.picture = self._icon_to_list()
        self.checker = Checker(self.input_schema, messages, numbers, digits)
        self.output_checker = Checker(self.output_schema) if self.output_schema is not None else None
        self._check_examples()

    def checked(self, arguments: dict[str, Any]) -> Any:
        """The validated arguments as Python values, as `run` takes them.

        Raises:
            InvalidArgumentsError: with all problems.
        """
        if problems := self.checker.problems(arguments):
            raise InvalidArgumentsError(problems=problems)
        hub_parameters = self._hub_parameters
        return self.convert({name: value for name, value in arguments.items() if name not in hub_parameters})

    def _check_declarations(self) -> None:
        for key in ("tags", "aliases", "keywords", "dependencies", "logged"):
            setattr(self, key, self._checked_names(key))
        try:
            self.needs = tuple(map(Dependency.read, self.dependencies))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        for name in (self.name, *self.aliases):
            check_name(name, self.place)
        if sum(map(len, self.keywords)) > MOST_KEYWORD_CHARACTERS:
            raise self._wrong(f"keywords may have at most {MOST_KEYWORD_CHARACTERS} characters in total")
        if self.cache_seconds and self.hints.writes:
            raise self._wrong("only a tool with Hints(read_only=True) can have cache_seconds")
        if self.answer_tokens is not None and self.answer_tokens < FEWEST_TOKENS:
            raise self._wrong(f"answer_tokens must be {FEWEST_TOKENS:,} or more")
        if not self.description.strip():
            raise DefinitionError("Tool description is required", self.place)

    def _check_examples(self) -> None:
        for example in self.examples:
            if problems := self.checker.problems(dict(example.parameters)):
                raise self._wrong(f"example {example.description!r}: {problems[0].message}")
        try:
            canonical = _canonical(self.definition())
        except (TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"its definition cannot be expressed as JSON: {error}") from error
        if not canonical.isascii() or b"\\" in canonical or b"&" in canonical:
            self._refuse_invisible_characters()

    def _refuse_invisible_characters(self) -> None:
        """An agent would read, and follow, instructions that people cannot see."""
        for place, text in wording.texts(self.definition()):
            if wording.hidden(text):
                raise self._wrong(f"the {place} has invisible characters")

    def _checked_names(self, key: str) -> tuple[str, ...]:
        value = getattr(self, key)
        names = () if isinstance(value, str) else tuple(value)
        if isinstance(value, str) or not all(isinstance(name, str) and name.strip() for name in names):
            raise self._wrong(f"{key} must be a list of names")
        return names

    def _icon_to_list(self) -> Icon | None:
        declaration = self.icon or (self.pack.icon if self.pack is not None else "")
        if not declaration:
            return None
        try:
            return icon(declaration)
        except IconError as error:
            raise self._wrong(f"icon: {error}") from error

    def _add_parameter(self, name: str, part: Schema, owner: str) -> None:
        """Add a parameter that the hub handles and that `run` does not get."""
        properties = self.input_schema.setdefault("properties", {})
        if name in properties:
            raise self._wrong(f"{owner} may not have a parameter `{name}`")
        properties[name] = dict(part)
        self._hub_parameters = (*self._hub_parameters, name)

    def _wrong(self, reason: str) -> DefinitionError:
        return DefinitionError(f"{self.name}: {reason}", self.place)

    @property
    def folded_name(self) -> str:
        return folded(self.name)

    @property
    def parameters(self) -> list[ToolParameter]:
        return ToolParameter.all_of(self.input_schema)

    @property
    def connection_kind(self) -> ConnectionKind | None:
        """The kind of upstream account that the tool needs, if any."""
        return self.pack.connection if self.pack else None

    @property
    def text_form(self) -> TextForm | None:
        """The text format of its answers, if not JSON."""
        return self.pack.text_form if self.pack else None

    @property
    def upstream(self) -> str:
        """The name of the upstream, whose calls share limits. Empty for tools that do not leave the hub."""
        if not self.hints.open_world:
            return ""
        return self.pack.name if self.pack else self.name

    @property
    def passes_on(self) -> bool:
        """Whether its answers can contain text by outsiders. The default for tools that leave the hub is yes."""
        if self.untrusted is not None:
            return self.untrusted
        if self.pack is not None and self.pack.untrusted is not None:
            return self.pack.untrusted
        return self.hints.open_world

    @property
    def marks_text(self) -> bool:
        """Whether free text in its answers is put between marks.

        Only if `untrusted` is declared, or follows from the connection of the pack. Without either, the text can be the
        tool's own, and must not be presented as text by outsiders.
        """
        if self.escapes or not self.passes_on:
            return False
        pack = self.pack
        return bool(self.untrusted or (pack is not None and (pack.untrusted or pack.connection is not None)))

    @property
    def required(self) -> list[str]:
        """Folded names of the tools without which it cannot be called."""
        return [folded(need.name) for need in self.needs if not need.optional]

    @property
    def described(self) -> str:
        """The description, with the note of deprecation."""
        return f"{self.description}\nDeprecated: {self.deprecated}" if self.deprecated else self.description

    @property
    def effective_version(self) -> str:
        return self.version or (self.pack.version if self.pack else "") or "1.0.0"

    def definition(self) -> dict[str, Any]:
        """Everything that others see of this tool; two tools with the same definition are the same.

        The icon is part of it, as a digest: an icon can mislead people, too.
        """
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.effective_version,
            "category": self.category,
            "tags": sorted(set(self.tags)),
            "author": self.author,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.hints.as_dict(),
            "examples": [example.as_dict() for example in self.examples],
            "aliases": sorted(self.aliases),
            "dependencies": sorted(self.dependencies),
            **({"keywords": sorted(self.keywords)} if self.keywords else {}),
            **({"deprecated": self.deprecated} if self.deprecated else {}),
            # Omitted when it is the default, so that existing fingerprints do not change.
            **({"untrusted": self.passes_on} if self.passes_on != self.hints.open_world else {}),
            **({"escapes": True} if self.escapes else {}),
            **({"icon": self.picture.identity} if self.picture is not None else {}),
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """The hash of the definition: it changes if and only if something that others see has changed."""
        return hashlib.sha256(_canonical(self.definition())).hexdigest()

    def __repr__(self) -> str:
        return f"<Tool {self.name} at {self.place}>"


def _canonical(definition: Mapping[str, Any]) -> bytes:
    return json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
