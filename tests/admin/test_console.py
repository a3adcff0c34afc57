"""Trying a tool in the admin: what runs, what asks first, and what never runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
from typing import Any

import pytest
from django.test import Client
from django.test.utils import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.admin.conftest import browser, call
from tests.admin.pages import Page, page, sent
from tests.support.packs.desk import pack as desk
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.admin.console import copies
from tools_app.catalog import catalog
from tools_app.models import Approval, AuditEntry, Call, ToolRecord
from tools_app.sdk.content import Image, ResourceLink
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.text import redaction

ADDING = Hints(read_only=False, destructive=False)
DELETING = Hints(read_only=False, destructive=True)


@pytest.fixture
def operator(hub: Hub) -> Client:
    return browser("olga", "view_toolrecord", "change_toolrecord", "view_call", "view_payload", "view_errorlog")


def at(name: str) -> str:
    return f"/admin/tools_app/toolrecord/{ToolRecord.objects.get(name=name).pk}/try/"


def fields(action: str = "run", **values: Any) -> dict[str, Any]:
    return {"mode": "fields", "action": action, **{f"argument-{name}": value for name, value in values.items()}}


def whole(action: str = "run", **values: Any) -> dict[str, Any]:
    return {"mode": "json", "action": action, "json": json.dumps(values)}


def confirmation(shown: Page) -> dict[str, Any]:
    """What the button of the question would send."""
    (token,) = [one["value"] for one in shown.all("input", name="token")]
    (text,) = [one.text for one in shown.all("textarea", name="json") if "hidden" in one.attributes]
    return {"mode": "json", "shown": "fields", "action": "confirmed", "token": token, "json": text}


def test_runs_a_tool_as_the_user_and_shows_what_it_said(operator: Client) -> None:
    shown = sent(operator, at("echo"), **fields(message="hello there"))

    made = Call.objects.get()
    assert (made.door, made.caller_name, made.status) == ("admin", "olga", "succeeded")
    assert "Succeeded" in shown.text
    assert "hello there" in shown.one("section", id="view-text").text
    assert f"/admin/tools_app/call/{made.pk}/change/" in shown.addresses
    assert "about" in shown.text
    assert "tokens" in shown.text


def test_opening_the_page_runs_nothing_whatever_its_address_holds(operator: Client, programmable: Programmable) -> None:
    for query in ({}, {"arguments": '{"value": 3}', "action": "run", "mode": "json"}, {"action": "confirmed"}):
        shown = page(operator, at("programmable"), **query)
        assert shown.status == 200
    assert operator.head(at("programmable")).status_code == 200
    assert operator.put(at("programmable")).status_code == 405
    assert programmable.calls == []
    assert not Call.objects.exists()


def test_fills_the_form_in_from_the_address(operator: Client, programmable: Programmable) -> None:
    shown = page(operator, at("programmable"), arguments='{"value": 3, "text": "a\\nb"}')

    assert shown.one("input", name="argument-value")["value"] == "3"
    assert shown.one("textarea", name="argument-text").text.strip() == "a\nb"
    for wrong in ("[1]", "{", '{"value": NaN}', '{"text": "' + "a" * 9_000 + '"}'):
        assert "does not contain a JSON object" in page(operator, at("programmable"), arguments=wrong).text


def test_puts_every_problem_beside_its_field(operator: Client, hub: Hub) -> None:
    @tool(hints=Hints(read_only=True))
    def measure(count: int, mode: str, note: str = "") -> int:
        """Measure."""
        return count

    hub.add(measure)
    shown = sent(operator, at("measure"), **fields(count="many", mode=""))
    assert "Expected a number" in shown.text
    assert "A value is required" in shown.text
    assert shown.one("input", name="argument-count")["aria-invalid"] == "true"
    assert not Call.objects.exists()

    shown = sent(operator, at("measure"), **fields(count="1.5", mode="x"))
    wrong = shown.all("p", class_="hub-console-wrong")
    told = [" ".join(one.text.split()) for one in wrong]
    assert told == ["Invalid value for parameter count: expected a whole number"]
    assert "VALIDATION_ERROR" in shown.text


def test_a_failure_says_code_message_and_what_to_do(operator: Client, programmable: Programmable) -> None:
    programmable.outcomes = [NotFoundError("Workflow 'x' not found", next_step="List them.")]
    shown = sent(operator, at("programmable"), **fields())

    made = Call.objects.get()
    assert {"NOT_FOUND", "Workflow", "List them."} <= set(re.findall(r"List them\.|\w+", shown.text))
    assert f"/admin/tools_app/errorlog/{made.error_id}/change/" in shown.addresses


def test_a_dry_run_does_nothing(operator: Client, programmable: Programmable) -> None:
    shown = sent(operator, at("programmable"), **fields("dry", value="3"))

    assert "Dry run: nothing was executed" in shown.text
    assert programmable.calls == []
    assert not Call.objects.exists()


def test_a_tool_that_writes_asks_first_and_runs_once(operator: Client, hub: Hub) -> None:
    adding = Programmable("adding", hints=ADDING)
    hub.add(adding.tool)

    shown = sent(operator, at("adding"), **fields(value="3", text="x"))
    assert "adding writes data. Run it?" in shown.text
    assert adding.calls == []

    answer = confirmation(shown)
    first, second = (sent(operator, at("adding"), **answer) for _ in range(2))
    assert adding.calls == [{"value": 3, "text": "x"}]
    assert "Succeeded" in first.text
    assert "Succeeded" in second.text
    assert "an earlier call with the same Idempotency-Key" in second.text


def test_a_confirmation_is_for_one_call_of_one_person(operator: Client, hub: Hub) -> None:
    adding, other = Programmable("adding", hints=ADDING), Programmable("other", hints=ADDING)
    hub.add(adding.tool, other.tool)
    answer = confirmation(sent(operator, at("adding"), **fields(value="3")))
    stranger = browser("otto", "view_toolrecord", "change_toolrecord")

    for who, where, change in (
        (operator, "adding", {"json": '{"value": 4}'}),
        (operator, "adding", {"token": ""}),
        (operator, "adding", {"token": f"x{answer['token']}"}),
        (operator, "other", {}),
        (stranger, "adding", {}),
    ):
        shown = sent(who, at(where), **{**answer, **change})
        assert "Nothing was run" in shown.text
        assert "writes data. Run it?" in shown.text
    assert adding.calls == other.calls == []


def test_a_tool_that_deletes_asks_more_loudly(operator: Client, hub: Hub) -> None:
    deleting = Programmable("deleting", hints=DELETING)
    hub.add(deleting.tool)
    shown = sent(operator, at("deleting"), **fields())
    assert "deleting may delete or overwrite data. Run it?" in shown.text

    again = sent(operator, at("deleting"), **confirmation(shown))
    assert "Tick the box" in again.text
    assert deleting.calls == []

    assert "Succeeded" in sent(operator, at("deleting"), **confirmation(again), certain="1").text
    assert len(deleting.calls) == 1


def test_a_tool_that_is_off_is_not_asked_about(operator: Client, hub: Hub) -> None:
    adding = Programmable("adding", hints=ADDING)
    hub.add(adding.tool)
    governance.set_enabled(["adding"], False, actor=governance.trusted("test"))

    assert page(operator, at("adding")).all("button", value="run") == []
    shown = sent(operator, at("adding"), **fields())
    assert "TOOL_DISABLED" in shown.text
    assert adding.calls == []


def test_a_viewer_may_not_run_anything(hub: Hub, programmable: Programmable) -> None:
    viewer = browser("vera", "view_toolrecord", "view_call", "view_payload")
    assert viewer.get(at("programmable")).status_code == 403
    assert viewer.post(at("programmable"), fields()).status_code == 403
    made = ToolRecord.objects.get(name="programmable")
    assert "try/" not in page(viewer, f"/admin/tools_app/toolrecord/{made.pk}/change/").html
    assert programmable.calls == []


def test_switches_between_fields_and_json_without_losing_what_was_typed(operator: Client, hub: Hub) -> None:
    @tool(hints=Hints(read_only=True))
    def mix(
        count: int, names: list[str] | None = None, flag: bool | None = None, more: dict[str, int] | None = None
    ) -> int:
        """Mix."""
        return count

    hub.add(mix)
    shown = sent(operator, at("mix"), **fields("json", count="7x", names="a\r\nb", flag="true", more='{"a": 1}'))
    text = shown.one("textarea", name="json").text
    assert json.loads(text) == {"count": "7x", "names": ["a", "b"], "flag": True, "more": {"a": 1}}

    values = {"count": 7, "names": ["a", "b"], "flag": False, "more": {"a": 1}}
    shown = sent(operator, at("mix"), **whole("fields", **values))
    assert shown.one("input", name="argument-count")["value"] == "7"
    chosen = [one["value"] for one in shown.all("option") if "selected" in one.attributes]
    assert chosen == ["false"]

    shown = sent(operator, at("mix"), **whole("fields", count=7, names=["a\nb"]))
    assert "cannot be shown as fields" in shown.text
    assert json.loads(shown.one("textarea", name="json").text) == {"count": 7, "names": ["a\nb"]}
    assert not Call.objects.exists()


def test_examples_are_presets(operator: Client, hub: Hub) -> None:
    made = Programmable("shown", examples=[Example("Three", {"value": 3}, {"value": 3})])
    hub.add(made.tool)
    shown = page(operator, at("shown"))
    assert "?example=0" in shown.addresses
    assert page(operator, at("shown"), example="0").one("input", name="argument-value")["value"] == "3"
    for wrong in ("1", "-1", "x", "9" * 50):
        assert page(operator, at("shown"), example=wrong).status == 200
    assert made.calls == []


def test_pictures_are_shown_only_as_pictures(operator: Client, programmable: Programmable) -> None:
    programmable.outcomes = [
        [Image(b"png"), Image(b"<svg onload='x()'/>", "image/svg+xml"), ResourceLink("javascript:alert(1)", "bad")]
    ]
    shown = sent(operator, at("programmable"), **fields())

    pictures = [one["src"] for one in shown.all("img") if any(p.tag == "figure" for p in one.parents)]
    assert pictures == ["data:image/png;base64,cG5n"]
    assert not [one for one in shown.addresses if one.lower().startswith("javascript")]


# ---- calls that were made


def test_a_past_call_is_filled_in_and_not_run(operator: Client, programmable: Programmable) -> None:
    sent(operator, at("programmable"), **fields(value="3", text="hello"))
    made = Call.objects.get()

    shown = page(operator, at("programmable"), call=made.pk)
    assert shown.one("input", name="argument-value")["value"] == "3"
    assert "Nothing runs until you press Run" in shown.text
    assert len(programmable.calls) == 1


def test_what_was_not_kept_of_a_past_call_is_empty_and_required(operator: Client, programmable: Programmable) -> None:
    for text in ('{"value": 3, "text": "Bearer ***"}', '{"value": 3, "text": "aaa…"}'):
        made = call("programmable", arguments=text, argument_bytes=40)
        address = f"{at('programmable')}?call={made.pk}"
        shown = page(operator, address)
        assert shown.one("input", name="argument-value")["value"] == "3"
        assert shown.one("textarea", name="argument-text").text.strip() == ""
        assert "required" in shown.one("textarea", name="argument-text").attributes
        assert "were not stored" in shown.text
        assert "A value is required" in sent(operator, address, **fields(value="3", text="")).text
        assert "enter again: text" in sent(operator, address, **whole(value=3)).text
    assert programmable.calls == []


@pytest.mark.parametrize(
    ("arguments", "size", "words"),
    [
        ("", 0, "were not stored"),
        ('{"text": "aaaa', 4_000, "Only the beginning"),
        ('{"text": "ab"}', 99, "in a changed form"),
    ],
)
def test_says_why_a_past_call_cannot_be_made_again_as_it_was(
    operator: Client, programmable: Programmable, arguments: str, size: int, words: str
) -> None:
    made = call("programmable", arguments=arguments, argument_bytes=size)
    assert words in page(operator, at("programmable"), call=made.pk).text


def test_a_past_call_is_shown_to_nobody_who_may_not_read_payloads(hub: Hub, programmable: Programmable) -> None:
    made = call("programmable", arguments='{"text": "between us"}', argument_bytes=22)
    other = call("echo", arguments='{"message": "between us"}', argument_bytes=25)
    some = browser("sam", "view_toolrecord", "change_toolrecord", "view_call")
    for pk in (made.pk, other.pk, "0" * 32, "x", ""):
        shown = page(some, at("programmable"), call=pk)
        assert "between us" not in shown.html
        assert "No such call" in shown.text
    all_seeing = browser("anna", "view_toolrecord", "change_toolrecord", "view_call", "view_payload")
    assert "between us" not in page(all_seeing, at("programmable"), call=other.pk).html


def test_masks_are_recognised(operator: Client, hub: Hub) -> None:
    """What the journal itself writes of a secret never comes back as an argument."""
    given = {"message": "x", "password": "s3cret-s3cret", "headers": [{"name": "Authorization", "value": "Bearer abc"}]}
    made = call("echo", arguments=redaction.summary(given), argument_bytes=len(json.dumps(given)))
    shown = page(operator, at("echo"), call=made.pk)
    assert "***" not in shown.html
    assert "s3cret" not in shown.html


def test_the_page_of_a_call_leads_here_and_that_it_was_read_is_on_record(
    operator: Client, programmable: Programmable
) -> None:
    sent(operator, at("programmable"), **fields(text="hello"))
    made = Call.objects.get()
    address = f"{at('programmable')}?call={made.pk}"
    assert "hello" in page(operator, address).html
    assert AuditEntry.objects.get(subject=f"call:{made.pk}").actor == "user:olga"
    assert address in page(operator, f"/admin/tools_app/call/{made.pk}/change/").addresses

    some = browser("sam", "view_toolrecord", "view_call", "view_payload")
    assert address not in page(some, f"/admin/tools_app/call/{made.pk}/change/").addresses


@pytest.mark.parametrize("two_person_rule", [False, True])
def test_what_requires_approval_says_so_before_and_leads_to_the_decision(hub: Hub, two_person_rule: bool) -> None:
    adding = Programmable("adding", hints=ADDING)
    hub.add(adding.tool)
    decider = browser("dora", "view_toolrecord", "change_toolrecord", "view_approval", "change_approval")
    assert "Requires approval" not in page(decider, at("adding")).text
    governance.set_ask("adding", True, actor=governance.trusted("test"))
    assert "Requires approval: Run requests it" in page(decider, at("adding")).text
    with override_settings(TOOLHUB_TWO_PERSON_RULE=two_person_rule):
        shown = sent(decider, at("adding"), **confirmation(sent(decider, at("adding"), **fields(value="3"))))
    address = f"/admin/tools_app/approval/{Approval.objects.get().pk}/change/"
    buttons = [one["href"] for one in shown.all("a", class_="hub-button")]
    assert (address in buttons) is not two_person_rule
    assert ("this hub has the two-person rule" in shown.text) is two_person_rule


def test_who_may_not_decide_is_not_led_there(operator: Client, hub: Hub) -> None:
    hub.add(Programmable("adding", hints=ADDING).tool)
    governance.set_ask("adding", True, actor=governance.trusted("test"))
    shown = sent(operator, at("adding"), **confirmation(sent(operator, at("adding"), **fields(value="3"))))
    assert "APPROVAL_REQUIRED" in shown.text
    assert "Review and approve" not in shown.text


def test_a_call_that_waits_for_approval_is_sent_again_and_runs_once(operator: Client, hub: Hub) -> None:
    adding = Programmable("adding", hints=ADDING)
    hub.add(adding.tool)
    governance.set_ask("adding", True, actor=governance.trusted("test"))
    shown = sent(operator, at("adding"), **confirmation(sent(operator, at("adding"), **fields(value="3"))))
    assert "APPROVAL_REQUIRED" in shown.text
    asked = Approval.objects.get()
    assert asked.pk in shown.text
    assert adding.calls == []

    governance.approve_call(asked.pk, actor=governance.trusted("user:chief"))
    again = confirmation(shown)
    assert "Succeeded" in sent(operator, at("adding"), **again).text
    assert "an earlier call" in sent(operator, at("adding"), **again).text
    assert adding.calls == [{"value": 3, "text": ""}]


def test_several_connections_are_a_choice(hub: Hub) -> None:
    hub.add(*desk.tools)
    for name in ("north", "south"):
        governance.create_connection(
            name,
            pack="desk",
            url=f"https://{name}.example.org",
            secret="s3cret-s3cret",
            actor=governance.trusted("test"),
        )
    admin = browser("anna", is_superuser=True)
    entry = next(one for one in catalog.current().all if one.pack == "desk")
    options = [
        one["value"]
        for one in page(admin, at(entry.name)).all("option")
        if one.parents[-1]["name"] == "argument-connection"
    ]
    assert options == ["", '"north"', '"south"']


# ---- copies

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TRICKS = st.sampled_from(["'; rm -rf ~ #", "$(id)", "`id`", '"$HOME"', "!!", "\\", "\n\r", "-x", "@/etc/passwd", "{0}"])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT | TRICKS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(TEXT, VALUES, max_size=5)
ADDRESS = "http://hub.example.org:3000/v1/tools/call"


@given(ARGUMENTS)
@settings(max_examples=300, deadline=None)
def test_a_copied_call_is_the_call_whatever_its_arguments_hold(arguments: dict[str, Any]) -> None:
    body = {"name": "echo", "parameters": arguments}

    words = shlex.split(copies.curl("echo", arguments, ADDRESS))
    assert words[:3] == ["curl", "-sS", ADDRESS]
    assert words[3:7] == ["-H", "Authorization: Bearer $TOOLHUB_KEY", "-H", "Content-Type: application/json"]
    assert words[7] == "--data-raw"
    assert exactly(json.loads(words[8])) == exactly(body)
    assert len(words) == 9

    (post,) = [
        node for node in ast.walk(ast.parse(copies.python("echo", arguments, ADDRESS)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "post"
    ]  # fmt: skip
    (sent_json,) = [keyword.value for keyword in post.keywords if keyword.arg == "json"]
    assert exactly(ast.literal_eval(sent_json)) == exactly(body)

    params = json.loads(copies.mcp("echo", arguments))["params"]
    assert params.pop("_meta")["io.modelcontextprotocol/protocolVersion"]
    assert exactly(params) == exactly({"name": "echo", "arguments": arguments})

    command, sub, name, text, *rest = shlex.split(copies.command("echo", arguments))
    assert (command, sub, name) == ("toolhub", "calltool", "echo")
    assert exactly(json.loads(text)) == exactly(arguments)
    assert all(word.startswith("--connection=") for word in rest)


def exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_the_copies_stand_beside_the_answer(operator: Client) -> None:
    shown = sent(operator, at("echo"), **fields(message="it's </pre>"))
    words = shlex.split(shown.one("pre", id="copy-curl").text)
    assert json.loads(words[-1])["parameters"] == {"message": "it's </pre>"}
    assert words[2].endswith("/v1/tools/call")


def test_says_whose_words_an_answer_may_hold(hub: Hub, operator: Client) -> None:
    outside = Programmable("outside", untrusted=True)
    hub.add(outside.tool)
    outside.outcomes += [{"subject": "hi"}, NotFoundError("Gone", context=GONE)]
    whose = "text from outside this hub"
    assert whose in sent(operator, at("outside"), **fields()).text
    assert whose in sent(operator, at("outside"), **fields()).text
    assert whose not in sent(operator, at("echo"), **fields(message="hi")).text


GONE = {"operation": "get", "resourceType": "Issue", "resourceId": "1"}
