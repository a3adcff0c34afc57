"""Questions of sources to the clients of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.mcp_upstream import McpUpstream
from tests.upstream.conftest import Calls, Client, spec, text_of
from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.questions import Ask, InputRequired, Question

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
FORM = {"mode": "form", "message": "Sure?", "requestedSchema": SCHEMA}
ASKS = {"q": {"method": "elicitation/create", "params": FORM}}
ELICITS = frozenset({"elicitation"})
YES = {"action": "accept", "content": {"sure": True}}


class Answering(Client):
    """A client whose user answers."""

    def can(self, capability: str) -> bool:
        return True

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        self.heard += [question.params() for question in questions.values()]
        return {key: question.read(YES) for key, question in questions.items()}


class Repeating(Client):
    """A client that answers by calling again."""

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        raise InputRequired(questions)


async def test_the_client_answers_and_the_source_runs_once(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", asks=ASKS)
    client = Answering()
    outcome = await call.to(declares=ELICITS)("echo", {"text": "hi"}, client=client)
    assert json.loads(text_of(outcome)) == {"q": YES}
    assert server.calls == [("echo", {"text": "hi"})]
    # The question is in the name of the source.
    assert client.heard == [{"mode": "form", "message": "[up] Sure?", "requestedSchema": SCHEMA}]


async def test_a_client_that_answers_by_repeating_gets_the_question(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", asks=ASKS)
    asking = call.to(declares=ELICITS)
    outcome = await asking.outcome(spec("echo"), client=Repeating())
    assert isinstance(outcome, Ask)
    assert [question.method for question in outcome.questions.values()] == ["elicitation/create"]
    assert not server.calls


@pytest.mark.parametrize(
    "asks",
    [
        {"q": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}},
        {"q": {"method": "unheard/of"}},
        {"q": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://x"}}},
        {"q": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"type": "array"}}}},
        {"q": 7},
        {str(number): ASKS["q"] for number in range(11)},
    ],
)
async def test_questions_that_are_not_passed_on(server: McpUpstream, call: Calls, asks: dict[str, Any]) -> None:
    server.behave("echo", asks=asks)
    with pytest.raises(InputRequiredError):
        await call.to(declares=ELICITS)("echo", client=Answering())
    assert not server.calls


async def test_a_client_that_cannot_answer_is_told(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", asks=ASKS)
    with pytest.raises(InputRequiredError, match="elicitation"):
        await call.to(declares=ELICITS)("echo")


async def test_nothing_is_declared_unless_the_source_says_so(server: McpUpstream, call: Calls) -> None:
    for declares in (frozenset[str](), ELICITS):
        server.eras = {"legacy"}
        await call.to(declares=declares)("echo")
        [*_, opening] = [message for message in server.messages if message.get("method") == "initialize"]
        assert set(opening["params"]["capabilities"]) == declares


async def test_a_question_of_the_handshake_era_while_the_call_runs(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    server.behave("echo", request=("elicitation/create", FORM))
    outcome = await call.to(declares=ELICITS)("echo", client=Answering())
    assert json.loads(text_of(outcome))["result"] == YES


async def test_a_client_that_repeats_cannot_answer_while_the_call_runs(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    server.behave("echo", request=("elicitation/create", FORM))
    for client in (Repeating(), Client()):
        outcome = await call.to(declares=ELICITS)("echo", client=client)
        assert "cannot answer" in json.loads(text_of(outcome))["error"]["message"]


async def test_a_question_that_was_not_declared_is_refused(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    server.behave("echo", request=("elicitation/create", FORM))
    outcome = await call("echo", client=Answering())
    assert "not supported" in json.loads(text_of(outcome))["error"]["message"]
