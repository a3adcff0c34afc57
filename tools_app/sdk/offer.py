"""Prompts and resources: what a pack offers beside tools.

Both are functions and run like read-only tools, with the same signatures, validation, limits, deadline and journal.
Only the protocol messages differ.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, TypedDict

from tools_app.sdk.decorator import FunctionTool
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offered import wire
from tools_app.sdk.pack import Pack
from tools_app.sdk.policies import Rate
from tools_app.sdk.spec import Kind, ToolSpec

READS: Final = Hints(read_only=True)
READS_WITHIN: Final = Hints(read_only=True, open_world=False)


class OfferOptions(TypedDict, total=False):
    """Options of prompts and resources."""

    name: str
    title: str
    description: str
    category: str
    tags: Iterable[str]
    tools: Iterable[str]
    timeout: float | None
    rate: Rate | None


def check_options(declared: Mapping[str, Any], options: type[OfferOptions], kind: Kind) -> None:
    """Raises: TypeError, for an option that does not exist."""
    if unknown := declared.keys() - options.__annotations__.keys():
        raise TypeError(f"{kind}() has no option {', '.join(sorted(unknown))}")


class Completes:
    """Completion of an argument: `Annotated[str, Completes(projects)]`.

    The function `projects` takes the input so far as `value: str`, and optionally the other known arguments as
    `arguments: dict[str, str]`, and a `Context`. The hub filters what it returns by the input. A URI template instead
    of a function takes the values of that template's variable of the same name, or of its only one.
    """

    def __init__(self, source: Callable[..., Any] | str) -> None:
        self.source = source


class OfferFunction(FunctionTool):
    """The function of a prompt, a resource or a completion. Its answers have a form of their own."""

    @property
    def text_form(self) -> None:
        return None


class Offer:
    """A prompt or a resource. Calling it calls the function, as if undecorated."""

    kind: ClassVar[Kind]
    hints: ClassVar[Hints] = READS_WITHIN

    def __init__(
        self, function: Callable[..., Any], *, pack: Pack | None = None, tools: Iterable[str] = (), **declared: Any
    ) -> None:
        self.function = function
        self.pack = pack
        self.name: str = declared.get("name") or function.__name__
        try:
            self.tool = OfferFunction(function, pack=pack, hints=self.hints, **declared)
            self.tools = () if isinstance(tools, str) else tuple(tools)
            if isinstance(tools, str) or not all(isinstance(tool, str) for tool in self.tools):
                raise DefinitionError("tools must be a list of names", self.place)
            if not all(isinstance(words, str) for words in (self.tool.title, self.tool.category)):
                raise DefinitionError("title and category must be text", self.place)
            self.completers = self._completers()
        except DefinitionError as error:
            raise DefinitionError(f"{self.kind} {self.name}: {error}", error.place) from error

    @property
    def key(self) -> str:
        """Its identifier among the offers of its kind."""
        return self.name

    @property
    def place(self) -> str:
        return self.tool.place

    @cached_property
    def spec(self) -> ToolSpec:
        own = self.tool.spec
        body: dict[str, Any] = {"kind": str(self.kind)}
        for name in ("name", "title", "description", "version", "category", "tags", "inputSchema", "annotations"):
            body[name] = own.body[name]
        completions = {
            argument: completer if isinstance(completer, str) else completer.input_schema
            for argument, completer in sorted(self.completers.items())
        }
        runtime = {**own.runtime, **({"completions": completions} if completions else {})}
        return ToolSpec.of({**body, "tools": list(self.tools), **self._own_fields()}, runtime)

    def _own_fields(self) -> dict[str, Any]:
        """What only this kind has in its definition."""
        return {}

    def shaped(self, returned: Any) -> Any:
        """The return value of the function, as content."""
        raise NotImplementedError

    def check_listed(self) -> None:
        """Raises: DefinitionError, if it cannot be written as JSON: that would break the whole list."""
        try:
            json.dumps(wire(self.spec), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{self.kind} {self.name}: it cannot be listed: {error}", self.place) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} at {self.place}>"

    def _completers(self) -> dict[str, OfferFunction | str]:
        """The source of each argument's values: a function, or a URI template."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        completers: dict[str, OfferFunction | str] = {}
        for argument in self.tool.input_schema["properties"].keys() & hints.keys():
            for source in _sources_in(hints[argument]):
                completers[argument] = source if isinstance(source, str) else self._completer(argument, source)
        return completers

    def _completer(self, argument: str, function: Callable[..., Any]) -> OfferFunction:
        completer = OfferFunction(
            function, pack=self.pack, name="completion", description=f"Completes {argument}.", hints=self.hints
        )
        if not {"value"} <= completer.input_schema["properties"].keys() <= {"value", "arguments"}:
            raise DefinitionError(f"the completion of {argument} must take `value` (and `arguments`)", self.place)
        return completer


def _sources_in(annotation: Any) -> Sequence[Callable[..., Any] | str]:
    sources = [extra.source for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Completes)]
    return sources or [source for part in typing.get_args(annotation) for source in _sources_in(part)]
