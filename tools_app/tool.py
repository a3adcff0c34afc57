"""What a tool is, and how one is written.

    pack = Pack("weather", version="1.0.0")

    @pack.tool(category="forecast", hints=Hints(read_only=True))
    async def forecast(ctx: Context, city: Annotated[str, Field(min_length=1)], days: int = 3) -> str:
        \"\"\"Tell the weather of a city.\"\"\"

The signature becomes the input schema, the docstring the description. `@tool` alone works without a pack, and a
subclass of `Tool` with `name`, `description`, `Arguments` and `run` works like a function. A tool knows nothing of
the database, the doors or other tools.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import linecache
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, overload

from tools_app import signatures
from tools_app.accounts import PARAMETER as CONNECTION_PARAMETER
from tools_app.accounts import ConnectionKind
from tools_app.answers.budget import FEWEST_TOKENS
from tools_app.checker import Checker
from tools_app.deadline import Deadline
from tools_app.errors import AnswerNotFoundError, ConfigurationError, InvalidArgumentsError
from tools_app.icons import Icon, IconError, icon
from tools_app.policies import Rate
from tools_app.questions import LEVELS, NOBODY, Client, Elicit, Question, Reply, Sample, Sampled
from tools_app.reach import EVERYWHERE, Reach
from tools_app.schemas import Schema, SchemaError, faults, take_messages

if TYPE_CHECKING:
    from tools_app.answers import Asked
    from tools_app.http import ApiClient
    from tools_app.offer import Offer
    from tools_app.prompt import Prompt
    from tools_app.resource import Resource

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
RAW_PARAMETER: Final = "raw"
_RAW_SCHEMA: Final = {
    "type": "boolean",
    "default": False,
    "description": "Set to true for the full answer instead of the short one.",
}

FORMAT_PARAMETER: Final = "format"

Formatter = Callable[[Any], Any]
Guidance = str | Callable[[Any], Any]


class DefinitionError(ValueError):
    """A tool cannot be used as it is written. `place` says where it stands."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key, a person in the admin, or the local process. Made by `access`, never by a tool."""

    kind: str
    id: str
    name: str
    scopes: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE
    # Over all tools together; what a tool's own limit allows comes on top.
    rate: Rate | None = None

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin:*" in self.scopes

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Answers(Protocol):
    """The caller's own answers that were too large to be sent, and are kept for a while."""

    async def page(self, handle: str, asked: Asked) -> dict[str, Any]:
        """Part of one, within the budget of this call.

        Raises:
            AnswerNotFoundError: nothing is kept under that handle for this caller.
            InvalidArgumentsError: there is no such part.
        """
        ...


class _NothingKept:
    """Where nothing is kept: outside a hub."""

    async def page(self, handle: str, asked: Asked) -> dict[str, Any]:
        raise AnswerNotFoundError.of(handle)


NOTHING_KEPT: Final[Answers] = _NothingKept()


@dataclass(frozen=True, slots=True)
class Context:
    """What a running tool may know and use of the call it serves."""

    call_id: str
    tool: str
    caller: Caller
    deadline: Deadline
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    client: Client = NOBODY
    answers: Answers = NOTHING_KEPT
    # The name of the account at the upstream that this call uses, and what speaks to it.
    connection: str = ""
    upstream: ApiClient | None = None
    # The directory below which files may be read for this caller. None: no file may be.
    files: Path | None = None

    @property
    def http(self) -> ApiClient:
        """The way to the upstream, for tools of a pack that says which connection it needs."""
        if self.upstream is None:
            raise ConfigurationError(
                f"{self.tool} has no connection that it could use",
                next_step="Its pack must declare one; what is no tool needs a caller who may use exactly one.",
            )
        return self.upstream

    def remaining(self) -> float:
        """Seconds until the deadline of this call."""
        return self.deadline.remaining()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far this is, if it wants to know. Also from a tool that blocks."""
        self.client.progress(done, total, message)

    def tell(self, message: str, level: str = "info", **data: Any) -> None:
        """Tell the client something on the way; `log` is for operators. Also from a tool that blocks."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}")
        self.client.tell(level, message, data)

    def can_ask(self, kind: type[Question]) -> bool:
        """Whether the client answers questions of this kind: `Elicit`, `Sample`, `Roots`."""
        return self.client.can(kind.capability)

    async def ask(self, **questions: Question) -> Mapping[str, Any]:
        """Ask the client several things at once. The deadline stands still until it has answered.

        Where clients answer by calling again, the tool begins anew: ask before anything is changed.

        Raises:
            InputRequiredError: the client cannot be asked, or gives no answer.
        """
        with self.deadline.standing_still():
            return await self.client.ask(questions)

    async def elicit(self, message: str, form: Any) -> Reply:
        """Ask the person behind the agent. `form` is a flat pydantic model or schema; more about it at `Elicit`."""
        reply: Reply = (await self.ask(answer=Elicit(message, form)))["answer"]
        return reply

    async def sample(self, prompt: str, *, max_tokens: int = 1000, system: str = "") -> Sampled:
        """Ask the model of the client."""
        sampled: Sampled = (await self.ask(sample=Sample(prompt, max_tokens=max_tokens, system=system)))["sample"]
        return sampled


