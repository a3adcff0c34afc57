"""Prompts: prepared conversations that a pack offers.

@pack.prompt(title="Plan a day", tools=["forecast"])
def plan_day(city: str, mood: Literal["lazy", "busy"] = "lazy") -> str:
    \"\"\"Plan a day in a city.\"\"\"
    return f"Plan a {mood} day in {city}. Look at the weather first."
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Unpack

from tools_app.sdk import content
from tools_app.sdk.content import Part
from tools_app.sdk.offer import Offer, OfferOptions, check_options
from tools_app.sdk.pack import Pack
from tools_app.sdk.spec import Kind

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Included:
    """A resource of this hub, read for the caller of the prompt and embedded in its place."""

    uri: str

    def __post_init__(self) -> None:
        content.check_uri(self.uri)


@dataclass(frozen=True, slots=True)
class Message(Part):
    """One message of a conversation, with its role."""

    content: str | Part | Included
    role: Role = "user"

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"the role {self.role!r} must be user or assistant")
        if isinstance(self.content, Message) or not isinstance(self.content, str | Part | Included):
            raise TypeError(f"{type(self.content).__name__} cannot be the content of a message")

    def wire(self) -> dict[str, Any]:
        if isinstance(self.content, Included):
            return {"role": self.role, "content": {"type": "included", "uri": self.content.uri}}
        return {"role": self.role, "content": content.wire_of(self.content)}

    def in_words(self) -> str:
        part = self.content
        text = part if isinstance(part, str) else part.in_words() if isinstance(part, Part) else f"[{part.uri}]"
        return f"{self.role}: {text}"


class Prompt(Offer):
    """A prompt. Its arguments are text on the wire, whatever their types in the function."""

    kind: ClassVar[Kind] = Kind.PROMPT

    def __init__(self, function: Callable[..., Any], **declared: Any) -> None:
        super().__init__(function, **declared)
        self.check_listed()

    def shaped(self, returned: Any) -> list[Message]:
        pieces = returned if isinstance(returned, list | tuple) else [returned]
        if not pieces:
            raise ValueError("a prompt without a message")
        return [piece if isinstance(piece, Message) else Message(piece) for piece in pieces]


def prompt(**declared: Unpack[OfferOptions]) -> Callable[[Callable[..., Any]], Prompt]:
    """Make a function a prompt. Only callers who may use all of its `tools` see it.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a prompt.
    """
    return lambda function: made(function, None, declared)


def made(function: Callable[..., Any], pack: Pack | None, declared: Mapping[str, Any]) -> Prompt:
    check_options(declared, OfferOptions, Kind.PROMPT)
    return Prompt(function, pack=pack, **declared)
