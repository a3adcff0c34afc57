"""Questions of a source to the client of a call: only where the source says so, and in the name of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tools_app.sdk.context import Context
from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.outside import Origin
from tools_app.sdk.questions import Elicit, Question, Roots, Sample

MOST_QUESTIONS: Final = 10
MOST_CHARACTERS: Final = 64 * 1024
MOST_ROUNDS: Final = 5
MOST_TOKENS: Final = 4_000
CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class _Relayed(Question):
    """A question of a source. Its answer is checked, and goes to the source as it came."""

    def __init__(self, question: Question, params: Mapping[str, Any]) -> None:
        self.method, self.capability = question.method, question.capability  # type: ignore[misc]
        self._question = question
        self._params = params

    def params(self) -> dict[str, Any]:
        return dict(self._params)

    def read(self, result: object) -> dict[str, Any]:
        self._question.read(result)
        return dict(result) if isinstance(result, Mapping) else {}


async def answered(context: Context, origin: Origin, requests: object) -> dict[str, Any]:
    """The client's answers to the `inputRequests` of a source, in wire form.

    Raises:
        InputRequiredError: the client cannot answer, or the questions cannot be passed on.
        InputRequired: the client answers by repeating the call.
    """
    if not isinstance(requests, Mapping) or len(requests) > MOST_QUESTIONS:
        raise InputRequiredError(f"{origin.name} asks questions that cannot be passed on")
    if len(json.dumps(requests)) > MOST_CHARACTERS:
        raise InputRequiredError(f"{origin.name} asks questions of more than {MOST_CHARACTERS:,} characters")
    questions = {str(key): _question(origin, request) for key, request in requests.items()}
    return dict(await context.ask(**questions)) if questions else {}


def _question(origin: Origin, request: object) -> Question:
    method = request.get("method") if isinstance(request, Mapping) else None
    capability = CAPABILITIES.get(method, "") if isinstance(method, str) else ""
    if not isinstance(request, Mapping) or capability not in origin.declares:
        raise InputRequiredError(
            f"{origin.name} asks for {capability or 'something'} that this hub does not offer it",
            next_step="An administrator of this hub can declare it for the source.",
        )
    params = request.get("params") or {}
    try:
        return _relayed(origin, capability, params)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputRequiredError(f"{origin.name} asks a question that cannot be passed on", detail=error) from error


def _relayed(origin: Origin, capability: str, params: Mapping[str, Any]) -> Question:
    if capability == "roots":
        return _Relayed(Roots(), {})
    if capability == "sampling":
        most = min(int(params.get("maxTokens", MOST_TOKENS)), MOST_TOKENS)
        kept = {name: params[name] for name in ("messages", "systemPrompt", "temperature") if name in params}
        return _Relayed(Sample(""), {**kept, "maxTokens": most})
    if params.get("mode", "form") != "form":
        raise ValueError("only forms can be passed on")
    form = Elicit(f"[{origin.name}] {params['message']}", params["requestedSchema"])
    return _Relayed(form, form.params())
