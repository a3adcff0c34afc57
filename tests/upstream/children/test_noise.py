"""Children that send what they should not."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from tests.upstream.children.support import Den, opened, origin
from tools_app.upstream import children
from tools_app.upstream.children.supervisor import messages
from tools_app.upstream.children.supervisor.lines import Lines

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("streams_closed")]
MEGABYTE = 1024 * 1024


async def test_lines_that_are_no_messages_are_dropped(den: Den) -> None:
    client = await opened(origin("banner"))
    assert await client.call("garbage") == "behind it"
    assert client.others == []
    assert await client.call("echo", text="x") == "x"


async def test_large_answers_pass_and_larger_ones_are_errors(den: Den) -> None:
    client, other = await opened(origin()), await opened(origin(name="other"))
    client.reader._limit = 64 * MEGABYTE  # type: ignore[attr-defined]
    assert len(await client.call("big", bytes=15 * MEGABYTE)) == 15 * MEGABYTE
    large = client.begin("big", bytes=100 * MEGABYTE)
    while large not in client._answers:
        # Meanwhile others are served.
        assert await other.call("echo", text="x") == "x"
        try:
            async with asyncio.timeout(0.01):
                message = await client.read()
                assert message is not None
                client._answers[message["id"]] = message
        except TimeoutError:
            continue
    assert client._answers[large]["error"]["message"] == "the answer of the server is longer than 16 MiB"
    assert await client.call("echo", text="x") == "x"


async def test_a_flood_of_log_messages_delays_no_answer_for_long(den: Den) -> None:
    client, other = await opened(origin()), await opened(origin(name="other"))
    flooding = client.begin("flood", lines=20_000)
    for _ in range(20):
        assert await other.call("echo", text="x") == "x"
    assert "result" in await client.answer(flooding)
    assert 0 < len(client.others) < 10_000, "most are dropped"


async def test_standard_error_is_read_and_its_end_is_kept(den: Den) -> None:
    client = await opened(origin())
    assert await client.call("stderr", lines=5_000) == "behind it"
    status = await children.status("double")
    assert status is not None
    assert (len(status.lines), len(status.lines[0])) == (200, 1_000)


async def test_a_child_that_does_not_read_stops_its_own_clients_only(den: Den) -> None:
    client, other = await opened(origin()), await opened(origin(name="other"))
    assert await client.call("deaf") == "no more reading"
    for _ in range(40):
        client.begin("echo", text="y" * MEGABYTE)
    for _ in range(20):
        assert await other.call("echo", text="x") == "x"
    # What it has not read stays with the client, not in the supervisor.
    assert client.writer.transport.get_write_buffer_size() > 10 * MEGABYTE
    assert all(_memory(pid) < 100 for pid in den.supervisors())
    await children.stop("double")
    await client.ended()


def _memory(pid: int) -> float:
    """In MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _keep(kept: list[tuple[bytes, bytes]], head: bytes, tail: bytes) -> None:
    kept.append((head, tail))


def test_lines_are_whole_however_they_are_cut() -> None:
    text = b"one\n\n  \ntwo\r\n" + b"x" * 50 + b"\nthree\n" + b"y" * 20 + b"\nfour"
    for size in range(1, len(text)):
        skipped: list[tuple[bytes, bytes]] = []
        lines = Lines(partial(_keep, skipped), 20)
        found = [line for start in range(0, len(text), size) for line in lines.feed(text[start : start + size])]
        found += lines.feed(b"\n")
        if size < 30:  # a line within one chunk is taken as it is
            assert [head for head, _ in skipped] == [b"x" * len(skipped[0][0])]
            assert len(skipped[0][0]) > 20
            assert found == [b"one", b"two\r", b"three", b"y" * 20, b"four"]


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"id":3}}', 12),
        (b' { "id" : 12 , "jsonrpc" : "2.0" , "error" : {}} ', 12),
        (b'{"result":{"id":3},"jsonrpc":"2.0","id":12}\r', 12),
        (b'{"jsonrpc":"2.0","result":"a,\\"id\\":3}","id":12}', 12),
        (b'{"result":null,"id":12,"jsonrpc":"2.0"}', 12),
        (b'{"jsonrpc":"2.0","result":{"jsonrpc":"2.0","id":12}}', None),
        (b'{"jsonrpc":"2.0","result":{"x":"y"},"z":[{"a":1,"id":12}]}', None),
        (b'{"jsonrpc":"2.0","id":12,"method":"ping"}', None),
        (b'{"method":"a","params":{"b":1,"id":12}}', None),
        (b'{"result":"{\\"x\\":1,\\"id\\":12}"}', None),
    ],
)
def test_the_id_of_an_answer_is_found_without_parsing(line: bytes, number: int | None) -> None:
    found = messages.answered(line)
    assert (found and found[0]) == number
    if found:
        assert line[found[1] : found[2]] == b"12"
