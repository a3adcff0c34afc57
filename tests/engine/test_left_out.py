"""Characters that nobody would see are left out of answers, and callers are told how many."""

from __future__ import annotations

import pytest

from tests.api.rest import Rest
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.engine.answers import Answer
from tools_app.sdk.content import EmbeddedResource
from tools_app.sdk.context import Caller

pytestmark = pytest.mark.django_db(transaction=True)

HIDDEN = {"text": "a\u200bb\u2060\r\nc", "plain": "x"}


@pytest.fixture
def tool(hub: Hub) -> Programmable:
    made = Programmable()
    hub.add(made.tool)
    return made


def called(caller: Caller, **options: object) -> Answer:
    chosen = engine.Options(**options)  # type: ignore[arg-type]
    return engine.call_sync("programmable", {}, caller, door="code", options=chosen).answer


def test_rest_says_how_many(tool: Programmable) -> None:
    tool.outcomes += [HIDDEN, {"text": "a\r\nb"}]
    rest = Rest(governance.create_key("agent", scopes=["tools:execute"], actor=governance.trusted("t"))[1])
    try:
        told, plain = rest.call("programmable").json(), rest.call("programmable").json()
    finally:
        rest.close()
    assert told["result"] == {"text": "ab\nc", "plain": "x"}
    assert told["invisibleCharactersLeftOut"] == 2
    assert plain["result"] == {"text": "a\nb"}
    assert "invisibleCharactersLeftOut" not in plain


def test_a_replay_and_an_outline_say_the_same(tool: Programmable, alice: Caller) -> None:
    tool.outcomes += [HIDDEN, {"items": ["long \u200b" * 100] * 100}]
    assert [called(alice, idempotency_key="one").left_out for _ in range(2)] == [2, 2]
    outline = called(alice, answer_tokens=1_000)
    assert "outline" in outline.value
    assert outline.left_out == 10_000


def test_content_is_counted_too(tool: Programmable, alice: Caller) -> None:
    tool.outcomes.append(["a\u200b", EmbeddedResource("file:///x", "b\u2060\u2060")])
    answer = called(alice)
    assert answer.left_out == 3
    assert answer.size_to_send == answer.size + len(answer.note)
