"""The event loop stays free and deadlines are kept for any response within the limits."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from tests.http.conftest import Client
from tests.support import lag
from tests.support.faultd import Faultd, Wire
from tests.support.tools import Hub
from tools_app import engine
from tools_app.http import ApiClient, bodies
from tools_app.http.responses import Reads
from tools_app.packs.n8n import workflows
from tools_app.sdk import heavy
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack

MANY = 390_000


def many(item: bytes, *, beginning: bytes = b"[", end: bytes = b"]", number: int = MANY) -> bytes:
    return beginning + b",".join([item] * number) + end


# Each is within the limits of size, depth and number of values.
LARGE: dict[str, Callable[[], bytes]] = {
    "objects": lambda: many(b"{}", beginning=b'{"data":[', end=b"]}"),
    "lists": lambda: many(b"[]"),
    "numbers": lambda: many(b"1.5e3"),
    "texts": lambda: many(b'"abc"'),
    "keys": lambda: b"{" + b",".join(b'"k%d":null' % number for number in range(MANY)) + b"}",
    "hidden": lambda: json.dumps(["\u200b" * 9] * (MANY // 10)).encode(),
}


def answers(upstream: Faultd, name: str, body: bytes, *headers: str) -> None:
    async def answer(wire: Wire) -> None:
        await wire.answer(body, headers=headers)

    upstream.answer(name, answer)


# ---- compression


def hollow(times: int) -> bytes:
    """A gzip stream that begins with the name of a file, which does not end, packed as often again."""
    body = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03" + b"a" * (20 * 1024 * 1024)
    for _ in range(times):
        body = gzip.compress(body)
    return body


@pytest.mark.anyio
async def test_what_is_compressed_more_than_once_is_refused_unread(client: Client, upstream: Faultd) -> None:
    answers(upstream, "nested", hollow(2), "Content-Encoding: gzip, gzip, gzip")

    async def read() -> None:
        with pytest.raises(ToolError, match="the response of Faultd is compressed more than once"):
            await client("nested").get("a", operation="get a")

    assert not await lag.stalls(read)


@pytest.mark.anyio
async def test_a_deadline_ends_what_becomes_of_one_chunk() -> None:
    maker = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = b"".join(maker.compress(bytes(1024 * 1024)) for _ in range(200)) + maker.flush()

    async def chunks() -> AsyncIterator[bytes]:
        yield bomb

    async with AsyncExitStack() as held:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await bodies.collect(chunks(), "gzip", "", 1024 * 1024 * 1024, held)


class Turns:
    """How often others on the loop had their turn."""

    number = 0

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.number += 1


@asynccontextmanager
async def counted() -> AsyncIterator[Turns]:
    turns = Turns()
    counting = asyncio.create_task(turns.count())
    try:
        yield turns
    finally:
        counting.cancel()


@pytest.mark.anyio
async def test_neither_tiny_chunks_nor_a_large_text_take_all_turns() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(300_000):
            yield b"a"

    async with counted() as turns, AsyncExitStack() as held:
        assert len(await bodies.collect(chunks(), "", "", 1024 * 1024, held)) == 300_000
        assert turns.number >= 1
    both: tuple[Reads, ...] = ("json", "text")
    for reads in both:
        async with counted() as turns:
            await bodies.read(LARGE["texts"](), reads, "")
            assert turns.number >= 1


@pytest.mark.anyio
async def test_a_name_without_an_end_is_counted_as_it_arrives(client: Client, upstream: Faultd) -> None:
    answers(upstream, "name", hollow(0), "Content-Encoding: gzip")
    with pytest.raises(ToolError, match="is too large: more than 10 MiB"):
        await client("name").get("a", operation="get a")


@pytest.mark.anyio
async def test_tiny_chunks_leave_others_their_turn(client: Client, upstream: Faultd) -> None:
    async def drip(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        await wire.send(b'1\r\n"\r\n' + b"1\r\na\r\n" * 200_000 + b'1\r\n"\r\n0\r\n\r\n')

    upstream.answer("tiny", drip)

    async def read() -> None:
        assert len(await client("tiny", timeout=60).get("a", operation="get a")) == 200_000

    assert not await lag.stalls(read)


# ---- many values


@pytest.mark.anyio
@pytest.mark.parametrize("name", LARGE)
async def test_reading_leaves_others_their_turn(client: Client, upstream: Faultd, name: str) -> None:
    answers(upstream, name, LARGE[name]())
    assert not await lag.stalls(lambda: client(name, timeout=60).get("a", operation="get a"))
    assert gc.isenabled()


@pytest.fixture
def pack(hub: Hub, upstream: Faultd) -> Pack:
    pack = Pack("stalls")

    @pack.tool(hints=Hints(read_only=True))
    async def get_all(ctx: Context, fault: str) -> object:
        """Get everything."""
        api = ApiClient(f"{upstream.url}/{fault}", name="Faultd").for_call(ctx.call_id, ctx.remaining)
        try:
            return await api.get("a", operation="get all")
        finally:
            await api.close()

    hub.add(get_all)
    return pack


async def call_stalls(tool: str, arguments: dict[str, Any], caller: Caller) -> bool:
    engine.adopt_running_loop()
    options = engine.Options(timeout_ms=60_000)

    async def call() -> None:
        # Some are too large to be sent on; that is said after all the work.
        with suppress(ToolError):
            await engine.call(tool, arguments, caller, door="code", options=options)

    try:
        return await lag.stalls(call)
    finally:
        await engine.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", LARGE)
def test_a_call_leaves_others_their_turn(pack: Pack, upstream: Faultd, alice: Caller, name: str) -> None:
    answers(upstream, name, LARGE[name]())
    assert not asyncio.run(call_stalls("get_all", {"fault": name}, alice))


@pytest.mark.django_db(transaction=True)
def test_a_large_answer_gets_its_form_in_a_thread_and_a_small_one_at_once(hub: Hub, alice: Caller) -> None:
    threads: list[str] = []

    def short(full: list[int]) -> int:
        threads.append(threading.current_thread().name)
        return len(full)

    @Pack("sizes").tool(hints=Hints(read_only=True, open_world=False), minimal=short)
    async def count_to(number: int) -> list[int]:
        """Count."""
        return list(range(number))

    hub.add(count_to)
    for number in (10, 100_000):
        engine.call_sync("count_to", {"number": number}, alice, door="code")
    small, large = threads
    assert "heavy" not in small
    assert "heavy" in large


@pytest.mark.django_db(transaction=True)
def test_a_page_with_far_too_many_workflows_leaves_others_their_turn(
    hub: Hub, upstream: Faultd, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("N8N_URL", upstream.url)
    monkeypatch.setenv("N8N_API_KEY", "a-key-of-this-test")
    monkeypatch.setenv("N8N_ALLOW_HTTP", "true")
    hub.add(workflows.list_workflows)
    answers(upstream, "api", LARGE["objects"]())
    assert not asyncio.run(call_stalls("list_workflows", {}, alice))
    assert upstream.requests, "it was asked"


# ---- what is large


class Slotted:
    __slots__ = ("inside",)


class Open:
    def __init__(self, inside: object) -> None:
        self.inside = inside


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, False),
        (["x"] * heavy.VALUES, False),
        (["x"] * (heavy.VALUES + 1), True),
        ([{} for _ in range(heavy.VALUES + 1)], True),
        ("x" * heavy.LARGE_BYTES, False),
        ({"a": "x" * (heavy.LARGE_BYTES + 1)}, True),
        ({"x" * heavy.LARGE_BYTES: "x"}, True),
        (Open("x"), False),
        (Open(["x"] * (heavy.VALUES + 1)), True),
        (Slotted(), True),
    ],
)
def test_what_takes_long_is_known_before(value: object, large: bool) -> None:
    assert heavy.is_large(value) == large


@pytest.mark.anyio
async def test_what_stops_an_iteration_does_not_stop_the_call() -> None:
    def stop() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await heavy.aside(stop)
