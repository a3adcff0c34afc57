"""Tools made of functions: by `@tool` from a signature, or from a schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, overload

from tools_app.sdk import signatures
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.places import place_of
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema, SchemaError
from tools_app.sdk.tool import Formatter, Guidance, Hints, Tool


class FunctionTool(Tool):
    """A tool made of a function by `@tool` or `@pack.tool`. Calling it calls the function, as if undecorated."""

    def __init__(self, function: Callable[..., Any], **declared: Any) -> None:
        self.function = function
        self.place = place_of(function)
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
        self.place = place_of(function)
        for key, value in declared.items():
            setattr(self, key, value)
        self.convert = _unchanged
        self.settle(schema, function)

    def run(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        return self.function(arguments)


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
    keywords: Sequence[str] = ...,
    dependencies: Sequence[str] = ...,
    deprecated: str = ...,
    timeout: float | None = ...,
    retries: int | None = ...,
    rate: Rate | None = ...,
    cache_seconds: int | None = ...,
    answer_tokens: int | None = ...,
    starts_off: bool = ...,
    minimal: Formatter | None = ...,
    done: str = ...,
    guidance: Guidance | None = ...,
    untrusted: bool | None = ...,
    escapes: bool = ...,
    logged: Sequence[str] = ...,
    icon: str | Path = ...,
    output_schema: Schema | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Make a function a tool.

    `cache_seconds` lets the hub give an answer again for the same arguments, to whoever may call the tool; only for
    tools that read, and whose answer does not depend on who asks.
    `answer_tokens` makes the hub outline answers sooner than it would: larger ones are kept, and read in pages.
    `keywords` are what people say who look for it, in their languages: they are searched, and take nothing of an
    agent's context.
    `dependencies` names the tools that it needs, with a range of versions (`"get_issue ^1.2"`), or with a `?` where it
    can do without. `deprecated` says what to use instead, to agents as well.
    `starts_off` is for a tool that nobody may call until an operator has switched it on.
    `minimal` turns the full answer into a short one; the hub adds the parameter `raw` with which the caller asks
    for the full one. `done` is the message of a `{success, message, data}` answer. `guidance` (text, or a
    function of the answer) tells the agent what to do next.
    `untrusted` says whether its answers may hold what people outside the hub wrote, which callers are then told;
    without it, they do where the hints say `open_world`, which is where they say nothing. Where it is said, or the
    pack has a connection, a text that the tool returns is put between marks; `escapes` spares it them, and promises
    that nothing that such people wrote can look like something else in it.
    `logged` names the parameters that the log shows at INFO, with secrets masked; it shows no others.
    `icon` is an `https:` or `data:` address, or a small PNG
    or SVG file, as seen from the file of the tool.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a tool.
    """
    if function is not None:
        return FunctionTool(function)
    declared = known(declared)
    return lambda function: FunctionTool(function, **declared)


_DECLARABLE: Final = frozenset(
    {
        *("name", "title", "description", "category", "tags", "author", "version", "hints", "examples", "aliases"),
        *("retries", "rate", "cache_seconds", "answer_tokens", "starts_off", "deprecated"),
        *("keywords", "dependencies", "timeout", "minimal", "done", "guidance", "icon", "output_schema", "untrusted"),
        *("escapes", "logged"),
    }
)


def known(declared: dict[str, Any]) -> dict[str, Any]:
    if unknown := declared.keys() - _DECLARABLE:
        raise TypeError(f"tool() does not know {', '.join(sorted(unknown))}")
    return declared


def _unchanged(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments
