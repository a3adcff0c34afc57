"""Packs: tools that are shipped together, with the account that they need and the form of their answers.

pack = Pack("weather", version="1.0.0")

@pack.tool(category="forecast", hints=Hints(read_only=True))
async def forecast(city: str) -> str: ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.decorator import FunctionTool, known
from tools_app.sdk.names import NAME, DefinitionError
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema
from tools_app.sdk.tool import Tool

if TYPE_CHECKING:
    from tools_app.sdk.offer import Offer
    from tools_app.sdk.prompt import Prompt
    from tools_app.sdk.resource import Resource


@dataclass(frozen=True, slots=True)
class TextForm:
    """How agents read the answers of a pack, where that is not JSON. Callers may ask for JSON as well (`format`).

    `write` is given an answer as it leaves the hub, which beside its text is always there as data. `escapes` promises
    that no value can leave its place in the text, as none can in XML: what outsiders wrote needs no marks around it.
    """

    name: str
    write: Callable[[Any], str]
    escapes: bool = False

    def parameter(self) -> Schema:
        return {
            "type": "string",
            "enum": [self.name, "json"],
            "default": self.name,
            "description": "Form of the answer's text.",
        }


@dataclass(eq=False)
class Pack:
    """Tools that are shipped together.

    `connection` is the kind of account at an upstream that they need; each call gets a client of the one it uses, as
    `ctx.http`. `requires` names the environment variables without which none of them can work. Until that is there,
    the tools are listed for operators as unavailable, with what is missing.
    `text_form` is how agents read the answers, where that is not JSON. `untrusted` says for all tools that do not say
    it themselves whether their answers may hold what people outside the hub wrote. `icon` stands for all tools that
    have none.
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
                made = FunctionTool(function, pack=self, **known(declared))
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
        from tools_app.sdk import prompt  # At first use: most packs have none, and an agent waits for the start.

        return self._offering(lambda function: prompt.made(function, self, declared))

    def resource(self, uri: str, /, **declared: Any) -> Callable[[Callable[..., Any]], Resource]:
        """Make a function a resource of this pack. Takes what `resource.resource` takes."""
        from tools_app.sdk import resource

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
