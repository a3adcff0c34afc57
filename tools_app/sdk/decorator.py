"""Tools from functions: `@tool` reads the signature; `SchemaTool` takes a schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_overloads, overload

from tools_app.sdk import signatures
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.places import place_of
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema, SchemaError
from tools_app.sdk.tool import Formatter, Guidance, Tool


class FunctionTool(Tool):
    """A function decorated with `@tool` or `@pack.tool`. Calling it calls the function, as if undecorated."""

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
    needs_option: str = ...,
    needs_files: bool = ...,
    minimal: Formatter | None = ...,
    done: str = ...,
    guidance: Guidance | None = ...,
    untrusted: bool | None = ...,
    escapes: bool = ...,
    logged: Sequence[str] = ...,
    icon: str = ...,
    output_schema: Schema | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Make a function a tool.

    `cache_seconds`: answers are cached for this time, for the same arguments and all callers; only for tools that
    read and whose answer does not depend on the caller.
    `answer_tokens`: a lower token budget than the hub's; larger answers are stored, outlined and read in pages.
    `keywords`: search terms in any language; they take nothing of an agent's context.
    `dependencies`: the tools that it needs, with a version range (`"get_issue ^1.2"`), or with a `?` if optional.
    `deprecated`: what to use instead, also shown to agents.
    `starts_off`: the tool is disabled until an operator enables it.
    `needs_option`, `needs_files`: the option of a connection, or the directory for files, without which every call is
    refused. Until an operator sets it, the tool is not listed.
    `minimal`: turns the full answer into a short one; the hub adds a parameter `raw` to request the full one.
    `done`: the message of a `{success, message, data}` answer.
    `guidance`: text, or a function of the answer, that tells the agent what to do next.
    `untrusted`: whether answers can contain text by people outside the hub, which callers are then told. The default
    is `hints.open_world`. If it is set, or the pack has a connection, text that the tool returns is put between
    marks; `escapes` omits them, and promises that no such text can be mistaken for something else.
    `logged`: the parameters that the log shows at INFO, with secrets masked; it shows no others.
    `icon`: an `https:` or `data:` URL, or a small PNG or SVG file, relative to the file of the tool.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a tool.
    """
    if function is not None:
        return FunctionTool(function)
    declared = known(declared)
    return lambda function: FunctionTool(function, **declared)


@functools.cache
def _declarable() -> frozenset[str]:
    """The options of `tool`, as its signature has them."""
    return frozenset(inspect.signature(get_overloads(tool)[-1]).parameters)


def known(declared: dict[str, Any]) -> dict[str, Any]:
    """Raises: TypeError, for an option that `tool` does not have."""
    if unknown := declared.keys() - _declarable():
        raise TypeError(f"tool() has no option {', '.join(sorted(unknown))}")
    return declared


def _unchanged(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments
