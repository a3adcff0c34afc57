"""Objects and lists of objects as fields: what was meant is sent, and no schema makes a large page."""

from __future__ import annotations

import json
from typing import Annotated, Any, NotRequired

import pytest
from django.http import QueryDict
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from tests.admin.pages import Page, page, sent
from tests.admin.test_console import at
from tests.admin.test_console_attacks import HOSTILE, operator
from tests.admin.test_console_form import TEXT, VALUES
from tests.admin.test_escaping import harmless
from tests.support.tools import Hub
from tools_app.admin.console import form, parts
from tools_app.admin.console.fields import Argument
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints
from tools_app.text import hygiene

__all__ = ["operator"]

ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "pattern": r"^[A-Z]{3}-\d+$", "description": "Of the catalogue"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "gift": {"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]},
    },
    "required": ["sku"],
}
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "address": {"$ref": "#/$defs/Address"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1},
        "billing": {"$ref": "#/$defs/Address"},
        "payment": {"oneOf": [{"type": "object", "properties": {"iban": {}}}, {"type": "string"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["address", "items"],
    "additionalProperties": False,
    "$defs": {
        "Address": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        "Item": ITEM,
    },
}


def submitted(**values: str) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in values.items():
        data[name] = value
    return data


def posted(shown: form.ArgumentsForm) -> QueryDict:
    """What a browser would send of a form that is shown."""
    data = QueryDict(mutable=True)
    waiting = shown.lines()
    while waiting:
        line = waiting.pop()
        waiting.extend(line.lines)
        if line.field is not None:
            text = str(line.field.value() or "").replace("\r\n", "\n").replace("\r", "\n")
            # A single-line input has no line breaks.
            is_line = getattr(line.field.field.widget, "input_type", "") == "text"
            data[line.field.html_name] = text.replace("\n", "") if is_line else text.replace("\n", "\r\n")
        elif line.part.is_list:
            data[f"count-{line.part.key}"] = str(len(line.lines))
    return data


def test_reads_what_was_entered_in_the_parts() -> None:
    data = submitted(**{
        "argument-address/street": "Main St",
        "count-items": "2",
        "argument-items/0/sku": "ABC-1",
        "argument-items/0/count": "2",
        "argument-items/0/gift/card": "hi",
        "argument-items/1/sku": "ABC-2",
        "argument-billing/street": "",
    })  # fmt: skip
    assert form.ArgumentsForm(ORDER, data).arguments() == {
        "address": {"street": "Main St"},
        "items": [{"sku": "ABC-1", "count": 2, "gift": {"card": "hi"}}, {"sku": "ABC-2"}],
    }


def test_an_optional_object_needs_nothing_and_an_item_what_it_requires() -> None:
    shown = form.ArgumentsForm(ORDER, submitted(**{"count-items": "1"}))
    assert not shown.fields["billing/street"].required
    assert not shown.fields["items/0/gift/card"].required
    assert shown.arguments() is None
    assert set(shown.errors) == {"address/street", "items/0/sku"}


def test_what_has_no_simple_form_is_one_text() -> None:
    shown = form.ArgumentsForm(ORDER)
    assert type(shown.fields["payment"]) is Argument
    as_text = submitted(**{"argument-address": '{"street": "x"}', "argument-items": '[{"sku": "ABC-1"}]'})
    assert form.ArgumentsForm(ORDER, as_text).arguments() == {"address": {"street": "x"}, "items": [{"sku": "ABC-1"}]}


OPEN: dict[str, Any] = {
    **ORDER,
    "properties": {**ORDER["properties"], "more": {"type": "object"}},
    "required": [],
}
GIFTS = st.fixed_dictionaries({}, optional={"card": TEXT, "other": TEXT})
ITEMS = st.fixed_dictionaries({}, optional={"sku": TEXT, "count": st.integers(-5, 5) | st.none(), "gift": GIFTS})
ADDRESSES = st.fixed_dictionaries({}, optional={"street": TEXT, "door": VALUES})
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "address": ADDRESSES | VALUES, "billing": ADDRESSES, "items": st.lists(ITEMS, max_size=4) | VALUES,
        "payment": VALUES, "tags": st.lists(TEXT, max_size=3), "more": VALUES,
    },
)  # fmt: skip


