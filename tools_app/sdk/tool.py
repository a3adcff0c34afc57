"""What a tool is, and how one is written.

    @tool(category="forecast", hints=Hints(read_only=True))
    async def forecast(ctx: Context, city: Annotated[str, Field(min_length=1)], days: int = 3) -> str:
        \"\"\"Tell the weather of a city.\"\"\"

The signature becomes the input schema, the docstring the description. A subclass of `Tool` with `name`, `description`,
`Arguments` and `run` works like a function. A tool knows nothing of the database, the doors or other tools.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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

# Of all keywords together: who says everything is found by everybody.
MOST_SOUGHT: Final = 500
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
    """What calling a tool does to the world. Saying nothing means the worst, as in MCP."""

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
        """May be run twice without doing more than once."""
        return self.read_only or bool(self.idempotent)

    def as_dict(self) -> dict[str, bool]:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destroys,
            "idempotentHint": self.read_only if self.idempotent is None else self.idempotent,
            "openWorldHint": self.open_world,
        }


class Tool:
    """One thing an agent can call.

    A subclass gives `name`, `description`, `Arguments` (a pydantic model, dataclass or TypedDict) and
    `run(self, ctx, arguments)`, plain or async; the rest has defaults. A plain `run` may block: the engine
    keeps it off the event loop.
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
    """What people say who look for it, in their languages. Searched like the rest, and never listed to agents."""
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
    icon: str | Path = ""
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
    _added: tuple[str, ...] = ()
    blocking: bool
    """Whether `run` would hold up an event loop."""
    speaks: bool = True
    """Whether `run` is given a context, with which it could speak to the client."""

    forwards: bool = False
    """Whether a call of it becomes one of the tool that its arguments name: `name` and `arguments`."""

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
        """Do the work and return the answer. Raise a `ToolError` for what the caller should be told."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ for the hub

    def settle(self, schema: Schema, function: Callable[..., Any]) -> None:
        """Check everything that is declared, compile the schema, and see how `function` has to be run.

        Raises:
            DefinitionError: with the documents' words for names and descriptions.
        """
        self._check_words()
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._wrong("it must return its answer, and may not yield it")
        self.blocking = not inspect.iscoroutinefunction(function)
        if self.output_schema is None and self.minimal is None and not self.done and self.guidance is None:
            # Otherwise what the function returns is not what the caller gets.
            self.output_schema = signatures.from_result(function)
        if found := faults(schema):
            raise self._wrong(f"input schema: {found[0]}")
        if self.output_schema is not None and (found := faults(self.output_schema)):
            raise self._wrong(f"output schema: {found[0]}")
        self.input_schema, messages = take_messages(schema)
        numbers, digits = take_leniency(self.input_schema)
        if wrong := [name for name in self.logged if name not in self.input_schema.get("properties", {})]:
            raise self._wrong(f"logged names {wrong[0]!r}, which is none of its parameters")
        if self.minimal is not None:
            self._add(RAW_PARAMETER, _RAW_SCHEMA, "a tool with minimal=")
        if self.text_form is not None:
            self._add(FORMAT_PARAMETER, self.text_form.parameter(), "a tool whose pack has text_form=")
        if self.connection_kind is not None and CONNECTION_PARAMETER in self.input_schema.get("properties", {}):
            # Callers choose their account by that name.
            raise self._wrong(f"a tool whose pack has connection= may not have a parameter `{CONNECTION_PARAMETER}`")
        self.picture = self._picture(function)
        self.checker = Checker(self.input_schema, messages, numbers, digits)
        self.output_checker = Checker(self.output_schema) if self.output_schema is not None else None
        self._check_examples()

    def checked(self, arguments: dict[str, Any]) -> Any:
        """The arguments as `run` takes them: nothing wrong with them, and as Python values.

        Raises:
            InvalidArgumentsError: with everything that is wrong.
        """
        if problems := self.checker.problems(arguments):
            raise InvalidArgumentsError(problems=problems)
        added = self._added
        return self.convert({name: value for name, value in arguments.items() if name not in added})

    def _check_words(self) -> None:
        for key in ("tags", "aliases", "keywords", "dependencies", "logged"):
            setattr(self, key, self._names(key))
        try:
            self.needs = tuple(map(Dependency.read, self.dependencies))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        for name in (self.name, *self.aliases):
            check_name(name, self.place)
        if sum(map(len, self.keywords)) > MOST_SOUGHT:
            raise self._wrong(f"keywords may have {MOST_SOUGHT} characters together")
        if self.cache_seconds and self.hints.writes:
            raise self._wrong("only a tool that says read_only=True can have cache_seconds")
        if self.answer_tokens is not None and self.answer_tokens < FEWEST_TOKENS:
            raise self._wrong(f"answer_tokens must be {FEWEST_TOKENS:,} or more")
        if not self.description.strip():
            raise DefinitionError("Tool description is required", self.place)

    def _check_examples(self) -> None:
        for example in self.examples:
            if wrong := self.checker.problems(dict(example.parameters)):
                raise self._wrong(f"example {example.description!r}: {wrong[0].message}")
        try:
            canonical = _canonical(self.definition())
        except (TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"its definition cannot be expressed as JSON: {error}") from error
        if not canonical.isascii() or b"\\" in canonical or b"&" in canonical:
            self._check_that_all_is_seen()

    def _check_that_all_is_seen(self) -> None:
        """An agent reads what people cannot see, and would follow it."""
        for place, text in wording.texts(self.definition()):
            if wording.hidden(text):
                raise self._wrong(f"the {place} has characters that people do not see")

    def _names(self, key: str) -> tuple[str, ...]:
        given = getattr(self, key)
        names = () if isinstance(given, str) else tuple(given)
        if isinstance(given, str) or not all(isinstance(name, str) and name.strip() for name in names):
            raise self._wrong(f"{key} must be a list of names")
        return names

    def _picture(self, function: Callable[..., Any]) -> Icon | None:
        declared = self.icon or (self.pack.icon if self.pack is not None else "")
        if not declared:
            return None
        file = getattr(sys.modules.get(function.__module__), "__file__", None) or ""
        try:
            return icon(declared, Path(file).parent)
        except IconError as error:
            raise self._wrong(f"icon: {error}") from error

    def _add(self, name: str, part: Schema, whose: str) -> None:
        """Give it a parameter that is the hub's business, and that `run` does not see."""
        properties = self.input_schema.setdefault("properties", {})
        if name in properties:
            raise self._wrong(f"{whose} may not have a parameter `{name}`")
        properties[name] = dict(part)
        self._added = (*self._added, name)

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
        """The kind of account at an upstream that the tool needs, if it needs one."""
        return self.pack.connection if self.pack else None

    @property
    def text_form(self) -> TextForm | None:
        """How agents read its answers, where that is not JSON."""
        return self.pack.text_form if self.pack else None

    @property
    def upstream(self) -> str:
        """What the tool needs outside the hub: calls of one upstream share its limits. Empty where it needs nothing."""
        if not self.hints.open_world:
            return ""
        return self.pack.name if self.pack else self.name

    @property
    def passes_on(self) -> bool:
        """Whether its answers may hold what outsiders wrote. Whoever reaches out of the hub and says nothing does."""
        if self.untrusted is not None:
            return self.untrusted
        if self.pack is not None and self.pack.untrusted is not None:
            return self.pack.untrusted
        return self.hints.open_world

    @property
    def marks_text(self) -> bool:
        """Whether a free text that it returns is put between marks.

        Where it is declared, or plain from the upstream that it has. A tool that says nothing of itself may as well
        answer in words of its own, and nobody should be told that those are a stranger's.
        """
        if self.escapes or not self.passes_on:
            return False
        pack = self.pack
        return bool(self.untrusted or (pack is not None and (pack.untrusted or pack.connection is not None)))

    @property
    def required(self) -> list[str]:
        """The tools without which it cannot be called, as one name each."""
        return [folded(need.name) for need in self.needs if not need.optional]

    @property
    def described(self) -> str:
        """The description, with what is to be used instead."""
        return f"{self.description}\nDeprecated: {self.deprecated}" if self.deprecated else self.description

    @property
    def effective_version(self) -> str:
        return self.version or (self.pack.version if self.pack else "") or "1.0.0"

    def definition(self) -> dict[str, Any]:
        """Everything that others see of this tool; two tools are the same when this is the same.

        A picture can mislead whoever trusts what it shows: it counts, by a digest that tells it from every other.
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
            # Where it goes without saying it is not said, so that hubs do not take every tool for a changed one.
            **({"untrusted": self.passes_on} if self.passes_on != self.hints.open_world else {}),
            **({"escapes": True} if self.escapes else {}),
            **({"icon": self.picture.identity} if self.picture is not None else {}),
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """The hash of the definition: it changes when, and only when, something that others see has changed."""
        return hashlib.sha256(_canonical(self.definition())).hexdigest()

    def __repr__(self) -> str:
        return f"<Tool {self.name} at {self.place}>"


def _canonical(definition: Mapping[str, Any]) -> bytes:
    return json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
