"""Texts that are JSON or XML are read as such; everything else by its lines."""

from __future__ import annotations

import json

import pytest

from tools_app.answers import beginning_of, opened


def text(answer):
    return opened(answer.encode(), text=True)


def test_a_text_is_its_lines():
    assert text("one\ntwo\n").value == ["one", "two", ""]


def test_a_text_that_is_json_is_read_as_json():
    document = text(' {"items": [1, 2.5, "é"]}\n')

    assert (document.kind, document.value) == ("json", {"items": [1, 2.5, "é"]})


@pytest.mark.parametrize("wrong", ["{not json", "[1, NaN]", "[1e999]", '["\\ud800"]', "[" * 100_000, "[1] and more"])
def test_what_only_looks_like_json_stays_text(wrong):
    assert text(wrong).kind == "text"


def test_escapes_cannot_bring_back_what_is_hidden():
    hidden = json.dumps({"a\u200b": "b\u202e", "c\x08": "\ud83d\ude00"})

    assert text(hidden).value == {"a": "b", "c": "\U0001f600"}
    assert text("<a>x&#x200b;<b/></a>").value == {"a": {"#content": ["x", {"b": ""}]}}


XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<issues type="array" xmlns:x="urn:x">
  <!-- left out -->
  <issue><id>1</id><author id="5" name="Ä &amp; B"/><x:note/></issue>
  <issue><id>2</id><text lang="en">a <b>bold</b> word<![CDATA[ <raw>]]></text></issue>
</issues>"""


def test_xml_is_read_by_its_elements():
    assert text(XML).kind == "xml"
    assert text(XML).value == {
        "issues": {
            "@type": "array",
            "@xmlns:x": "urn:x",
            "issue": [
                {"id": "1", "author": {"@id": "5", "@name": "Ä & B"}, "x:note": ""},
                {"id": "2", "text": {"@lang": "en", "#content": ["a ", {"b": "bold"}, " word <raw>"]}},
            ],
        }
    }


def test_the_order_of_elements_that_take_turns_is_kept():
    assert text("<a><b>1</b><c>2</c><b>3</b></a>").value == {"a": {"#content": [{"b": "1"}, {"c": "2"}, {"b": "3"}]}}


@pytest.mark.parametrize(
    "refused",
    [
        '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><a/>',
        "<a>&undefined;</a>",
        "<a><b></a>",
        "<html><br></html>",
        "<a>" * 201 + "</a>" * 201,
    ],
)
def test_xml_that_is_broken_or_declares_anything_stays_text(refused):
    assert text(refused).kind == "text"
    assert beginning_of(refused).kind == "text"


def test_for_an_outline_the_beginning_of_json_is_enough_if_it_does_not_break_off():
    rows = json.dumps([{"id": number} for number in range(50_000)])
    document = beginning_of(rows)

    assert not document.whole
    assert 1_000 < len(document.value) < 50_000
    assert opened(rows.encode(), text=True).value[49_999] == {"id": 49_999}
    assert beginning_of(rows[:-1]).kind == "text"
    assert beginning_of('{"line": 1}\n' * 50_000).kind == "text"


def test_for_an_outline_the_beginning_of_xml_is_enough_if_all_of_it_is_well_formed():
    rows = "".join(f"<issue><id>{number}</id></issue>" for number in range(20_000))
    document = beginning_of(f"<issues>{rows}</issues>")

    assert not document.whole
    assert document.value["issues"]["issue"][1] == {"id": "1"}
    assert beginning_of(f"<issues>{rows}<issues>").kind == "text"
