"""What tools ask, and how an answer is read."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.questions import NO_CLIENT, Elicit, Reply, Root, Roots, Sample, Sampled, Unfit


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    name: Annotated[str, Field(min_length=2)]
    size: Size = Size.SMALL
    extras: list[Literal["milk", "sugar"]] = []


def test_a_form_is_sent_as_its_fields_and_read_as_its_model() -> None:
    question = Elicit("What may it be?", Order)
    sent = question.params()
    assert sent["message"] == "What may it be?"
    assert sent["requestedSchema"]["required"] == ["name"]
    assert sent["requestedSchema"]["properties"]["size"]["enum"] == ["small", "large"]
    assert "additionalProperties" not in sent["requestedSchema"]
    said = question.read({"action": "accept", "content": {"name": "Ann", "extras": ["milk"], "more": 1}})
    assert said == Reply("accept", Order(name="Ann", extras=["milk"]))
    assert said.accepted


def test_a_form_can_be_a_schema_and_is_read_as_a_dict() -> None:
    question = Elicit("Sure?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
    assert question.read({"action": "accept", "content": {"ok": True}}) == Reply("accept", {"ok": True})
    assert question.read({"action": "accept"}).data == {}


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_can_decline(action: str) -> None:
    said = Elicit("Sure?", Order).read({"action": action, "content": {"name": "Ann"}})
    assert (said.accepted, said.data) == (False, None)


@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        {},
        {"action": "accept", "content": {"name": "A"}},
        {"action": "accept", "content": {"name": 7}},
        {"action": "accept", "content": []},
        {"action": "accept", "content": [1]},
        {"action": "accept", "content": {"name": "Ann", "size": "huge"}},
        {"action": "maybe"},
    ],
)
def test_what_does_not_fit_the_form_is_no_answer(result: Any) -> None:
    with pytest.raises(Unfit):
        Elicit("What may it be?", Order).read(result)


@pytest.mark.parametrize(
    "form",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_a_form_that_no_client_can_show_is_refused_where_it_is_made(form: Any) -> None:
    with pytest.raises(ValueError, match="form|clients show"):
        Elicit("?", form)


def test_a_model_is_asked_and_its_text_read() -> None:
    assert Sample("Hi", max_tokens=5, system="Be kind").params() == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 5,
        "systemPrompt": "Be kind",
    }
    said = {"content": {"type": "text", "text": "Hello"}, "model": "m", "stopReason": "endTurn"}
    assert Sample("Hi").read(said) == Sampled("Hello", "m", "endTurn")
    several = {"content": [{"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert Sample("Hi").read(several).text == "a\nb"
    for wrong in (
        None,
        {},
        {"content": {"type": "image"}},
        {"content": "text"},
        {"content": {"type": "text", "text": 1}},
    ):
        with pytest.raises(Unfit):
            Sample("Hi").read(wrong)


def test_roots_are_read() -> None:
    assert Roots().params() == {}
    assert Roots().read({"roots": [{"uri": "file:///a", "name": "A"}]}) == [Root("file:///a", "A")]
    nothing: list[Any] = [None, {}, {"roots": [{}]}, {"roots": ["file:///a"]}]
    for wrong in nothing:
        with pytest.raises(Unfit):
            Roots().read(wrong)


async def no_answer() -> None:
    with pytest.raises(InputRequiredError, match="ask its user") as caught:
        await NO_CLIENT.ask({"a": Elicit("?", Order)})
    assert caught.value.context == {"capability": "elicitation"}


def test_a_question_without_a_client_that_can_answer() -> None:
    import asyncio

    NO_CLIENT.progress(1, None, "")
    NO_CLIENT.tell("info", "hello", {})
    assert not NO_CLIENT.can("elicitation")
    asyncio.run(no_answer())
