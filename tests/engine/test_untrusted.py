"""Answers that pass on what outsiders wrote: marked at every door, their free texts between marks nobody can forge."""

from __future__ import annotations

import json
import zlib

import pytest

from tests.support.outsiders import INJECTIONS, MARKS, inside
from tests.support.tools import Hub, Programmable
from tests.test_contract import shipped
from tools_app import engine, governance
from tools_app.base import secrets
from tools_app.engine import Options, Result, answers
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.content import Image
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import FunctionTool
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, ToolError
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack, TextForm
from tools_app.sdk.tool import Tool
from tools_app.text import hygiene

READS = Hints(read_only=True)
WITHIN = Hints(read_only=True, open_world=False)
REFUSED = {"operation": "read", "statusCode": 403, "errorDetails": "Ask.\nerrorId: 1"}


@pytest.fixture
def outside(hub: Hub) -> Programmable:
    """A tool that says that it passes on what outsiders wrote."""
    made = Programmable("outside", untrusted=True)
    hub.add(made.tool)
    return made


def call(name: str, caller: Caller, options: Options = Options(), **arguments: object) -> Result:  # noqa: B008 – frozen
    return engine.call_sync(name, arguments, caller, door="code", options=options)


def failed(name: str, caller: Caller, options: Options = Options(), **arguments: object) -> ToolError:  # noqa: B008
    with pytest.raises(ToolError) as caught:
        call(name, caller, options, **arguments)
    return caught.value


def of_pack(hints: Hints = READS, untrusted: bool | None = None, connects: bool = False, **declared: object) -> Tool:
    kind = (
        ConnectionKind("X", url_variable="X_URL", secret_variable="X_KEY", header="X", probe="/") if connects else None
    )
    pack = Pack("some", connection=kind, untrusted=untrusted)
    pack.tool(description="Of a pack.", hints=hints, **declared)(some)
    return pack.tools[0]


def some() -> str:
    return ""


@pytest.mark.parametrize(
    ("made", "passes_on", "marks"),
    [
        (of_pack(), True, False),
        (of_pack(WITHIN), False, False),
        (of_pack(connects=True), True, True),
        (of_pack(WITHIN, connects=True), False, False),
        (of_pack(untrusted=True), True, True),
        (of_pack(WITHIN, untrusted=True), True, True),
        (of_pack(untrusted=False, connects=True), False, False),
        (FunctionTool(some, name="own", description="Own.", hints=WITHIN, untrusted=True), True, True),
    ],
)
def test_what_is_declared_decides(made: Tool, passes_on: bool, marks: bool) -> None:
    assert (made.spec.passes_on, made.spec.marks_text) == (passes_on, marks)


def test_a_tool_decides_before_its_pack() -> None:
    pack = Pack("some", untrusted=True)
    pack.tool(name="own", description="Own words.", hints=READS, untrusted=False)(some)
    pack.tool(name="escaping", description="Escapes.", hints=READS, escapes=True)(some)
    own, escaping = pack.tools
    assert (own.spec.passes_on, own.spec.marks_text) == (False, False)
    assert (escaping.spec.passes_on, escaping.spec.marks_text) == (True, False)


def test_every_tool_for_n8n_redmine_and_the_web_passes_it_on() -> None:
    outer = [tool for pack in ("n8n", "redmine", "websearch") for tool in of(pack)]
    assert len(outer) >= 43
    assert all(tool.spec.passes_on for tool in outer)
    assert {tool.name for tool in outer if not tool.spec.marks_text} == {"web_search", "instant_answer"}, "these escape"
    assert not any(tool.spec.passes_on for tool in of("builtin"))


def of(pack: str) -> list[Tool]:
    return [tool for tool in shipped() if tool.pack is not None and tool.pack.name == pack]


def test_a_changed_declaration_is_a_changed_definition() -> None:
    plain, trusted = of_pack(), of_pack(untrusted=False)
    assert plain.spec.hash == of_pack(untrusted=True).spec.hash, "it goes without saying"
    assert plain.spec.hash != trusted.spec.hash
    assert plain.spec.hash != of_pack(escapes=True).spec.hash
    assert trusted.definition()["untrusted"] is False


@pytest.mark.parametrize("payload", INJECTIONS)
def test_nobody_can_forge_the_marks(outside: Programmable, alice: Caller, payload: str) -> None:
    known, seen = "0" * 16, set()
    for _ in range(3):
        # Whoever writes it has seen the marks of every earlier call.
        said = payload.replace("{mark}", known)
        outside.outcomes.append(said)
        answer = call("outside", alice).answer
        assert answer.untrusted
        assert inside(answer.text) == hygiene.cleaned(said)
        assert answer.value == answer.text, "whoever gets it as data gets the same"
        known = next(MARKS.finditer(answer.text))[1]
        seen.add(known)
    assert len(seen) == 3


@pytest.mark.parametrize("payload", INJECTIONS)
def test_data_needs_no_marks(outside: Programmable, alice: Caller, payload: str) -> None:
    outside.outcomes.append({"subject": payload, payload: [payload]})
    answer = call("outside", alice).answer
    cleaned = hygiene.cleaned(payload)
    assert answer.untrusted
    assert json.loads(answer.text) == answer.value == {"subject": cleaned, cleaned: [cleaned]}


