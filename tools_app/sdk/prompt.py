"""Prompts: prepared conversations that a pack offers.

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
                {"name": name, "description": self._describe(name, part), "required": name in required}
                for name, part in self.properties.items()
            ],
            "_meta": {
                "toolhub/version": self.runner.effective_version,
                "toolhub/category": self.category,
                "toolhub/tags": sorted(set(self.tags)),
            },
        }
        return wire | {"title": self.title} if self.title else wire

    def _describe(self, name: str, part: Schema) -> str:
        """The description with choices and default: arguments of prompts have no schema on the wire."""
        sentences = [part.get("description", "")]
        if choices := self.choices(name):
            sentences.append(f"One of {', '.join(choices)}.")
        if "default" in part:
            default = part["default"]
            sentences.append(f"Default: {default if isinstance(default, str) else json.dumps(default)}.")
        return " ".join(filter(None, sentences))


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
    """Make a function a prompt. Only callers who may use all of its `tools` see it.

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
