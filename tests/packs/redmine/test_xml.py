"""The one place where XML is written."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.redmine.office import read
from tools_app.packs.redmine import shapes
from tools_app.packs.redmine.xml import DECLARATION, document

ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Everything that Python takes for a character, halves of surrogate pairs too, and what breaks out of markup.
texts = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from(
        [*"<>&\"'\t\n\r\x00\x08\x0b\x1f\x7f\x85\ufffe\uffff\u202e\ud800", "]]>", "<!--", "-->", "&#0;", "?>"]
    )
).map("".join)


@settings(max_examples=1000, deadline=None)
@given(subject=texts, name=texts, value=texts | st.lists(texts, min_size=1, max_size=3), note=texts)
def test_any_text_parses_strictly_and_comes_back(subject: str, name: str, value: Any, note: str) -> None:
    field = {"id": 1, "name": name, "value": value}
    data = {
        "issues": [{"id": 1, "subject": subject, "author": {"id": 2, "name": name}, "custom_fields": [field]}],
        "total_count": 1,
        "note": note,
    }
    text = document(data)
    root = read(text)
    assert len(list(root.iter())) == 10
    joined = ", ".join(value) if isinstance(value, list) else value
    told = [root.findtext("issue/subject"), root.findtext("issue/author"), root.attrib["note"]]
    told += [root.findtext("issue/custom_fields/field/name"), root.findtext("issue/custom_fields/field/value")]
    assert told == [ILLEGAL.sub("", each) for each in (subject, name, note, name, joined)]


def test_begins_with_the_declaration() -> None:
    assert document({"issues": [], "total_count": 0}).startswith(DECLARATION + "\n")
    assert DECLARATION == '<?xml version="1.0" encoding="UTF-8"?>'


@settings(max_examples=300, deadline=None)
@given(name=texts)
def test_no_name_ends_a_tag(name: str) -> None:
    root = read(document({"issue": {"id": 1, name: {"id": 2, name: ["x"]}}}))
    assert root.tag == "issue"


def test_what_a_plugin_adds_to_a_field_or_a_child_is_left_out() -> None:
    plugin = {"a><b": "c", "api_key": "x"}
    child = {
        "id": 5,
        "subject": "a",
        "children": [{"id": 6, "subject": "b", "children": [plugin | {"id": 7}]} | plugin],
    }
    fields = [{"id": 1, "name": "f", "value": plugin}, {"id": 2, "name": "g", "value": [plugin, "x", ["y"]]}]
    issue = shapes.shown(shapes.ISSUE, {"id": 1, "children": [child | plugin], "custom_fields": fields} | plugin)
    assert issue == {
        "id": 1,
        "children": [{"id": 5, "subject": "a", "children": [{"id": 6, "subject": "b", "children": [{"id": 7}]}]}],
        "custom_fields": [{"id": 1, "name": "f", "value": None}, {"id": 2, "name": "g", "value": ["x"]}],
    }


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"issues": [], "total_count": 0, "offset": 0}, '<issues type="array" total_count="0" offset="0" />'),
        (
            {"issue": {"status": {"id": 1, "name": "New", "is_closed": False}}},
            '<status id="1" is_closed="false">New</status>',
        ),
        ({"issue": {"fixed_version": {"id": 1, "name": "1.0"}}}, '<version id="1">1.0</version>'),
        ({"issue": {"parent": {"id": 4}, "done_ratio": 60}}, "<parent_id>4</parent_id>\n<progress>60%</progress>"),
        ({"issue": {"estimated_hours": 2.0, "spent_hours": 0.25}}, "<estimated_hours>2</estimated_hours>"),
        ({"issue": {"is_private": True, "description": ""}}, "<issue>\n<is_private>true</is_private>\n</issue>"),
        ({"issue": {"is_private": False, "id": 1, "due_date": None}}, "<issue>\n<id>1</id>\n</issue>"),
        ({"project": {"is_public": False, "id": 1}}, "<is_public>no</is_public>"),
        (
            {
                "issue": {
                    "custom_fields": [
                        {"id": 1, "name": "a", "value": None},
                        {"id": 2, "name": "b", "value": ["x", "y"]},
                    ]
                }
            },
            "<custom_fields>\n<field><id>1</id><name>a</name><value></value></field>\n"
            "<field><id>2</id><name>b</name><value>x, y</value></field>\n</custom_fields>",
        ),
        (
            {"issue": {"children": [{"id": 5, "subject": "a", "children": [{"id": 6, "subject": "b"}]}]}},
            "<issue>\n<id>6</id>",
        ),
        ({"response": {"status": "partial", "warnings": ["a < b"]}}, "<warning>a &lt; b</warning>"),
        ({"issue": {"relations": [], "id": 1}}, "<relations />"),
    ],
)
def test_has_the_words_of_the_document(data: dict[str, Any], text: str) -> None:
    written = document(data)
    assert text in written
    read(written)
