"""Answers that are larger than a call's budget: outlined, kept for their caller, and read in pages."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.answers import tokens_of
from tools_app.catalog import catalog
from tools_app.engine import Options, Result
from tools_app.models import Call, ErrorLog, StoredAnswer, Toolset
from tools_app.sdk.content import EmbeddedResource, Image
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import InvalidArgumentsError, ToolNotFoundError, ValidationError
from tools_app.sdk.hub_errors import AnswerNotFoundError
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.reach import Reach
from tools_app.shelf import storage

LARGE = {"total": 4_000, "items": [{"id": number, "name": f"canary {number}"} for number in range(4_000)]}


@pytest.fixture
def bob(alice: Caller) -> Caller:
    return replace(alice, id="key:9", name="bob")


def call(name: str, caller: Caller, options: Options = Options(), **arguments: Any) -> Result:  # noqa: B008 – frozen
    return engine.call_sync(name, arguments, caller, door="code", options=options)


def large(programmable: Programmable, caller: Caller, answer: Any = LARGE, **options: Any) -> dict[str, Any]:
    programmable.outcomes.append(answer)
    value: dict[str, Any] = call("programmable", caller, Options(answer_tokens=1_000, **options)).answer.value
    return value


def handle(answer: dict[str, Any]) -> str:
    found: str = answer["outline"]["id"]
    assert re.fullmatch("[0-9a-f]{32}", found)
    return found


def pages(caller: Caller, kept: str, pointer: str = "", **asked: Any) -> Iterator[dict[str, Any]]:
    offset: int | None = 0
    while offset is not None:
        asked["offset"] = offset
        answer = call("read_result", caller, Options(answer_tokens=1_000), id=kept, pointer=pointer, **asked).answer
        assert tokens_of(answer.size) <= 1_000
        yield answer.value
        offset = answer.value.get("nextOffset")


def test_what_fits_is_sent_as_it_is(programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes.append({"text": "x" * (3_000 - 11)})
    answer = call("programmable", alice, Options(answer_tokens=1_000)).answer

    assert answer.size == 3_000
    assert answer.value["text"].startswith("x")
    assert not StoredAnswer.objects.exists()


def test_what_does_not_fit_is_outlined_and_read_to_its_end(programmable: Programmable, alice: Caller) -> None:
    made = large(programmable, alice)
    kept = handle(made)
    example = made["_guidance"]["example"]
    assert example == {"name": "read_result", "arguments": {"id": kept, "pointer": "/items"}}

    items = [item for page in pages(alice, kept, "/items") for item in page["items"]]

    assert items == LARGE["items"]


def test_by_default_an_answer_has_25_000_tokens(programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes += ["x" * 75_000, "x" * 75_001]

    assert call("programmable", alice).answer.text == "x" * 75_000
    assert "outline" in call("programmable", alice).answer.value


@pytest.mark.parametrize("piece", ["ab c", "日本語", "🎉👨\u200d👩", '"\\\n\t', "7", "<a>x</a>\n"])
@pytest.mark.parametrize("size", [0, 74_990, 75_010, 400_000, 8_000_000])
def test_whatever_an_upstream_sends_fits_or_says_that_it_was_cut(
    programmable: Programmable, alice: Caller, piece: str, size: int
) -> None:
    """T71: estimated as bytes / 3, an answer has at most 25,000 tokens, of every kind and size that is not refused."""
    bytes_of_piece = len(json.dumps(piece, ensure_ascii=False).encode()) - 2
    text = piece * (size // bytes_of_piece)
    lines = [text[at : at + 60] for at in range(0, min(len(text), 200_000), 60)]
    for answer in (text, lines, {f"key {at}": line for at, line in enumerate(lines)}, [[[text]]], {text[:9_000]: text}):
        programmable.outcomes.append(answer)
        told = call("programmable", alice).answer
        assert len(told.text.encode()) == told.size <= 75_000
        if told.value != answer:
            assert told.value["outline"]["estimatedTokens"] > 25_000
            assert "the limit is 25,000" in told.value["_guidance"]["message"]


@pytest.mark.parametrize("answer", ["line\n" * 2_000, "<a>" + "<b>x</b>" * 2_000 + "</a>", list(range(2_000))])
def test_texts_xml_and_lists_are_outlined_too(programmable: Programmable, alice: Caller, answer: Any) -> None:
    made = large(programmable, alice, answer)

    assert made["outline"]["kind"] in ("text", "xml", "json")
    assert next(pages(alice, handle(made)))


def test_the_wrapper_of_the_documents_stays_around_an_outline(hub: Hub, alice: Caller) -> None:
    wrapped = Programmable("wrapped", done="Issues retrieved")
    hub.add(wrapped.tool)
    wrapped.outcomes.append(LARGE)
    answer = call("wrapped", alice, Options(answer_tokens=1_000)).answer

    assert (answer.value["success"], answer.value["message"]) == (True, "Issues retrieved")
    assert answer.structured == answer.value["data"]
    assert tokens_of(answer.size) <= 1_000
    assert next(pages(alice, handle(answer.value["data"]), "/total")) == {"type": "integer", "value": 4_000}


def test_pictures_stay_and_the_text_beside_them_is_outlined(programmable: Programmable, alice: Caller) -> None:
    picture, text = Image(b"\x89PNG" * 5_000), "word " * 2_000
    programmable.outcomes += [[picture, "small"], [picture, text, EmbeddedResource("file:a", "more " * 2_000)]]
    small, both = (call("programmable", alice, Options(answer_tokens=1_000)).answer for _ in range(2))

    assert small.content is not None
    assert [piece["type"] for piece in small.content] == ["image", "text"]
    assert both.content is not None
    assert [piece["type"] for piece in both.content] == ["text", "image"]
    assert tokens_of(len(both.text.encode())) <= 1_000
    assert StoredAnswer.objects.count() == 1


# ---- whose they are


def refusal(caller: Caller, kept: str) -> dict[str, Any]:
    with pytest.raises(AnswerNotFoundError) as error:
        call("read_result", caller, id=kept)
    told = error.value.as_dict()
    return {key: str(value).replace(kept, "…") for key, value in told.items() if key != "errorId"}


def test_another_caller_is_told_the_same_as_of_an_answer_that_never_was(
    programmable: Programmable, alice: Caller, bob: Caller
) -> None:
    kept = handle(large(programmable, alice))
    flipped = f"{int(kept, 16) ^ 1:032x}"

    assert refusal(bob, kept) == refusal(bob, "0" * 32) == refusal(alice, flipped)
    assert refusal(bob, kept)["code"] == "ANSWER_NOT_FOUND"
    assert next(pages(alice, kept))


def test_no_id_but_its_own_leads_to_an_answer(programmable: Programmable, alice: Caller, bob: Caller) -> None:
    kept = handle(large(programmable, alice))
    for caller, wrong in [(alice, f"{int(kept, 16) ^ 1 << bit:032x}") for bit in range(128)] + [(bob, kept)]:
        with pytest.raises(AnswerNotFoundError, match=f"^Answer not found: {wrong}$"):
            storage.find(wrong, caller, with_content=True)

    assert storage.find(kept, alice, with_content=False).size


def test_only_its_caller_is_told_that_an_answer_has_expired(
    programmable: Programmable, alice: Caller, bob: Caller
) -> None:
    kept = handle(large(programmable, alice))
    StoredAnswer.objects.update(expires_at=timezone.now())

    assert refusal(alice, kept)["error"] == "Answer expired: …"
    assert refusal(bob, kept) == refusal(bob, "0" * 32)


def test_a_key_that_is_bound_to_a_toolset_can_read_on(programmable: Programmable, alice: Caller, hub: Hub) -> None:
    Toolset.objects.create(name="one", names=["programmable"])
    Toolset.objects.create(name="none", names=["gone"])
    bound = Caller("key", "key:7", "bound", alice.scopes, Reach(frozenset({"one"}), writes=False, destroys=False))

    assert next(pages(bound, handle(large(programmable, bound)), "/total"))["value"] == 4_000
    assert [entry.name for entry in catalog.current().seen_by(bound).all] == ["programmable", "read_result"]
    empty = Caller("key", "key:8", "empty", alice.scopes, Reach(frozenset({"none"})))
    with pytest.raises(ToolNotFoundError):
        call("read_result", empty, id="0" * 32)


def test_whoever_may_not_call_the_tool_any_more_has_nothing_left_of_it(
    programmable: Programmable, alice: Caller
) -> None:
    kept = handle(large(programmable, alice))
    Toolset.objects.create(name="other", names=["echo"])
    assert refusal(replace(alice, reach=Reach(frozenset({"other"}))), kept) == refusal(alice, "0" * 32)
    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))
    assert refusal(alice, kept) == refusal(alice, "0" * 32)
    governance.set_enabled(["programmable"], True, actor=governance.trusted("test"))
    assert next(pages(alice, kept))


# ---- when they are not kept


def unkept(answer: dict[str, Any]) -> str:
    assert "id" not in answer["outline"]
    assert "example" not in answer["_guidance"]
    message: str = answer["_guidance"]["message"]
    assert not StoredAnswer.objects.exists()
    return message


def test_where_nothing_can_be_written_there_is_an_outline_still(programmable: Programmable, alice: Caller) -> None:
    with connection.schema_editor() as editor:
        editor.alter_db_table(StoredAnswer, StoredAnswer._meta.db_table, "elsewhere")
    try:
        made = large(programmable, alice)
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(StoredAnswer, "elsewhere", StoredAnswer._meta.db_table)

    assert "could not be stored: the hub's database cannot be used right now" in unkept(made)
    assert made["outline"]["shape"]["/items"].startswith("array of 4,000")


def test_operators_can_have_nothing_kept(programmable: Programmable, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_ANSWERS_BYTES = 0

    assert "this hub keeps no answers" in unkept(large(programmable, alice))


def test_nothing_is_kept_that_could_not_be_read(programmable: Programmable, alice: Caller) -> None:
    governance.set_enabled(["read_result"], False, actor=governance.trusted("test"))

    assert "read_result cannot be called here" in unkept(large(programmable, alice))


def test_nothing_is_kept_that_has_no_room(programmable: Programmable, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_ANSWERS_CALLER_BYTES = 1_000

    assert "larger than all that this hub keeps for one caller" in unkept(large(programmable, alice))


# ---- how many


def different(number: int) -> dict[str, Any]:
    return {"items": [f"{number} {other}" for other in range(2_000)]}


def test_the_oldest_go_first_of_each_caller_and_of_all(
    programmable: Programmable, alice: Caller, bob: Caller, settings: Any
) -> None:
    first = handle(large(programmable, alice, different(0)))
    size = StoredAnswer.objects.get().size
    settings.TOOLHUB_ANSWERS_CALLER_BYTES = 2 * size + size // 2
    others = handle(large(programmable, bob, different(0)))
    second, third = (handle(large(programmable, alice, different(number))) for number in (1, 2))
    assert set(StoredAnswer.objects.values_list("pk", flat=True)) == {others, second, third}
    assert refusal(alice, first)["error"] == "Answer not found: …"

    settings.TOOLHUB_ANSWERS_BYTES = 3 * size + size // 2
    fourth = handle(large(programmable, bob, different(3)))
    assert set(StoredAnswer.objects.values_list("pk", flat=True)) == {second, third, fourth}


def test_the_same_answer_is_kept_once_for_each_caller(programmable: Programmable, alice: Caller, bob: Caller) -> None:
    first = large(programmable, alice)
    StoredAnswer.objects.update(expires_at=timezone.now() + timedelta(minutes=1))
    again = large(programmable, alice)

    assert handle(again) == handle(first)
    assert StoredAnswer.objects.get().expires_at > timezone.now() + timedelta(minutes=50)
    assert handle(large(programmable, bob)) != handle(first)


# ---- given again


def test_a_replay_gives_the_same_outline_which_can_be_read_as_long_as_it_is_given(
    programmable: Programmable, alice: Caller
) -> None:
    first = large(programmable, alice, idempotency_key="k")
    second = large(programmable, alice, idempotency_key="k")

    assert second == first
    assert len(programmable.calls) == 1
    assert StoredAnswer.objects.get().expires_at > timezone.now() + timedelta(hours=23)
    assert next(pages(alice, handle(second)))


def test_of_a_cached_answer_each_caller_gets_an_outline_of_its_own(hub: Hub, alice: Caller, bob: Caller) -> None:
    cached = Programmable("cached", cache_seconds=60)
    hub.add(cached.tool)
    cached.outcomes.append(LARGE)
    few = Options(answer_tokens=1_000)
    mine, again, theirs = (call("cached", who, few).answer.value for who in (alice, alice, bob))

    assert len(cached.calls) == 1
    assert handle(mine) == handle(again) != handle(theirs)
    assert refusal(bob, handle(mine)) == refusal(bob, "0" * 32)
    assert next(pages(bob, handle(theirs)))
    # Whoever has room for it gets the whole.
    assert call("cached", bob, Options(answer_tokens=1_000_000)).answer.value["outline"]["id"] == handle(theirs)


# ---- who decides


def test_tool_operator_and_caller_can_only_lower_what_the_settings_say(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_ANSWER_TOKENS = 5_000
    modest, greedy = Programmable("modest", answer_tokens=2_000), Programmable("greedy", answer_tokens=9_000)
    hub.add(modest.tool, greedy.tool)

    def most(name: str) -> tuple[int, str]:
        policy = hub.entry(name).policy
        return policy.answer_tokens, policy.origins["answer_tokens"]

    assert most("modest") == (2_000, "tool")
    assert most("greedy") == (5_000, "settings")
    governance.set_policy("modest", {"answer_tokens": 3_000}, actor=governance.trusted("test"))
    assert most("modest") == (3_000, "operator")
    modest.outcomes += ["x" * 9_001, "x" * 9_000, "x" * 9_000]
    assert "outline" in call("modest", alice, Options(answer_tokens=20_000)).answer.value
    assert call("modest", alice).answer.text == "x" * 9_000
    assert "outline" in call("modest", alice, Options(answer_tokens=2_999)).answer.value


@pytest.mark.parametrize("tokens", [999, 1_000_001, True, "1000"])
def test_a_budget_out_of_bounds_is_refused(programmable: Programmable, alice: Caller, tokens: Any) -> None:
    with pytest.raises(ValidationError, match="options.answerTokens must be between 1000 and 1000000"):
        call("programmable", alice, Options(answer_tokens=tokens))


def test_a_tool_cannot_declare_a_budget_without_room() -> None:
    with pytest.raises(DefinitionError, match="answer_tokens must be 1,000 or more"):
        tool(name="tight", description="Has no room.", answer_tokens=10)(lambda: "x")


# ---- reading


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"pointer": "/nothing"}, "/pointer"),
        ({"pointer": "no pointer"}, "/pointer"),
        ({"offset": 3}, "/offset"),
        ({"where": [{"field": "a", "op": "like", "value": 1}]}, "/where/0/op"),
        ({"where": [{"op": "eq", "value": 1}] * 9}, "/where"),
        ({"pointer": "/total", "fields": ["a"]}, "/fields"),
        ({"id": "../../etc"}, "/id"),
    ],
)
def test_a_page_that_cannot_be_had_says_which_argument_is_wrong(
    programmable: Programmable, alice: Caller, asked: dict[str, Any], path: str
) -> None:
    kept = handle(large(programmable, alice))
    with pytest.raises(InvalidArgumentsError) as error:
        call("read_result", alice, **{"id": kept, **asked})

    assert [problem.path for problem in error.value.details] == [path]


def test_several_read_at_once_each_their_own(programmable: Programmable, alice: Caller, bob: Caller) -> None:
    kept = {who: handle(large(programmable, who, different(n))) for n, who in enumerate((alice, bob))}

    async def read() -> list[Result]:
        reads = [
            engine.call("read_result", {"id": kept[who], "pointer": "/items/7"}, who, door="code")
            for who in [alice, bob] * 10
        ]
        return await asyncio.gather(*reads)

    assert [result.answer.value["text"] for result in asyncio.run(read())] == ["0 7", "1 7"] * 10


def test_nothing_of_it_can_be_read_where_it_is_kept_or_in_logs(
    programmable: Programmable, alice: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        large(programmable, alice)

    row = StoredAnswer.objects.get()
    assert b"canary" not in bytes(row.content)
    others = [str(list(model.objects.values())) for model in (Call, ErrorLog)]
    assert "canary" not in "".join([str({**vars(row), "content": ""}), *others, caplog.text])
    if connection.vendor == "sqlite":
        database = Path(connection.settings_dict["NAME"])
        files = [database, *database.parent.glob(f"{database.name}-wal")]
        assert not any(b"canary" in file.read_bytes() for file in files)