@given(ORDERS)
@settings(max_examples=300, deadline=None)
def test_what_the_parts_show_they_send_again(arguments: dict[str, Any]) -> None:
    shown = form.form_for(OPEN, arguments)
    if isinstance(shown, form.JsonForm):
        return
    again = form.ArgumentsForm(OPEN, posted(shown))
    sent_again = again.arguments()
    if sent_again is None:  # Only what an item requires and does not have.
        assert all(key.endswith("/sku") for key in again.errors)
        return
    assert json.dumps(sent_again, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def test_items_are_added_and_removed_and_the_others_stay() -> None:
    data = submitted(**{"count-items": "3"})
    for index, sku in enumerate(("a", "b", "c")):
        data[f"argument-items/{index}/sku"] = sku
    added = form.ArgumentsForm(ORDER, form.with_item(data, "items"), as_draft=True)
    assert [added.initial.get(f"items/{index}/sku") for index in range(4)] == ["a", "b", "c", None]
    removed = form.without_item(data, "items", 1)
    assert removed["count-items"] == "2"
    assert [removed.get(f"argument-items/{index}/sku") for index in range(3)] == ["a", "c", None]


def test_broken_text_stays_as_it_was_typed() -> None:
    typed = '{"iban": "DE", }'
    shown = form.ArgumentsForm(
        ORDER, submitted(**{"argument-payment": typed, "argument-address/street": "x", "count-items": "0"})
    )
    text = shown.draft()
    assert typed in text
    assert json.loads(text.replace(typed, "null")) == {"address": {"street": "x"}, "items": [], "payment": None}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (ORDER, {"address": {"street": ""}, "items": [{"sku": ""}]}),
        (ITEM, {"sku": ""}),
        ({"properties": {"a": {"type": "integer", "minimum": 3}, "b": {"enum": ["x"]}}}, {"a": 3, "b": "x"}),
        ({"oneOf": [{"type": "boolean"}, {"type": "string"}]}, False),
        ({"type": ["string", "null"], "default": "d"}, "d"),
    ],
)
def test_a_skeleton_has_what_is_required(schema: dict[str, Any], expected: Any) -> None:
    assert parts.skeleton(schema, ORDER["$defs"]) == expected


# ---- hostile schemas


