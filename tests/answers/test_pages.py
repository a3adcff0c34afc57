"""The pages of any answer fit, and contain each of its items once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answers.walks import HANDLE, read
from tools_app.answers import Document, PageError, PageRequest, bytes_of, opened, page
from tools_app.answers.filters import Condition
from tools_app.text import hygiene
from tools_app.text.budget import FEWEST_TOKENS, size_of

SMALLEST = bytes_of(FEWEST_TOKENS)

# Japanese, Persian with joiners, emoji of several characters, escapes, what pointers must escape.
LETTERS = st.sampled_from(["a", "é", "日本", "می‌خواهم", "👩‍👩‍👧‍👦", "❤️", '"', "\\", "\n", "~", "/", "~1", "क्‍ष", " "])
TEXTS = st.lists(LETTERS, max_size=8).map("".join)
LONG = st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 400))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | LONG
JSON = (
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=12)
            | st.dictionaries(TEXTS | LONG, inner, max_size=8)
            | st.builds(lambda one, times: [one] * times, inner, st.integers(1, 8))
        ),
        max_leaves=20,
    )
    .filter(lambda value: size_of(value) < 1_000_000)
    .map(hygiene.cleaned_json)
)


@settings(max_examples=120, deadline=None)
@given(JSON, st.sampled_from([SMALLEST, 2 * SMALLEST, 75_000]))
def test_nothing_is_lost_and_nothing_comes_twice(value, most_bytes):
    assert read(Document("json", value), most_bytes) == value


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS | LONG, max_size=40).map("\n".join).map(hygiene.cleaned))
def test_a_text_is_whole_again_when_its_lines_are_put_together(text):
    document = Document("text", text.split("\n"))

    assert "\n".join(read(document, SMALLEST)) == text


def test_ten_megabytes_are_read_whole():
    value = _large()
    content = json.dumps(value).encode()
    assert len(content) > 9_000_000

    assert read(opened(content, text=False), 75_000) == value


def _large() -> object:
    """Some of everything: many small, a few that need pages of their own, deep ones, long texts."""
    row = {"id": 1, "name": "名前" * 5, "tags": ["a", "b"], "ratio": 0.25, "note": None}
    deep: object = ["the end"]
    for level in range(300):
        deep = {f"level {level} of something that is nested deep": deep, "beside": "x" * (level * 7919 % 300)}
    return {
        "rows": [{**row, "id": number} for number in range(30_000)],
        "logs": {f"node/{number}": "line\n" * (number * 7919 % 20_000) for number in range(40)},
        "wide": [[number * 7919 % 10**6 for number in range(20_000)] for _ in range(20)],
        "deep": deep,
        "keys": {"k" * 5_000: "a key that no pointer has room for", "text": "y" * 200_000},
        "text": 'ab\\n"' * 400_000,
    }


def test_values_too_deep_for_a_pointer_are_read_as_json_text():
    value: object = "x" * 5_000
    for _ in range(60):
        value = {"a key that takes some room in a pointer": value}

    assert read(Document("json", value), SMALLEST) == value


def test_numbers_that_are_larger_than_a_page_are_read_as_text():
    value = [int("7" * 4_000), 1]

    assert read(Document("json", value), SMALLEST) == value


ROWS = [{"id": number, "state": "open" if number % 3 else "closed", "by": {"name": "a"}} for number in range(300)]


def asked(value, most_bytes=75_000, **question):
    return page(Document("json", value), PageRequest(**question), handle=HANDLE, most_bytes=most_bytes)


def test_limit_and_offset_choose_items():
    one = asked(ROWS, offset=10, limit=2)

    assert one["items"] == ROWS[10:12]
    assert one["nextOffset"] == 12
    assert one["_guidance"]["example"] == {
        "name": "read_result",
        "arguments": {"id": HANDLE, "offset": 12, "limit": 2},
    }


def test_where_filters_and_says_where_it_found_them():
    one = asked(ROWS, where=[Condition("state", "eq", "closed"), Condition("id", "gt", 290)], fields=["id"])

    assert one["items"] == [{"id": 291}, {"id": 294}, {"id": 297}]
    assert one["indexes"] == [291, 294, 297]
    assert (one["total"], one["of"]) == (3, 300)
    assert "nextOffset" not in one


def test_filtered_pages_hold_each_match_once():
    where = [Condition("state", "eq", "open")]
    one: dict[str, Any] = {"nextOffset": 0}
    found = []
    while "nextOffset" in one:
        one = asked(ROWS, SMALLEST, offset=one["nextOffset"], where=where)
        assert size_of(one) <= SMALLEST
        found += one["items"]

    assert found == [row for row in ROWS if row["state"] == "open"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Condition("a", "eq", 1), True),
        (Condition("a", "eq", True), False),
        (Condition("t", "eq", True), True),
        (Condition("t", "eq", 1), False),
        (Condition("a", "eq", 1.0), True),
        (Condition("a", "ne", 2), True),
        (Condition("missing", "ne", 2), True),
        (Condition("missing", "eq", None), False),
        (Condition("n", "eq", None), True),
        (Condition("a", "lt", 2), True),
        (Condition("a", "lt", "2"), False),
        (Condition("s", "ge", "2026-01"), True),
        (Condition("s", "contains", "-02-"), True),
        (Condition("w", "contains", "STRASSE"), True),
        (Condition("l", "contains", 2), True),
        (Condition("l", "contains", "2"), False),
        (Condition("o", "contains", "x"), True),
        (Condition("a", "contains", 1), False),
        (Condition("/o/x", "eq", 5), True),
        (Condition("/o/y", "exists"), False),
        (Condition("/o/y", "exists", False), True),
        (Condition("/o/~2", "exists"), False),
        (Condition("n", "exists"), True),
        (Condition("", "contains", "a"), True),
    ],
)
def test_conditions(condition, holds):
    item = {"a": 1, "t": True, "n": None, "s": "2026-02-03", "w": "Hauptstraße", "l": [1, 2], "o": {"x": 5}}

    assert condition.holds(item) is holds


def test_where_finds_lines_of_a_text():
    document = Document("text", ["all well", "ERROR: disk full", "all well", "error again"])
    one = page(document, PageRequest(where=[Condition("", "contains", "error")]), handle=HANDLE, most_bytes=SMALLEST)

    assert (one["items"], one["indexes"]) == (["ERROR: disk full", "error again"], [1, 3])


def test_fields_choose_members_of_an_object_and_of_items():
    assert asked(ROWS, pointer="/1", fields=["state", "gone"])["items"] == {"state": "open"}
    assert asked(ROWS, limit=1, fields=["/by/name", "id"])["items"] == [{"/by/name": "a", "id": 0}]


@pytest.mark.parametrize(
    ("question", "field", "message"),
    [
        ({"pointer": "rows"}, "pointer", 'must be empty or start with "/"'),
        ({"pointer": "/~2"}, "pointer", 'must write "~"'),
        ({"pointer": "/300"}, "pointer", "leads nowhere after '', where there is an array of 300"),
        ({"pointer": "/00"}, "pointer", "leads nowhere"),
        ({"pointer": "/-"}, "pointer", "leads nowhere"),
        ({"pointer": "/0/by/name/x"}, "pointer", "after '/0/by/name', where there is nothing further"),
        ({"pointer": "/" + "9" * 1_001}, "pointer", "too long"),
        ({"offset": 301}, "offset", "is past the end: there are 300 items"),
        ({"offset": -1}, "offset", "must be 0 or more"),
        ({"limit": 0}, "limit", "must be 1 or more"),
        ({"where": [Condition("a", "eq", 1)] * 9}, "where", "at most 8"),
        ({"where": [Condition("a", "eq", "x" * 1_000)]}, "pointer", "too long"),
        ({"fields": ["a"] * 33}, "fields", "at most 32"),
        ({"pointer": "/0/state", "where": [Condition("a", "eq", 1)]}, "where", "needs an array or an object"),
    ],
)
def test_questions_that_have_no_answer_say_why(question, field, message):
    with pytest.raises(PageError, match=".") as error:
        asked(ROWS, **question)

    assert error.value.field == field
    assert message in str(error.value)
