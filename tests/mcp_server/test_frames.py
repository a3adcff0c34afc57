"""LineBuffer: cut, read strictly, written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from tools_app.mcp_server import frames
from tools_app.mcp_server.frames import InvalidMessage, LineBuffer


def refused(line: bytes) -> JSONRPCError:
    with pytest.raises(InvalidMessage) as caught:
        frames.read(line)
    return caught.value.answer


def nested(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"


@given(st.lists(st.binary().map(lambda data: data.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_come_out_as_they_were_sent_however_they_were_cut(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in sent)
    lines, found = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += lines.feed(stream[:size])
        stream = stream[size:]
    assert found == [line for line in sent if line and not line.isspace()]


def test_a_last_line_can_lack_its_end() -> None:
    lines = LineBuffer()
    assert lines.feed(b"one\ntwo") == [b"one"]
    assert lines.end() == [b"two"]
    assert lines.end() == []


def test_a_line_that_is_too_long_is_reported_before_it_ends_and_then_skipped() -> None:
    lines = LineBuffer(limit=10)
    assert lines.feed(b"1234567890") == []
    assert lines.feed(b"1") == [None]
    assert lines.feed(b"2" * 100) == []
    assert lines.feed(b"3\nnext\n") == [b"next"]
    assert lines.feed(b"12345678901\n1234567890\n") == [None, b"1234567890"]


def test_reads_every_kind_of_message() -> None:
    assert frames.read(b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":[1]}}') == JSONRPCRequest(
        jsonrpc="2.0", id="a", method="m", params={"x": [1]}
    )
    assert isinstance(frames.read(b'{"jsonrpc":"2.0","method":"m"}'), JSONRPCNotification)
    assert isinstance(frames.read(b'{"jsonrpc":"2.0","id":1,"result":{}}\r'), JSONRPCResponse)
    assert isinstance(frames.read(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}'), JSONRPCError)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "syntax error"),
        (b'{"a":1', "syntax error"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e400}', "a number is too large"),
        (b'{"a":' + b"9" * 5000 + b"}", "does not fit into 64 bits"),
        (b'{"a":1,"a":2}', "same key twice"),
        (b'{"a":"\\ud800"}', "a lone surrogate"),
        (b'{"a":{"\\udc00":1}}', "a lone surrogate"),
        (b'{"a":"\\u0000"}', "NUL"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "UTF-8"),
        (b'{"a":"\xff"}', "UTF-8"),
        (nested(63), "nested deeper than 64 levels"),
        (nested(1_500), "nested deeper than 64 levels"),
        (nested(50_000), "nested deeper than 64 levels"),
    ],
)
def test_answers_what_is_not_plain_json_with_a_parse_error(line: bytes, why: str) -> None:
    answer = refused(line)
    assert answer.error.code == PARSE_ERROR
    assert why in answer.error.message


@pytest.mark.parametrize(
    ("params", "request_id", "told"),
    [
        ('{"a":"\\u0000"}', "7", 7),
        ('{"a":"\\ud800"}', '"x"', "x"),
        ('{"a":1,"a":2}', "7", None),
        ('{"a":NaN}', "7", None),
        ('{"a":["\\u0000",' + "[" * 50_000, "7", None),
        ('{"a":"\\u0000"}', '"\\ud800"', None),
        ('{"a":"\\u0000"}', "true", None),
        ('{"a":"\\u0000"}', "9" * 30, None),
        ('{"a":"\\u0000"}', "[1]", None),
        ('{"a":"\\u0000' + "b" * frames.MOST_SCANNED + '"}', "7", None),
    ],
)
def test_answers_a_request_with_a_character_that_it_will_not_read_by_its_id(
    params: str, request_id: str, told: int | str | None
) -> None:
    """Its sender waits for an answer to it, and for no other."""
    answer = refused(f'{{"jsonrpc":"2.0","id":{request_id},"method":"m","params":{params}}}'.encode())
    assert (answer.id, answer.error.code) == (told, PARSE_ERROR)


def test_reads_what_looks_dangerous_and_is_not() -> None:
    escapes = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\ud83d\\ude00 \\\\u0000 [[[["}}'
    message = frames.read(escapes)
    assert isinstance(message, JSONRPCRequest)
    assert message.params == {"a": "😀 \\u0000 [[[["}
    assert isinstance(frames.read(nested(62)), JSONRPCRequest)


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
        (b"[]", None),
        (b"17", None),
        (b"null", None),
        (b"{}", None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7),
        (b'{"id":"x","method":"ping"}', "x"),
        (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}', 8),
        (b'{"jsonrpc":"2.0","id":9,"method":5}', 9),
        (b'{"jsonrpc":"2.0","id":9,"result":5}', None),
    ],
)
def test_answers_json_that_is_no_message_under_its_id_where_it_has_one(line: bytes, request_id: object) -> None:
    answer = refused(line)
    assert (answer.id, answer.error.code) == (request_id, INVALID_REQUEST)


def test_a_batch_is_refused_in_words() -> None:
    assert "batches are not supported" in refused(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]').error.message


@given(st.binary(max_size=200))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    try:
        message = frames.read(line)
    except InvalidMessage as fault:
        message = fault.answer
    assert json.loads(frames.write(message))["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    ("result", "written"),
    [
        ({"a": "ü\n"}, {"a": "ü\n"}),
        ({"a": 10**30}, {"a": 10**30}),
        ({"a": float("nan")}, {"a": None}),
        ({"a": "\ud800"}, {"a": "?"}),
        ({"a": datetime(2026, 1, 2, tzinfo=UTC)}, {"a": "2026-01-02T00:00:00Z"}),
        ({"a": {1}, "b": object}, None),
    ],
)
def test_writes_any_result_as_one_line_of_json(result: dict[str, Any], written: object) -> None:
    line = frames.write(JSONRPCResponse(jsonrpc="2.0", id=1, result=result))
    assert line.count(b"\n") == 1
    message = json.loads(line)
    assert message["id"] == 1
    if written is not None:
        assert message["result"] == written


def test_leaves_out_what_was_not_set() -> None:
    assert json.loads(frames.write(JSONRPCNotification(jsonrpc="2.0", method="m"))) == {"jsonrpc": "2.0", "method": "m"}
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=1, message="m"))
    assert json.loads(frames.write(error)) == {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}}