@dataclass(frozen=True, slots=True)
class Example:
    """One call worth showing: checked against the schema when the tool is registered."""

    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected_result: Any = None

    def as_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"description": self.description, "parameters": dict(self.parameters)}
        if self.expected_result is not None:
            shown["expectedResult"] = self.expected_result
        return shown


@dataclass(frozen=True, slots=True)
class TextForm:
    """How agents read the answers of a pack, where that is not JSON. Callers may ask for JSON as well (`format`).

    `write` is given an answer as it leaves the hub, which beside its text is always there as data.
    """

    name: str
    write: Callable[[Any], str]

    def parameter(self) -> Schema:
        return {
            "type": "string",
            "enum": [self.name, "json"],
            "default": self.name,
            "description": "Form of the answer's text.",
        }


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """One parameter, flat, as people read it; a view of the schema."""

    name: str
    type: str
    description: str = ""
    required: bool = False
    default: Any = None
    enum: Sequence[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None

    @classmethod
    def all_of(cls, schema: Schema) -> list[ToolParameter]:
        required = schema.get("required", ())
        return [cls._from(name, part, name in required) for name, part in schema.get("properties", {}).items()]

    @classmethod
    def _from(cls, name: str, part: Any, required: bool) -> ToolParameter:
        part = part if isinstance(part, dict) else {}
        kind = part.get("type", "object")
        return cls(
            name=name,
            type="number" if kind == "integer" else kind if isinstance(kind, str) else "object",
            description=part.get("description", ""),
            required=required,
            default=part.get("default"),
            enum=part.get("enum"),
            pattern=part.get("pattern"),
            minimum=part.get("minimum"),
            maximum=part.get("maximum"),
        )

    def as_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "type": self.type, "description": self.description}
        shown["required"] = self.required
        for key in ("default", "enum", "pattern", "minimum", "maximum"):
            if (value := getattr(self, key)) is not None:
                shown[key] = value
        return shown

    def as_schema(self) -> Schema:
        """The way back, for tools registered with a parameter list."""
        part: Schema = {"type": self.type}
        if self.description:
            part["description"] = self.description
        for key in ("default", "enum", "pattern", "minimum", "maximum"):
            if (value := getattr(self, key)) is not None:
                part[key] = list(value) if key == "enum" else value
        return part


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
    dependencies: Sequence[str] = ()
    timeout: float | None = None
    retries: int | None = None
    rate: Rate | None = None
    cache_seconds: int | None = None
    answer_tokens: int | None = None
    starts_off: bool = False
    minimal: Formatter | None = None
    done: str = ""
    guidance: Guidance | None = None
    icon: str | Path = ""
    pack: Pack | None = None
    place: str = ""

    Arguments: ClassVar[Any] = None

    input_schema: Schema
    output_schema: Schema | None = None
    checker: Checker
    output_checker: Checker | None = None
    picture: Icon | None = None
    convert: Callable[[dict[str, Any]], Any]
    _added: tuple[str, ...] = ()
    blocking: bool
    """Whether `run` would hold up an event loop."""
    speaks: bool = True
    """Whether `run` is given a context, with which it could speak to the client."""

    def __init__(self) -> None:
        self.place = self.place or _place_of(type(self))
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
        if self.minimal is not None:
            self._add(RAW_PARAMETER, _RAW_SCHEMA, "a tool with minimal=")
        if self.text_form is not None:
            self._add(FORMAT_PARAMETER, self.text_form.parameter(), "a tool whose pack has text_form=")
        if self.connection_kind is not None and CONNECTION_PARAMETER in self.input_schema.get("properties", {}):
            # Callers choose their account by that name.
            raise self._wrong(f"a tool whose pack has connection= may not have a parameter `{CONNECTION_PARAMETER}`")
        self.picture = self._picture(function)
        self.checker = Checker(self.input_schema, messages)
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
        for key in ("tags", "aliases", "dependencies"):
            setattr(self, key, self._names(key))
        for name in (self.name, *self.aliases):
            check_name(name, self.place)
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
            _canonical(self.definition())
        except (TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"its definition cannot be expressed as JSON: {error}") from error

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
            **({"icon": self.picture.identity} if self.picture is not None else {}),
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """The hash of the definition: it changes when, and only when, something that others see has changed."""
        return hashlib.sha256(_canonical(self.definition())).hexdigest()

    def __repr__(self) -> str:
        return f"<Tool {self.name} at {self.place}>"


