"""What a tool is and how to write one.

    @tool(category="forecast", hints=Hints(read_only=True))
    async def forecast(ctx: Context, city: Annotated[str, Field(min_length=1)], days: int = 3) -> str:
        \"\"\"Tell the weather of a city.\"\"\"

The signature becomes the input schema, the docstring the description. A subclass of `Tool` with `name`, `description`,
`Arguments` and `run` works like a function. A tool knows nothing about the database, the channels or other tools.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tools_app.sdk import signatures, wording
from tools_app.sdk.accounts import PARAMETER as CONNECTION_PARAMETER
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.context import Context
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.icons import Icon, IconError, icon
from tools_app.sdk.names import DefinitionError, check_name
from tools_app.sdk.places import place_of
from tools_app.sdk.policies import Rate
from tools_app.sdk.published import faults, take_leniency, take_messages
from tools_app.sdk.schemas import Schema, SchemaError
from tools_app.sdk.spec import FORMAT_PARAMETER, RAW_PARAMETER, AuthorPolicy, ToolSpec, canonical
from tools_app.text.budget import FEWEST_TOKENS

if TYPE_CHECKING:
    from tools_app.sdk.pack import Pack, TextForm

# Limit for all keywords together: a tool with too many keywords would match every search.
MOST_KEYWORD_CHARACTERS: Final = 500
_RAW_SCHEMA: Final = {
    "type": "boolean",
    "default": False,
    "description": "Full answer.",
}

Formatter = Callable[[Any], Any]
Guidance = str | Callable[[Any], Any]


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
    needs_option: str = ""
    needs_files: bool = False
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
    picture: Icon | None = None
    convert: Callable[[dict[str, Any]], Any]
    _hub_parameters: tuple[str, ...] = ()
    # How arguments are validated beyond the published schema: custom messages, and places of lenient types.
    _validation: Mapping[str, Any] = {}
    blocking: bool
    """Whether `run` would block the event loop."""
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
        self._validation = {
            "messages": [[list(steps), text] for steps, text in messages.items()],
            "numbers": sorted(map(list, numbers)),
            "digits": sorted(map(list, digits)),
        }
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
        self._check_spec()

    def checked(self, arguments: dict[str, Any]) -> Any:
        """The validated arguments as Python values, as `run` takes them.

        Raises:
            InvalidArgumentsError: with all problems.
        """
        if problems := self.spec.checker.problems(arguments):
            raise InvalidArgumentsError(problems=problems)
        return self.converted(arguments)

    def converted(self, arguments: Mapping[str, Any]) -> Any:
        """Valid arguments as Python values.

        Raises:
            InvalidArgumentsError: a validator of the author refuses them.
        """
        hub_parameters = self._hub_parameters
        return self.convert({name: value for name, value in arguments.items() if name not in hub_parameters})

    def _check_declarations(self) -> None:
        for key in ("tags", "aliases", "keywords", "dependencies", "logged"):
            setattr(self, key, self._checked_names(key))
        try:
            for dependency in self.dependencies:
                Dependency.read(dependency)
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

    def _check_spec(self) -> None:
        try:
            canonical_form = canonical(self.spec.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"its definition cannot be expressed as JSON: {error}") from error
        for example in self.examples:
            if problems := self.spec.checker.problems(dict(example.parameters)):
                raise self._wrong(f"example {example.description!r}: {problems[0].message}")
        if not canonical_form.isascii() or b"\\" in canonical_form or b"&" in canonical_form:
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
    def connection_kind(self) -> ConnectionKind | None:
        """The kind of upstream account that the tool needs, if any."""
        return self.pack.connection if self.pack else None

    @property
    def text_form(self) -> TextForm | None:
        """The text format of its answers, if not JSON."""
        return self.pack.text_form if self.pack else None

    @property
    def effective_version(self) -> str:
        return self.version or (self.pack.version if self.pack else "") or "1.0.0"

    @property
    def _untrusted(self) -> bool:
        """Whether its answers can contain text by outsiders. The default for tools that leave the hub is yes."""
        if self.untrusted is not None:
            return self.untrusted
        if self.pack is not None and self.pack.untrusted is not None:
            return self.pack.untrusted
        return self.hints.open_world

    @functools.cached_property
    def spec(self) -> ToolSpec:
        return ToolSpec.of(self.definition(), self.runtime())

    def definition(self) -> dict[str, Any]:
        """Everything that others see of this tool; two tools with the same definition are the same.

        The icon is part of it, as a digest: an icon can mislead people, too.
        """
        return ToolSpec.body_of(
            self,
            version=self.effective_version,
            # Omitted when it is the default, so that existing fingerprints do not change.
            untrusted=self._untrusted if self._untrusted != self.hints.open_world else None,
            escapes=self.escapes or None,
            icon_digest=self.picture.identity if self.picture is not None else "",
        )

    def runtime(self) -> dict[str, Any]:
        """What the hub has to know to run it, and that is not part of the definition. Defaults are omitted."""
        pack, hints = self.pack, self.hints
        kind = pack.connection if pack else None
        trusts = self.escapes or not self._untrusted
        values = {
            **self._validation,
            "place": self.place,
            "policy": AuthorPolicy(
                _milliseconds(self.timeout), self.retries, self.rate, self.cache_seconds, self.answer_tokens
            ).as_dict(),
            "pack_policy": AuthorPolicy(_milliseconds(pack.timeout), pack.retries, pack.rate).as_dict() if pack else {},
            "requires": list(pack.requires) if pack else [],
            "connection": kind.as_dict() if kind else None,
            "upstream": (pack.name if pack else self.name) if hints.open_world else "",
            "formats_text": self.text_form is not None,
            "marks_text": not trusts and bool(self.untrusted or (pack and (pack.untrusted or pack.connection))),
            "done": self.done,
            "logged": list(self.logged),
            "forwards": self.forwards,
            "blocking": self.blocking,
            "starts_off": self.starts_off,
            "needs_option": self.needs_option,
            "needs_files": self.needs_files,
            "icon": self.picture.as_dict() if self.picture is not None else None,
            "shown_only": [number for number, example in enumerate(self.examples) if example.shown_only],
        }
        return {name: value for name, value in values.items() if value}

    def __repr__(self) -> str:
        return f"<Tool {self.name} at {self.place}>"


def _milliseconds(seconds: float | None) -> int | None:
    return round(seconds * 1000) if seconds is not None else None
