"""What a pack offers beside its tools: conversations to begin with (prompts) and things to read (resources).

Both are functions, and are run as tools are that change nothing: the same signatures, checks, limits, deadline and
journal. Only the words differ in which agents ask for them.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from tools_app.sdk.decorator import FunctionTool
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.pack import Pack
from tools_app.sdk.schemas import Schema
from tools_app.sdk.tool import Hints

READS: Final = Hints(read_only=True)
READS_WITHIN: Final = Hints(read_only=True, open_world=False)


class Completes:
    """Says what an argument can be, while somebody types it: `Annotated[str, Completes(projects)]`.

    `projects` takes what was typed so far as `value: str`, and, if it likes, `arguments: dict[str, str]`, the other
    arguments as far as they are known, and a `Context`. What it returns is narrowed to what fits. A URI template
    in its place stands for the values of that template's variable of the same name, or of its only one.
    """

    def __init__(self, source: Callable[..., Any] | str) -> None:
        self.source = source


class Offer:
    """A prompt or a resource. Calling it calls the function, as if undecorated."""

    kind: ClassVar[str]
    hints: ClassVar[Hints] = READS_WITHIN

    def __init__(
        self, function: Callable[..., Any], *, pack: Pack | None = None, tools: Iterable[str] = (), **declared: Any
    ) -> None:
        self.function = function
        self.pack = pack
        name = declared.get("name") or function.__name__
        try:
            self.runner = Runner(self.kind, self.shaped, function, pack=pack, hints=self.hints, **declared)
            self.tools = () if isinstance(tools, str) else tuple(tools)
            if isinstance(tools, str) or not all(isinstance(tool, str) for tool in self.tools):
                raise DefinitionError("tools must be a list of names", self.runner.place)
            if not all(isinstance(words, str) for words in (self.title, self.category)):
                raise DefinitionError("title and category must be text", self.runner.place)
            self._sources = self._completing()
        except DefinitionError as error:
            raise DefinitionError(f"{self.kind} {name}: {error}", error.place) from error
        self.name: str = name

    @property
    def key(self) -> str:
        """What tells it from others of its kind."""
        return self.name

    @property
    def title(self) -> str:
        return self.runner.title

    @property
    def description(self) -> str:
        return self.runner.description

    @property
    def category(self) -> str:
        return self.runner.category

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.runner.tags)

    @property
    def place(self) -> str:
        return self.runner.place

    @property
    def properties(self) -> Mapping[str, Schema]:
        """The schemas of its arguments, by name."""
        properties: Mapping[str, Schema] = self.runner.input_schema["properties"]
        return properties

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The arguments, which are text on the wire, as the schema has them. What cannot be read stays text, and is
        refused."""
        required = self.runner.input_schema.get("required", ())
        return {
            # People leave fields of a form empty, and clients send them.
            name: _read(value, self.properties.get(name, {}))
            for name, value in given.items()
            if value or name in required or name not in self.properties
        }

    def shaped(self, returned: Any) -> Any:
        """What the function returned, as content."""
        raise NotImplementedError

    def wire(self) -> dict[str, Any]:
        """As it stands in a list."""
        raise NotImplementedError

    def check_listed(self) -> None:
        """Raises: DefinitionError, when it would take the list that it stands in with it."""
        try:
            json.dumps(self.wire(), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{self.kind} {self.name}: it cannot be listed: {error}", self.place) from error

    def choices(self, argument: str) -> list[str]:
        """All that an argument can be, where its type says so."""
        part = self.properties[argument]
        if part.get("type") == "boolean":
            return ["true", "false"]
        choices = [part["const"]] if "const" in part else part.get("enum", ())
        return [value if isinstance(value, str) else json.dumps(value) for value in choices]

    def completion(self, argument: str) -> FunctionTool | str | None:
        """What knows the values of an argument: a function, or a URI template."""
        return self._sources.get(argument)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} at {self.place}>"

    def _completing(self) -> dict[str, FunctionTool | str]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        found: dict[str, FunctionTool | str] = {}
        for argument in self.properties.keys() & hints.keys():
            for source in _sources_in(hints[argument]):
                found[argument] = source if isinstance(source, str) else self._completer(argument, source)
        return found

    def _completer(self, argument: str, function: Callable[..., Any]) -> FunctionTool:
        completer = FunctionTool(
            function,
            pack=self.pack,
            name="completion",
            description=f"Completes {argument}.",
            hints=self.hints,
        )
        if not {"value"} <= completer.input_schema["properties"].keys() <= {"value", "arguments"}:
            raise DefinitionError(f"what completes {argument} must take `value` and may take `arguments`", self.place)
        completer.name = f"{self.runner.name}:{argument}"
        completer.output_schema = completer.output_checker = None
        return completer


class Runner(FunctionTool):
    """An offer, as the engine runs it."""

    def __init__(self, kind: str, shaped: Callable[[Any], Any], function: Callable[..., Any], **declared: Any) -> None:
        self._shaped = shaped
        super().__init__(function, **declared)
        # In the journal it stands beside tools, and may have the name of one.
        self.name = f"{kind}:{self.name}"
        self.output_schema = self.output_checker = None

    @property
    def text_form(self) -> None:
        """Its words are its own."""
        return

    def run(self, ctx: Any, arguments: dict[str, Any]) -> Any:
        returned = super().run(ctx, arguments)
        return self._later(returned) if inspect.isawaitable(returned) else self._shaped(returned)

    async def _later(self, returned: Any) -> Any:
        return self._shaped(await returned)


def _read(value: str, part: Schema) -> Any:
    kinds = part.get("type")
    if kinds is None or "string" in kinds:
        return value
    try:
        return json.loads(value.lower() if kinds == "boolean" else value)
    except (ValueError, RecursionError):
        return value


def _sources_in(annotation: Any) -> Sequence[Callable[..., Any] | str]:
    own = [extra.source for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Completes)]
    return own or [source for part in typing.get_args(annotation) for source in _sources_in(part)]