def test_marks_are_new_where_an_answer_is_given_again(hub: Hub, alice: Caller) -> None:
    cached = Programmable("cached", untrusted=True, cache_seconds=60)
    hub.add(cached.tool)
    cached.outcomes.append("a page")
    once = [call("cached", alice).answer.text for _ in range(3)]
    cached.outcomes.append("another")
    replayed = [call("cached", alice, Options(idempotency_key="k"), value=1) for _ in range(3)]
    assert len(cached.calls) == 2
    assert len({next(MARKS.finditer(text))[1] for text in once}) == 3
    assert {inside(text) for text in once} == {"a page"}
    assert len({result.answer.text for result in replayed}) == 3
    assert {inside(result.answer.text) for result in replayed} == {"another"}
    assert all(result.answer.untrusted for result in replayed)
    hashes = set(Call.objects.filter(status="succeeded").values_list("result_hash", flat=True))
    assert len(hashes) == 2, "the journal tells equal answers by their hash"


def test_texts_beside_pictures_are_marked_one_by_one(outside: Programmable, alice: Caller) -> None:
    outside.outcomes.append(["first", Image(b"\x89PNG\r\n\x1a\n"), "second"])
    answer = call("outside", alice).answer
    assert answer.content is not None
    first, picture, second = answer.content
    assert (inside(first["text"]), inside(second["text"])) == ("first", "second")
    assert picture["type"] == "image"
    assert answer.value == answer.content


def test_a_form_of_text_says_whether_it_escapes(hub: Hub, alice: Caller) -> None:
    for name, escapes in (("loose", False), ("strict", True)):
        form = TextForm("markdown", lambda value: f"# {value['title']}", escapes=escapes)
        pack = Pack(name, text_form=form, untrusted=True)
        pack.tool(name=name, description="Titles.", hints=READS)(titled)
        hub.add(*pack.tools)
    loose = call("loose", alice).answer
    assert inside(loose.text) == "# hi"
    assert loose.value == {"title": "hi"}
    assert call("strict", alice).answer.text == "# hi"
    assert json.loads(call("loose", alice, format="json").answer.text) == {"title": "hi"}


def titled() -> dict[str, str]:
    return {"title": "hi"}


def test_the_marks_count_into_the_budget(outside: Programmable, alice: Caller) -> None:
    room = 3_000 - len(answers.between_marks("").encode())
    for size, fits in ((room, True), (room + 1, False)):
        outside.outcomes.append("x" * size)
        answer = call("outside", alice, Options(answer_tokens=1_000)).answer
        assert len(answer.text.encode()) <= 3_000
        assert bool(MARKS.search(answer.text)) is fits, "an outline is data"
        assert answer.untrusted


def test_what_is_read_of_a_large_answer_is_as_untrusted_as_it_was(
    hub: Hub, outside: Programmable, alice: Caller
) -> None:
    within = Programmable("within", hints=WITHIN)
    hub.add(within.tool)
    for made, untrusted in ((outside, True), (within, False)):
        made.outcomes.append({"items": [{"words": "w" * 100}] * 100})
        outline = call(made.tool.name, alice, Options(answer_tokens=1_000)).answer
        assert outline.untrusted is untrusted
        kept = outline.value["outline"]["id"]
        for _ in range(2):
            page = call("read_result", alice, id=kept, pointer="/items", limit=2).answer
            assert page.untrusted is untrusted
    echoed = call("echo", alice, message="hi").answer
    assert not echoed.untrusted


def test_a_dry_run_is_the_hubs_own_word(outside: Programmable, alice: Caller) -> None:
    assert not call("outside", alice, Options(dry_run=True)).answer.untrusted


def test_what_an_upstream_said_in_an_error_is_marked(outside: Programmable, alice: Caller) -> None:
    outside.outcomes.append(ApiError("Failed to read", context=REFUSED))
    error = failed("outside", alice)
    assert error.untrusted
    assert error.as_dict()["untrusted"] is True


def test_a_refusal_of_the_hub_is_its_own_word(outside: Programmable, alice: Caller, hub: Hub) -> None:
    within = Programmable("within", hints=WITHIN)
    hub.add(within.tool)
    within.outcomes.append(NotFoundError("No", context={"operation": "o", "resourceType": "r", "resourceId": "1"}))
    governance.set_enabled(["calculate"], enabled=False, actor=governance.trusted("test"))
    refusals = [failed("outside", alice, value="x"), failed("calculate", alice), failed("within", alice)]
    assert isinstance(refusals[0], InvalidArgumentsError)
    assert not any(error.untrusted or "untrusted" in error.as_dict() for error in refusals)


def test_an_error_that_is_told_again_is_marked_again(hub: Hub, alice: Caller) -> None:
    writing = Programmable("writing", hints=Hints(read_only=False, idempotent=False))
    hub.add(writing.tool)
    writing.outcomes.append(ApiError("Failed to read", context=REFUSED))
    first, second = (failed("writing", alice, Options(idempotency_key="k")) for _ in range(2))
    assert second.replayed
    assert (first.untrusted, second.untrusted) == (True, True)


def test_what_an_earlier_version_kept_counts_as_untrusted(outside: Programmable, alice: Caller) -> None:
    call("outside", alice, Options(idempotency_key="k"))
    row = IdempotencyKey.objects.get()
    assert row.reply is not None
    kept = json.loads(zlib.decompress(secrets.decrypted(bytes(row.reply)) or b""))
    del kept["answer"]["untrusted"], kept["answer"]["marks"]
    row.reply = secrets.encrypted(zlib.compress(json.dumps(kept).encode()))
    row.save()
    assert call("outside", alice, Options(idempotency_key="k")).answer.untrusted
    assert len(outside.calls) == 1
