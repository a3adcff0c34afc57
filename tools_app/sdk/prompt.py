"""Prompts: conversations that a pack has ready to begin.

@pack.prompt(title="Plan a day", tools=["forecast"])
def plan_day(city: str, mood: Literal["lazy", "busy"] = "lazy") -> str:
    \"\"\"Plan a day in a city.\"\"\"
    return f"Plan a {mood} day in {city}. Look at the weather first."
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from tools_app.sdk import content
from tools_app.sdk.content import Part
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema

Role = Literal["user", "assistant"]

_DECLARABLE: Final = frozenset({"name", "title", "description", "category", "tags", "tools", "timeout", "rate"})


@dataclass(frozen=True, slots=True)
class Included:
    """A resource of this hub, to be read for whoever asks for the prompt, and put in its place."""

    uri: str

    def __post_init__(self) -> None:
        content.check_uri(self.uri)


@dataclass(frozen=True, slots=True)
class Message(Part):
    """Something that was said, and by whom."""

    content: str | Part | Included
    role: Role = "user"

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"{self.role!r} says nothing in a prompt: user or assistant does")
        if isinstance(self.content, Message) or not isinstance(self.content, str | Part | Included):
            raise TypeError(f"{type(self.content).__name__} is no content of a message")

    def wire(self) -> dict[str, Any]:
        if isinstance(self.content, Included):
            return {"role": self.role, "content": {"type": "included", "uri": self.content.uri}}
        return {"role": self.role, "content": content.wire_of(self.content)}

    def in_words(self) -> str:
        said = self.content
        words = said if isinstance(said, str) else said.in_words() if isinstance(said, Part) else f"[{said.uri}]"
        return f"{self.role}: {words}"


class Prompt(Offer):
    """One prompt. Its arguments are text on the wire, whatever they are in the function."""

    kind: ClassVar[str] = "prompt"

    def __init__(self, function: Callable[..., Any], **declared: Any) -> None:
        super().__init__(function, **declared)
        self.check_listed()

    def shaped(self, returned: Any) -> list[Message]:
        pieces = returned if isinstance(returned, list | tuple) else [returned]
        if not pieces:
            raise ValueError("a prompt without a message")
        return [piece if isinstance(piece, Message) else Message(piece) for piece in pieces]

    def wire(self) -> dict[str, Any]:
        required = self.runner.input_schema.get("required", ())
        wire: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "arguments": [
                {"name": name, "description": self._explained(name, part), "required": name in required}
                for name, part in self.properties.items()
            ],
            "_meta": {
                "toolhub/version": self.runner.effective_version,
                "toolhub/category": self.category,
                "toolhub/tags": sorted(set(self.tags)),
            },
        }
        return wire | {"title": self.title} if self.title else wire

    def _explained(self, name: str, part: Schema) -> str:
        """A prompt's arguments have no schema on the wire: what people need of it is said."""
        said = [part.get("description", "")]
        if choices := self.choices(name):
            said.append(f"One of {', '.join(choices)}.")
        if "default" in part:
            default = part["default"]
            said.append(f"Default: {default if isinstance(default, str) else json.dumps(default)}.")
        return " ".join(filter(None, said))


def prompt(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    category: str = "",
    tags: Iterable[str] = (),
    tools: Iterable[str] = (),
    timeout: float | None = None,
    rate: Rate | None = None,
) -> Callable[[Callable[..., Any]], Prompt]:
    """Make a function a prompt. It is offered to those who may use all of the `tools` it works with.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a prompt.
    """
    return lambda function: Prompt(
        function,
        name=name,
        title=title,
        description=description,
        category=category,
        tags=tuple(tags),
        tools=tools,
        timeout=timeout,
        rate=rate,
    )


def made(function: Callable[..., Any], pack: Pack | None, declared: dict[str, Any]) -> Prompt:
    if unknown := declared.keys() - _DECLARABLE:
        raise TypeError(f"prompt() has no option {', '.join(sorted(unknown))}")
    return Prompt(function, pack=pack, **declared)
