"""Reading JSON from strangers."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.timing import takes_less_than
from tools_app.text import json_text
from tools_app.text.json_text import MAX_DEPTH, MAX_VALUES, Bounds, JsonError, parsed

MEGABYTE = 1024 * 1024

REFUSED: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "syntax error in line 1, column 1"),
    ("blanks", b" \n ", "syntax error in line 2, column 2"),
    ("truncated", b'{"a": 1', "syntax error"),
    ("trailing comma", b'{"a": 1,}', "syntax error"),
    ("two values", b"{} {}", "syntax error"),
    ("single quotes", b"{'a': 1}", "syntax error"),
    ("bare word", b"{a: 1}", "syntax error"),
    ("comment", b"{} // no", "syntax error"),
    ("raw newline in a text", b'"a\nb"', "syntax error"),
    ("raw NUL", b'"a\x00b"', "syntax error"),
    ("wrong escape", b'"\\x41"', "syntax error"),
    ("leading zero", b"01", "syntax error"),
    ("NaN", b'{"a": NaN}', "NaN is not JSON"),
    ("Infinity", b"[Infinity]", "Infinity is not JSON"),
    ("-Infinity", b"-Infinity", "-Infinity is not JSON"),
    ("overflow", b"1e400", "a number is too large"),
    ("negative overflow", b"[-1e999999999]", "a number is too large"),
    ("many digits before the point", b"1" * 400 + b".0", "a number is too large"),
    ("beyond 64 bits", str(2**63).encode(), "does not fit into 64 bits"),
    ("below 64 bits", str(-(2**63) - 1).encode(), "does not fit into 64 bits"),
    ("5,000 digits", b"9" * 5000, "does not fit into 64 bits"),
    ("same key twice", b'{"a": 1, "b": {"c": 1, "c": 1}}', "same key twice"),
    ("same key twice, escaped", b'{"a": 1, "\\u0061": 2}', "same key twice"),
    ("half of a pair", b'"\\ud800"', "a lone surrogate"),
    ("the other half", b'["\\udfff"]', "a lone surrogate"),
    ("two first halves", b'"\\ud83d\\ud83d\\ude00"', "a lone surrogate"),
    ("two second halves", b'"\\ud83d\\ude00\\ude00"', "a lone surrogate"),
    ("halves apart", b'"\\ud83d\\\\\\ude00"', "a lone surrogate"),
    ("half in a key", b'{"\\uD800": 1}', "a lone surrogate"),
    ("NUL", b'{"a": "\\u0000"}', "the character NUL"),
    ("NUL in a key", b'{"\\u0000": 1}', "the character NUL"),
    ("NUL after a backslash", b'"\\\\\\u0000"', "the character NUL"),
    ("byte order mark", b"\xef\xbb\xbf{}", "byte order mark"),
    ("UTF-16", '{"a": 1}'.encode("utf-16"), "not UTF-8"),
    ("UTF-16 without mark", '{"a": 1}'.encode("utf-16-le"), "syntax error"),
    ("UTF-32", '{"a": 1}'.encode("utf-32"), "not UTF-8"),
    ("Latin-1", '"ä"'.encode("latin-1"), "not UTF-8"),
    ("overlong", b'"\xc0\xaf"', "not UTF-8"),
    ("surrogate as UTF-8", b'"\xed\xa0\x80"', "not UTF-8"),
    ("too deep", b"[" * 65 + b"]" * 65, "nested deeper than 64 levels"),
    ("too deep, mixed", b'{"a":[' * 33 + b"]}" * 33, "nested deeper than 64 levels"),
    ("too deep behind a text", b'["[\\"]", ' + b"[" * 64 + b"]" * 65, "nested deeper than 64 levels"),
    ("depth 1,500", b"[" * 1500, "nested deeper than 64 levels"),
    ("depth 100,000", b"[" * 100_000 + b"]" * 100_000, "nested deeper than 64 levels"),
    ("objects without end", b'{"a":' * 50_000, "nested deeper than 64 levels"),
]

HOSTILE: dict[str, bytes] = {
    "brackets": b"[" * MEGABYTE,
    "closing brackets": b"]" * MEGABYTE,
    "quotes": b'"' * MEGABYTE,
    "backslashes": b'"' + b"\\\\" * (MEGABYTE // 2 - 1) + b'"',
    "escaped quotes": b'"' + b'\\"' * (MEGABYTE // 2 - 1) + b'"',
    "commas": b"," * MEGABYTE,
    "blanks": b" " * MEGABYTE,
    "digits": b"1" * MEGABYTE,
    "fraction": b"1" * (MEGABYTE - 2) + b".0",
    "numbers": b"[" + b"1," * (MEGABYTE // 2 - 2) + b"1]",
    "empty lists": b"[" + b"[]," * (MEGABYTE // 3 - 1) + b"[]]",
    "surrogates": b'"' + b"\\ud83d\\ude00" * (MEGABYTE // 12 - 1) + b'"',
    "halves": b'"' + b"\\ud800" * (MEGABYTE // 6 - 1) + b'"',
    "texts": b"[" + b",".join([b'"a"'] * (MAX_VALUES - 1)) + b"]",
    "keys": b"{" + b",".join(b'"%x":1' % number for number in range(MAX_VALUES - 1)) + b"}",
    "same keys": b"{" + b",".join([b'"a":1'] * (MAX_VALUES - 1)) + b"}",
    "unclosed": b'{"a":' * (MEGABYTE // 5),
}


@pytest.mark.parametrize(("body", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses_what_no_honest_client_sends(body: bytes, reason: str) -> None:
    with pytest.raises(JsonError) as caught:
        parsed(body)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "null", "true", " [ ] ", "{}", '""', "-0", "1E3", "1e-400", str(2**63 - 1), str(-(2**63)), '"\\ud83d\\ude00"',
        '"😀"', '"\\\\ud800"', '"\\\\u0000"', '"[[[\\"{{{"', '{"a": {"a": {"a": 1}}}', '{"": 1}', '"\\u0001"',
        '[{"a": "NaN"}]', '"' + "," * 200_000 + '"', '"' + '\\"' * 200_000 + '"',
    ],
)  # fmt: skip
def test_reads_everything_else_as_python_does(text: str) -> None:
    assert parsed(text.encode()) == json.loads(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
            st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")), inner, max_size=4
        ),
    ),
    st.booleans(),
)  # fmt: skip
def test_json_written_by_python_is_read_back(value: Any, ascii_only: bool) -> None:
    assert parsed(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0dD8c1eE.- ', max_size=60).map(str.encode))
def test_anything_is_either_read_or_refused(body: bytes) -> None:
    try:
        value = parsed(body)
    except JsonError:
        return
    assert value == json.loads(body)


def test_the_limits_are_exact() -> None:
    assert len(parsed(b"[" + b"1," * (MAX_VALUES - 2) + b"1]")) == MAX_VALUES - 1
    assert len(parsed(b"[" + b" [ ] ," * (MAX_VALUES - 2) + b"{}]")) == MAX_VALUES - 1
    assert parsed(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    with pytest.raises(JsonError, match="more than 100,000 values"):
        parsed(b"[" + b"1," * (MAX_VALUES - 1) + b"1]")
    with pytest.raises(JsonError, match="more than 100,000 values"):
        parsed(b"[" + b"[]," * (MAX_VALUES - 1) + b"{}]")


@given(st.text(alphabet='[]{}",:1e9\\ a', max_size=60), st.integers(1, 9))
def test_a_text_is_judged_the_same_in_parts(text: str, size: int) -> None:
    """Large texts are looked at a part at a time, and where a part ends must make no difference."""
    whole = list(json_text._structure(text.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_PART", size)
        parts = list(json_text._structure(text.encode()))
    assert b"".join(parts).replace(b'"', b"") == b"".join(whole).replace(b'"', b"")
    assert all(len(part) <= size for part in parts)


UPSTREAMS = Bounds(depth=100, values=1_000, digits=400, any_text=True)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (rb'["\ud83d", "\u0000"]', ["\ud83d", "\0"]),
        (b"[12345678901234567000]", [12345678901234567000]),
        (b"[" * 100 + b"]" * 100, None),
    ],
)
def test_upstreams_can_send_more(body: bytes, value: Any) -> None:
    found = parsed(body, UPSTREAMS)
    assert value is None or found == value
    with pytest.raises(JsonError):
        parsed(body)


@pytest.mark.parametrize(
    "body", [b"[" * 101 + b"]" * 101, b"9" * 401, b"1e400", b"[NaN]", b'{"a":1,"a":2}', b"[" + b"1," * 1000 + b"1]"]
)
def test_but_not_everything(body: bytes) -> None:
    with pytest.raises(JsonError):
        parsed(body, UPSTREAMS)


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_body_of_the_largest_size_holds_up_the_loop(body: bytes) -> None:
    def read() -> None:
        with contextlib.suppress(JsonError):
            parsed(body)

    assert takes_less_than(0.5, read, attempts=5)  # measured: at most 0.04; what is quadratic takes minutes
