"""Packs: tools that are shipped together, with their connection kind and text format.

pack = Pack("weather", version="1.0.0")

@pack.tool(category="forecast", hints=Hints(read_only=True))
async def forecast(city: str) -> str: ...
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from tools_app.sdk import variables
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.decorator import FunctionTool, known
from tools_app.sdk.errors import ConfigurationError
from tools_app.sdk.names import NAME, DefinitionError
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema
from tools_app.sdk.tool import Tool

if TYPE_CHECKING:
    from tools_app.sdk.offer import Offer
    from tools_app.sdk.prompt import Prompt
    from tools_app.sdk.resource import Resource


# A function without parameters, plain or async.
Hook = Callable[[], Any]
_HookT = TypeVar("_HookT", bound=Hook)


@dataclass(frozen=True, slots=True)
class TextForm:
    """The text format of a pack's answers, if not JSON. Callers can request JSON with `format`.

    `write` turns the final answer into text; structured content has the data in addition. `escapes` promises that no
    value can break out of its place in the text, as in XML: text by outsiders then needs no marks.
    """

    name: str
    write: Callable[[Any], str]
    escapes: bool = False

    def parameter(self) -> Schema:
        return {
            "type": "string",
            "enum": [self.name, "json"],
            "default": self.name,
            "description": "Answer format.",
        }


@dataclass(eq=False)
class Pack:
    """Tools that are shipped together.

    `connection` is the kind of upstream account that they need; a call gets a client for its account as `ctx.http`.
    `requires` names the environment variables that all of them need. While any of that is missing, operators see the
    tools as unavailable, with the reason.
    `text_form` is the text format of the answers, if not JSON. `untrusted`, the default for the tools, says whether
    answers can contain text by people outside the hub. `icon` is the default icon of the tools.
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
    untrusted: bool | None = None
    icon: str = ""
    tools: list[Tool] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    broken: list[DefinitionError] = field(default_factory=list)
    start_hooks: list[Hook] = field(default_factory=list)
    stop_hooks: list[Hook] = field(default_factory=list)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that the hub reads for this pack."""
        return (*self.requires, *(self.connection.variables if self.connection is not None else ()))

    def value(self, name: str) -> str:
        """The value of a variable in `requires`, or of the file that `NAME_FILE` names, as the hub reads its own.

        Raises:
            ConfigurationError: it is not set, or cannot be read. The message has neither the value nor a path.
        """
        if name not in self.requires:
            raise ValueError(f"{name} is not in the `requires` of the pack {self.name}")
        try:
            value = variables.text(os.environ, name)
        except variables.UnreadableError as error:
            raise ConfigurationError(error.brief, next_step="An operator should correct it.") from error
        if not value:
            raise ConfigurationError(f"{name} is not set", next_step=f"An operator should set {name}.")
        return value

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise DefinitionError(f"Pack name {self.name!r} must have the form of a tool name")

    @overload
    def tool(self, function: Callable[..., Any], /) -> FunctionTool: ...
    @overload
    def tool(self, /, **declared: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Make a function a tool of this pack, with the options of `tool`."""

        def decorate(function: Callable[..., Any]) -> Any:
            try:
                function_tool = FunctionTool(function, pack=self, **known(declared))
            except DefinitionError as error:
                # One invalid tool must not disable the others of its file.
                self.broken.append(error)
                return function
            self.tools.append(function_tool)
            return function_tool

        return decorate if function is None else decorate(function)

    def add(self, kind: type[Tool]) -> type[Tool]:
        """Class decorator: make a `Tool` subclass a tool of this pack."""
        kind.pack = self
        try:
            self.tools.append(kind())
        except DefinitionError as error:
            self.broken.append(error)
        return kind

    def on_start(self, hook: _HookT) -> _HookT:
        """Run a function in each process before the first call of a tool of this pack.

        If it raises, the tools are unavailable, with the reason, and it is tried again later.
        """
        self.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: _HookT) -> _HookT:
        """Run a function when a process that has started this pack ends."""
        self.stop_hooks.append(hook)
        return hook

    def prompt(self, **declared: Any) -> Callable[[Callable[..., Any]], Prompt]:
        """Make a function a prompt of this pack, with the options of `prompt.prompt`."""
        from tools_app.sdk import prompt  # At first use: few packs need it, and it would slow down every start.

        return self._offer_decorator(lambda function: prompt.made(function, self, declared))

    def resource(self, uri: str, /, **declared: Any) -> Callable[[Callable[..., Any]], Resource]:
        """Make a function a resource of this pack, with the options of `resource.resource`."""
        from tools_app.sdk import resource

        return self._offer_decorator(lambda function: resource.made(uri, function, self, declared))

    def _offer_decorator(self, make: Callable[[Callable[..., Any]], Any]) -> Callable[[Callable[..., Any]], Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            try:
                offer = make(function)
            except DefinitionError as error:
                self.broken.append(error)
                return function
            self.offers.append(offer)
            return offer

        return decorate
