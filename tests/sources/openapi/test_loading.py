"""JSON and YAML of documents: what is read, and what is refused with a reason before it costs anything."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tools_app.sources.openapi import DocumentError
from tools_app.sources.openapi.loading import MOST_BYTES, MOST_DEPTH, loaded


def yaml(text: str) -> dict[str, Any]:
    return loaded(text.encode())


def refusal(body: bytes, media_type: str = "") -> str:
    with pytest.raises(DocumentError) as caught:
        loaded(body, media_type)
    assert caught.value.next_step
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("'null'", "null"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-12", -12),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("9" * 5000, "9" * 5000),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!binary aGk=", "aGk="),
        ("!!python/object/apply:os.getcwd x", "x"),
        ("=", "="),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_of_yaml_are_those_of_version_1_2(text: str, value: object) -> None:
    read = yaml(f"a: {text}\n")["a"]
    assert read == value
    assert type(read) is type(value)


def test_every_key_is_a_text() -> None:
    read = yaml("responses:\n  200: a\n  404: b\n  default: c\n  on: d\n  null: e\n  2024-01-31: f\n  1.0: g\n")
    assert list(read["responses"]) == ["200", "404", "default", "on", "null", "2024-01-31", "1.0"]


def test_anchors_aliases_and_merges_are_copies_of_what_they_name() -> None:
    read = yaml("a: &base {x: 1, y: 2}\nb: *base\nc: {<<: *base, y: 3}\nd: {<<: [{x: 5}, *base]}\n'<<': text\n")
    assert read["b"] == {"x": 1, "y": 2}
    assert read["c"] == {"x": 1, "y": 3}
    assert read["d"] == {"x": 5, "y": 2}
    assert read["<<"] == "text"


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b" \r\n\t"])
def test_json_is_read_with_or_without_a_mark_before_it(start: bytes) -> None:
    body = start + json.dumps({"openapi": "3.1.0", "x": "ü"}).encode()
    assert loaded(body) == {"openapi": "3.1.0", "x": "ü"}
    assert loaded(body, "application/json") == loaded(body)


def test_yaml_in_the_style_of_json_is_read() -> None:
    assert loaded(b'{openapi: 3.1.0, paths: {}, "info": {title: no}}') == {
        "openapi": "3.1.0",
        "paths": {},
        "info": {"title": "no"},
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "is not an object"),
        (b"# nothing\n", "is not an object"),
        (b"[1, 2]", "is not an object"),
        (b"[[1]]", "is not an object"),
        (b"just a text", "is not an object"),
        (b'{"a": ', "line 1, column"),
        (b"a: [1\nb: 2", "neither JSON nor YAML: line"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"\xff\xfe\xffa: b", "neither JSON nor YAML"),
        (b"a: \x00", "neither JSON nor YAML"),
        (b"a: \xff\xff", "neither JSON nor YAML"),
        (b"a: 1\n---\nb: 2\n", "more than one YAML document"),
        (b"a: *nothing\n", "an alias without an anchor before it: line 1"),
        (b"a: &a [*a]\n", "an alias without an anchor before it"),
        (b"? [a, b]\n: 1\n", "a key that is not a text: line 1"),
        (b"a: {<<: 3}\n", "a merge of what is no mapping"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number that is too large"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(body: bytes, message: str) -> None:
    assert message in refusal(body)


def test_a_document_that_is_too_large_is_refused() -> None:
    assert refusal(b" " * (MOST_BYTES + 1)) == "The document is larger than 32 MiB"


@pytest.mark.parametrize("form", ['{{"a": {}1{}}}', "a: {}1{}"])
@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 10_000, 1_000_000])
def test_a_document_that_is_nested_too_deep_is_refused(form: str, depth: int) -> None:
    body = form.format("[" * depth, "]" * depth).encode()
    assert refusal(body) == f"The document is nested deeper than {MOST_DEPTH} levels"


def test_aliases_count_with_all_that_they_name() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    started = time.monotonic()
    assert refusal("\n".join(levels).encode()) == "The document has more than 2,000,000 values"
    assert time.monotonic() - started < 30


def test_merges_count_with_all_that_they_add() -> None:
    wide = ", ".join(f"k{n}: 1" for n in range(1_000))
    body = f"a: &a {{{wide}}}\nb: [" + "{<<: *a}, " * 3_000 + "]"
    assert refusal(body.encode()) == "The document has more than 2,000,000 values"


def test_a_document_with_too_many_values_is_refused() -> None:
    assert refusal(b'{"a": [' + b"1," * 2_000_000 + b"1]}") == "The document has more than 2,000,000 values"
