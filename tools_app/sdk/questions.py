"""Questions of a running tool to its client (sampling, roots) and to the client's user (elicitation).

    reply = await ctx.elicit("Delete 12 workflows?", Confirmation)
    if not reply.accepted: …

Some clients answer while the call waits. With others the call ends with the question, and the client repeats it with
the answer: the tool then runs from its start, and gets the answer to the repeated question at once. So a tool must ask
before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from tools_app.sdk.checker import Checker
from tools_app.sdk.errors import InputRequiredError, InvalidArgumentsError
from tools_app.sdk.schemas import Schema
from tools_app.sdk.signatures import from_model

_SIMPLE: Final = frozenset({"string", "number", "integer", "boolean"})
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Question:
    """A question for clients that have declared the capability."""

    method: ClassVar[str]
    capability: ClassVar[str]

    def params(self) -> dict[str, Any]:
        raise NotImplementedError

    def read(self, result: object) -> Any:
        """Raises: Unfit."""
        raise NotImplementedError


class Unfit(ValueError):
    """The client's answer is not valid for the question."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The outcome of a call that needs answers first: with them, the client repeats the call."""

    questions: Mapping[str, Question]


class InputRequired(BaseException):
    """Unwinds the function of a tool that has asked a question. Not an error: tools must not catch it.

    Its runner turns it into an `Ask`. `InputRequiredError` is the error of a client that cannot answer.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__(*questions)
        self.ask = Ask(questions)


@dataclass(frozen=True, slots=True)
class Reply:
    """A user's answer. `data` has the form's content, if the action is `accept`."""

    action: str
    data: Any = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Elicit(Question):
    """A question to the user of the agent.

    The form is a pydantic model, a dataclass, a TypedDict or a schema: an object of texts, numbers, booleans and
    choices, since clients can show nothing else.
    """

    method = "elicitation/create"
    capability = "elicitation"

    def __init__(self, message: str, form: Any) -> None:
        convert: Callable[[dict[str, Any]], Any]
        schema: Schema
        if isinstance(form, Mapping):
            schema, convert = dict(form), _unchanged
        else:
            schema, convert = from_model(form)
        self.message = message
        self._schema = _checked_form(schema)
        self._convert = convert

    def params(self) -> dict[str, Any]:
        schema = {key: self._schema[key] for key in ("type", "properties", "required") if key in self._schema}
        return {"mode": "form", "message": self.message, "requestedSchema": schema}

    def read(self, result: object) -> Reply:
        action = result.get("action") if isinstance(result, Mapping) else None
        if not isinstance(result, Mapping) or action not in ("accept", "decline", "cancel"):
            raise Unfit("its action is not accept, decline or cancel")
        if action != "accept":
            return Reply(str(action))
        content = result.get("content") or {}
        if not isinstance(content, Mapping):
            raise Unfit("its content is not an object")
        values = {name: content[name] for name in self._schema["properties"] if content.get(name) is not None}
        if problems := Checker(self._schema).problems(values):
            raise Unfit(problems[0].message)
        try:
            return Reply("accept", self._convert(values))
        except InvalidArgumentsError as error:
            raise Unfit(error.message) from error


@dataclass(frozen=True, slots=True)
class Sampled:
    """The answer of the client's model."""

    text: str
    model: str
    stop_reason: str = ""


class Sample(Question):
    """A prompt for the client's model."""

    method = "sampling/createMessage"
    capability = "sampling"

    def __init__(self, prompt: str, *, max_tokens: int = 1000, system: str = "") -> None:
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.system = system

    def params(self) -> dict[str, Any]:
        message = {"role": "user", "content": {"type": "text", "text": self.prompt}}
        params: dict[str, Any] = {"messages": [message], "maxTokens": self.max_tokens}
        if self.system:
            params["systemPrompt"] = self.system
        return params

    def read(self, result: object) -> Sampled:
        if not isinstance(result, Mapping):
            raise Unfit("it is not an object")
        content = result.get("content")
        pieces = content if isinstance(content, Sequence) and not isinstance(content, str) else [content]
        texts = [piece.get("text") for piece in pieces if isinstance(piece, Mapping) and piece.get("type") == "text"]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise Unfit("it has no text")
        return Sampled("\n".join(map(str, texts)), str(result.get("model", "")), str(result.get("stopReason") or ""))


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or other root that the client works in."""

    uri: str
    name: str = ""


class Roots(Question):
    """The roots that the client works in."""

    method = "roots/list"
    capability = "roots"

    def params(self) -> dict[str, Any]:
        return {}

    def read(self, result: object) -> list[Root]:
        roots = result.get("roots") if isinstance(result, Mapping) else None
        if not isinstance(roots, Sequence) or not all(isinstance(root, Mapping) and root.get("uri") for root in roots):
            raise Unfit("it is not a list of roots")
        return [Root(str(root["uri"]), str(root.get("name") or "")) for root in roots]


class Client(Protocol):
    """The client of a call, for messages and questions while the call runs."""

    def can(self, capability: str) -> bool: ...
    def progress(self, done: float, total: float | None, message: str) -> None: ...
    def tell(self, level: str, message: str, data: Mapping[str, Any]) -> None: ...
    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Raises: InputRequiredError, InputRequired."""
        ...


class _NoClient:
    """For channels without a client that can answer: REST, commands, the admin."""

    def can(self, capability: str) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None:
        pass

    def tell(self, level: str, message: str, data: Mapping[str, Any]) -> None:
        pass

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        raise InputRequiredError.nobody_can(next(iter(questions.values())).capability)


NO_CLIENT: Final[Client] = _NoClient()


def _checked_form(schema: Schema) -> Schema:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        raise ValueError("a form must be an object with properties")
    for name, part in properties.items():
        if not isinstance(part, Mapping) or not (part.get("type") in _SIMPLE or _is_choice(part)):
            raise ValueError(f"{name!r} must be text, a number, a boolean or a choice: clients show nothing else")
    return schema


def _is_choice(part: Mapping[str, Any]) -> bool:
    items = part.get("items")
    return part.get("type") == "array" and isinstance(items, Mapping) and not items.keys().isdisjoint(("enum", "anyOf"))


def _unchanged(content: dict[str, Any]) -> dict[str, Any]:
    return content