def recursive() -> dict[str, Any]:
    node = {"type": "object", "properties": {"left": {"$ref": "#/$defs/N"}, "right": {"$ref": "#/$defs/N"}}}
    return {"type": "object", "properties": {"root": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}


def wide() -> dict[str, Any]:
    inner = {"type": "object", "properties": {f"m{number}": {"type": "string"} for number in range(40)}}
    outer = {f"o{number}": {"type": "object", "properties": {"a": inner, "b": inner}} for number in range(60)}
    return {"type": "object", "properties": outer}


def many_choices() -> dict[str, Any]:
    inner = {f"m{number}": {"enum": [f"choice {one}" for one in range(290)]} for number in range(30)}
    return {"type": "object", "properties": {f"o{n}": {"type": "object", "properties": inner} for n in range(60)}}


def lists() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(12):
        schema = {"type": "object", "properties": {"l": {"type": "array", "items": schema}}}
    return schema


@pytest.mark.parametrize("made", [recursive, wide, many_choices, lists])
def test_a_hostile_schema_makes_no_large_form(made: Any) -> None:
    schema = made()
    shown = form.ArgumentsForm(schema)
    assert len(shown.fields) <= parts.MOST_FIELDS + form.MOST_FIELDS
    html = str(len(shown.fields)) + "".join(str(shown[name]) for name in shown.fields)
    assert len(html) < 1_000_000
    assert sum(len(part.inside) for part in shown._by_key.values()) <= parts.MOST_ROWS
    assert len(json.dumps(parts.skeleton(schema, schema.get("$defs", {})))) < 20_000
    data = submitted(**{f"count-{key}": "9999" for key in shown._by_key})
    many = form.ArgumentsForm(schema, data)
    assert len(many.fields) <= parts.MOST_FIELDS + form.MOST_FIELDS
    many.arguments()


def test_more_items_than_fields_can_hold_are_json_and_nothing_is_lost() -> None:
    items = [{"sku": f"ABC-{number}"} for number in range(parts.MOST_ITEMS + 1)]
    shown = form.form_for(ORDER, {"address": {"street": "x"}, "items": items})
    if isinstance(shown, form.ArgumentsForm):
        assert form.ArgumentsForm(ORDER, posted(shown)).arguments() == {"address": {"street": "x"}, "items": items}
    too_many = form.ArgumentsForm(ORDER, submitted(**{"count-items": "21", "argument-address/street": "x"}))
    assert too_many.arguments() is None
    assert "Too many parts" in str(too_many.errors)


# ---- on the page


class Address(TypedDict):
    street: str


class Gift(TypedDict):
    card: str


class Item(TypedDict):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d+$", description="Of the catalogue")]
    count: NotRequired[Annotated[int, Field(ge=1)]]
    gift: NotRequired[Gift]


PAYMENT = {"oneOf": [{"type": "object", "properties": {"iban": {"type": "string"}}}, {"type": "string"}]}


TOLD = hygiene.cleaned("".join(HOSTILE))
POISONED = {"type": "object", "description": TOLD, "properties": {TOLD: {"type": "string", "description": TOLD}}}


@pytest.fixture
def ordering(hub: Hub) -> str:
    async def run(
        address: Address,
        items: list[Item],
        billing: Address | None = None,
        payment: Annotated[Any, WithJsonSchema(PAYMENT)] = None,
    ) -> Any:
        return [address, items]

    hub.add(tool(name="order", description="Orders.", hints=Hints(read_only=True))(run))
    return at("order")


def entered(shown: Page) -> dict[str, str]:
    """What the form of the page would send without a change."""
    values = {one["name"]: one.attributes.get("value", "") for one in shown.all("input") if "name" in one.attributes}
    values |= {one["name"]: one.text.strip() for one in shown.all("textarea")}
    return {name: value for name, value in values.items() if name.startswith(("argument-", "count-", "mode"))}


def test_a_nested_call_is_made_of_fields_alone(operator: Client, ordering: str) -> None:
    shown = sent(operator, ordering, **entered(page(operator, ordering)), action="add:items")
    assert "Item 1" in shown.text
    assert "A value is required" not in shown.text
    for words in (r"matches ^[A-Z]{3}-\d+$", "Of the catalogue", "1 or more"):
        assert words in shown.text, words
    values = {**entered(shown), "argument-address/street": "Main", "argument-items/0/sku": "wrong"}
    shown = sent(operator, ordering, **values, action="run")
    at_fault = shown.all("div", class_="hub-console-at-fault")
    assert [one["id"] for one in at_fault] == ["part-items/0/sku"]
    shown = sent(operator, ordering, **{**entered(shown), "argument-items/0/sku": "ABC-1"}, action="run")
    assert "Succeeded" in shown.text
    shown = sent(operator, ordering, **entered(shown), action="json")
    text = next(one.text for one in shown.all("textarea", name="json"))
    assert json.loads(text) == {"address": {"street": "Main"}, "items": [{"sku": "ABC-1"}]}
    assert "Raw JSON Schema" in shown.text
    shown = sent(operator, ordering, mode="json", json=text, action="fields")
    assert shown.one("input", name="argument-items/0/sku")["value"] == "ABC-1"
    shown = sent(operator, ordering, **entered(shown), action="remove:items/0")
    assert "Item 1" not in shown.text


def test_a_skeleton_is_inserted_and_what_is_there_stays(operator: Client, ordering: str) -> None:
    shown = sent(operator, ordering, mode="json", json="", action="skeleton:")
    assert json.loads(shown.one("textarea", name="json").text) == {"address": {"street": ""}, "items": [{"sku": ""}]}
    shown = sent(operator, ordering, mode="json", json='{"items": []}', action="skeleton:")
    assert json.loads(shown.one("textarea", name="json").text) == {"address": {"street": ""}, "items": []}
    shown = sent(operator, ordering, mode="json", json="{bad", action="skeleton:")
    assert shown.one("textarea", name="json").text.strip() == "{bad"
    assert "Not JSON" in shown.text
    values = entered(page(operator, ordering))
    shown = sent(operator, ordering, **values, action="skeleton:payment")
    assert json.loads(shown.one("textarea", name="argument-payment").text) == {"iban": ""}


def test_nothing_in_a_schema_or_request_becomes_markup(operator: Client, hub: Hub) -> None:
    async def run(
        o: Annotated[Any, WithJsonSchema(POISONED)] = None,
        l: Annotated[Any, WithJsonSchema({"type": "array", "items": POISONED})] = None,  # noqa: E741
        j: Annotated[Any, WithJsonSchema({"type": "object", "description": TOLD})] = None,
    ) -> Any:
        return 1

    hub.add(tool(name="poisoned", description="x", hints=Hints(read_only=True))(run))
    address = at("poisoned")
    harmless(page(operator, address))
    for payload in HOSTILE[:12]:
        for action in (f"add:{payload}", f"remove:l/{payload}", f"skeleton:{payload}", "add:l", "remove:l/9999999"):
            values = {"mode": "fields", "count-l": "1", f"argument-o/{payload}": payload, "argument-j": payload}
            harmless(sent(operator, address, **values, action=action))
        harmless(sent(operator, address, mode="fields", action="run", **{"count-l": payload, "argument-j": payload}))
