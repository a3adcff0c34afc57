"""Prompts and resources: what a pack offers beside tools.

Both are functions and run like read-only tools, with the same signatures, validation, limits, deadline and journal.
Only the protocol messages differ.
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
    """Completion of an argument: `Annotated[str, Completes(projects)]`.

    The function `projects` takes the input so far as `value: str`, and optionally the other known arguments as
    `arguments: dict[str, str]`, and a `Context`. The hub filters what it returns by the input. A URI template instead
    of a function takes the values of that template's variable of the same name, or of its only one.
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
            self._sources = self._completion_sources()
        except DefinitionError as error:
            raise DefinitionError(f"{self.kind} {name}: {error}", error.place) from error
        self.name: str = name

    @property
    def key(self) -> str:
        """Its identifier among the offers of its kind."""
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

    def read(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The arguments, which are text on the wire, with the types of the schema. Text that cannot be parsed stays
        text, and fails validation."""
        required = self.runner.input_schema.get("required", ())
        return {
            # Clients also send the empty fields of a form.
            name: _read(value, self.properties.get(name, {}))
            for name, value in values.items()
            if value or name in required or name not in self.properties
        }

    def shaped(self, returned: Any) -> Any:
        """The return value of the function, as content."""
        raise NotImplementedError

    def wire(self) -> dict[str, Any]:
        """Its entry in a list."""
        raise NotImplementedError

    def check_listed(self) -> None:
        """Raises: DefinitionError, if it cannot be written as JSON: that would break the whole list."""
        try:
            json.dumps(self.wire(), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{self.kind} {self.name}: it cannot be listed: {error}", self.place) from error

    def choices(self, argument: str) -> list[str]:
        """The values of an argument with an enumerated type."""
        part = self.properties[argument]
        if part.get("type") == "boolean":
            return ["true", "false"]
        choices = [part["const"]] if "const" in part else part.get("enum", ())
        return [value if isinstance(value, str) else json.dumps(value) for value in choices]

    def completion(self, argument: str) -> FunctionTool | str | None:
        """The source of an argument's values: a function, or a URI template."""
        return self._sources.get(argument)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} at {self.place}>"

    def _completion_sources(self) -> dict[str, FunctionTool | str]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        sources: dict[str, FunctionTool | str] = {}
        for argument in self.properties.keys() & hints.keys():
            for source in _sources_in(hints[argument]):
                sources[argument] = source if isinstance(source, str) else self._completer(argument, source)
        return sources

    def _completer(self, argument: str, function: Callable[..., Any]) -> FunctionTool:
        completer = FunctionTool(
            function,
            pack=self.pack,
            name="completion",
            description=f"Completes {argument}.",
            hints=self.hints,
        )
        if not {"value"} <= completer.input_schema["properties"].keys() <= {"value", "arguments"}:
            raise DefinitionError(f"the completion of {argument} must take `value` (and `arguments`)", self.place)
        completer.name = f"{self.runner.name}:{argument}"
        completer.output_schema = completer.output_checker = None
        return completer


class Runner(FunctionTool):
    """The tool as which the engine runs an offer."""

    def __init__(self, kind: str, shaped: Callable[[Any], Any], function: Callable[..., Any], **declared: Any) -> None:
        self._shaped = shaped
        super().__init__(function, **declared)
        # The prefix keeps it apart from tools of the same name in the journal.
        self.name = f"{kind}:{self.name}"
        self.output_schema = self.output_checker = None

    @property
    def text_form(self) -> None:
        """Offers have a format of their own."""
        return

    def run(self, ctx: Any, arguments: dict[str, Any]) -> Any:
        returned = super().run(ctx, arguments)
        return self._await_and_shape(returned) if inspect.isawaitable(returned) else self._shaped(returned)

    async def _await_and_shape(self, returned: Any) -> Any:
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
    sources = [extra.source for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Completes)]
    return sources or [source for part in typing.get_args(annotation) for source in _sources_in(part)]