class FunctionTool(Tool):
    """A tool made of a function by `@tool` or `@pack.tool`. Calling it calls the function, as if undecorated."""

    def __init__(self, function: Callable[..., Any], **declared: Any) -> None:
        self.function = function
        self.place = _place_of(function)
        for key, value in declared.items():
            setattr(self, key, value)
        self.name = self.name or function.__name__
        self.description = inspect.cleandoc(self.description or function.__doc__ or "")
        try:
            signature = signatures.from_signature(function, Context)
        except SchemaError as error:
            raise DefinitionError(f"{self.name}: {error}", self.place) from error
        self._context_parameter = signature.context_parameter
        self.speaks = signature.context_parameter is not None
        self.convert = signature.convert
        self.settle(signature.schema, function)

    def run(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        if self._context_parameter is not None:
            return self.function(**{self._context_parameter: ctx}, **arguments)
        return self.function(**arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class SchemaTool(Tool):
    """A tool described by a schema instead of Python types; its function takes the arguments as one dict."""

    speaks = False

    def __init__(self, function: Callable[[dict[str, Any]], Any], schema: Schema, **declared: Any) -> None:
        self.function = function
        self.place = _place_of(function)
        for key, value in declared.items():
            setattr(self, key, value)
        self.convert = _unchanged
        self.settle(schema, function)

    def run(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        return self.function(arguments)


@dataclass(eq=False)
class Pack:
    """Tools that are shipped together.

    `connection` is the kind of account at an upstream that they need; each call gets a client of the one it uses, as
    `ctx.http`. `requires` names the environment variables without which none of them can work. Until that is there,
    the tools are listed for operators as unavailable, with what is missing.
    `text_form` is how agents read the answers, where that is not JSON. `icon` stands for all tools that have none.
    """

    name: str
    version: str = "1.0.0"
    title: str = ""
    description: str = ""
    connection: ConnectionKind | None = None
    requires: Sequence[str] = ()
    timeout: float | None = None
    retries: int | None = None
    rate: Rate | None = None
    text_form: TextForm | None = None
    icon: str | Path = ""
    tools: list[Tool] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    broken: list[DefinitionError] = field(default_factory=list)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that the hub reads for it."""
        return (*self.requires, *(self.connection.variables if self.connection is not None else ()))

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise DefinitionError(f"Pack name {self.name!r} must look like a tool's name")

    @overload
    def tool(self, function: Callable[..., Any], /) -> FunctionTool: ...
    @overload
    def tool(self, /, **declared: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Make a function a tool of this pack. Takes what `tool` takes."""

        def decorate(function: Callable[..., Any]) -> Any:
            try:
                made = FunctionTool(function, pack=self, **_known(declared))
            except DefinitionError as error:
                # One tool that cannot be used must not take the others of its file with it.
                self.broken.append(error)
                return function
            self.tools.append(made)
            return made

        return decorate if function is None else decorate(function)

    def add(self, kind: type[Tool]) -> type[Tool]:
        """Class decorator: make a `Tool` subclass a tool of this pack."""
        kind.pack = self
        try:
            self.tools.append(kind())
        except DefinitionError as error:
            self.broken.append(error)
        return kind

    def prompt(self, **declared: Any) -> Callable[[Callable[..., Any]], Prompt]:
        """Make a function a prompt of this pack. Takes what `prompt.prompt` takes."""
        from tools_app import prompt  # At first use: most packs have none, and an agent waits for the start.

        return self._offering(lambda function: prompt.made(function, self, declared))

    def resource(self, uri: str, /, **declared: Any) -> Callable[[Callable[..., Any]], Resource]:
        """Make a function a resource of this pack. Takes what `resource.resource` takes."""
        from tools_app import resource

        return self._offering(lambda function: resource.made(uri, function, self, declared))

    def _offering(self, make: Callable[[Callable[..., Any]], Any]) -> Callable[[Callable[..., Any]], Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            try:
                made = make(function)
            except DefinitionError as error:
                self.broken.append(error)
                return function
            self.offers.append(made)
            return made

        return decorate


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = ...,
    title: str = ...,
    description: str = ...,
    category: str = ...,
    tags: Iterable[str] = ...,
    author: str = ...,
    version: str = ...,
    hints: Hints = ...,
    examples: Sequence[Example] = ...,
    aliases: Sequence[str] = ...,
    dependencies: Sequence[str] = ...,
    timeout: float | None = ...,
    retries: int | None = ...,
    rate: Rate | None = ...,
    cache_seconds: int | None = ...,
    answer_tokens: int | None = ...,
    starts_off: bool = ...,
    minimal: Formatter | None = ...,
    done: str = ...,
    guidance: Guidance | None = ...,
    icon: str | Path = ...,
    output_schema: Schema | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Make a function a tool.

    `cache_seconds` lets the hub give an answer again for the same arguments, to whoever may call the tool; only for
    tools that read, and whose answer does not depend on who asks.
    `answer_tokens` makes the hub outline answers sooner than it would: larger ones are kept, and read in pages.
    `starts_off` is for a tool that nobody may call until an operator has switched it on.
    `minimal` turns the full answer into a short one; the hub adds the parameter `raw` with which the caller asks
    for the full one. `done` is the message of a `{success, message, data}` answer. `guidance` (text, or a
    function of the answer) tells the agent what to do next. `icon` is an `https:` or `data:` address, or a small PNG
    or SVG file, as seen from the file of the tool.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a tool.
    """
    if function is not None:
        return FunctionTool(function)
    declared = _known(declared)
    return lambda function: FunctionTool(function, **declared)


def check_name(name: str, place: str = "") -> None:
    """Raises: DefinitionError, in the documents' words."""
    if not name or not name.strip():
        raise DefinitionError("Tool name is required", place)
    if not NAME.fullmatch(name):
        raise DefinitionError(
            "Tool name must start with lowercase letter and contain only lowercase letters, numbers, "
            "hyphens, and underscores (at most 64 characters)",
            place,
        )


def folded(name: str) -> str:
    """`a-b` and `a_b` are the same name: an agent must not be able to mistake one tool for another."""
    return name.replace("-", "_")


def _canonical(definition: Mapping[str, Any]) -> bytes:
    return json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


_DECLARABLE: Final = frozenset(
    {
        *("name", "title", "description", "category", "tags", "author", "version", "hints", "examples", "aliases"),
        *("retries", "rate", "cache_seconds", "answer_tokens", "starts_off"),
        *("dependencies", "timeout", "minimal", "done", "guidance", "icon", "output_schema"),
    }
)


def _known(declared: dict[str, Any]) -> dict[str, Any]:
    if unknown := declared.keys() - _DECLARABLE:
        raise TypeError(f"tool() does not know {', '.join(sorted(unknown))}")
    return declared


def _unchanged(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def _place_of(thing: Any) -> str:
    """`file:line` of a function or class."""
    module = getattr(thing, "__module__", "")
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{shown_path(code.co_filename, module)}:{code.co_firstlineno}"
    file = getattr(sys.modules.get(module), "__file__", None) or "?"
    path = shown_path(file, module)
    # `inspect` parses the whole file to find a class, which takes longer than all else that a tool is made of.
    begins = re.compile(rf"\s*class {re.escape(getattr(thing, '__name__', ''))}\b")
    lines = [number for number, line in enumerate(linecache.getlines(file), 1) if begins.match(line)]
    if len(lines) == 1:
        return f"{path}:{lines[0]}"
    try:
        return f"{path}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return path


def shown_path(path: str, module: str) -> str:
    """A module's file as `package/module.py`: the same on every machine, whatever the working directory."""
    inner = module.replace(".", "/")
    for end in (f"{inner}.py", f"{inner}/__init__.py"):
        if path.endswith(f"/{end}"):
            return end
    return path
