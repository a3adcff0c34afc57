"""The transport: everything is answered, nothing piles up, and it ends in time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import to_thread
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tools_app.mcp_server import frames, pipes
from tools_app.mcp_server.pipes import Pipes

pytestmark = pytest.mark.anyio

# What a loaded machine may take for what comes at once.
LONG = 30.0
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


class Client:
    """The other end of both pipes."""

    def __init__(self) -> None:
        self.readable, self.to_client = os.pipe()
        self.from_client, self.writable = os.pipe()
        self._open = {self.readable, self.writable}
        self._rest = b""

    def send(self, data: bytes) -> None:
        os.write(self.writable, data)

    async def send_all(self, data: bytes) -> None:
        """More than a pipe holds at once."""
        view = memoryview(data)
        while view:
            view = view[await to_thread.run_sync(os.write, self.writable, view[:32768]) :]

    async def send_ahead(self) -> int:
        """Write as much as the pipe buffers without a reader; return that size."""
        line = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"' + b"x" * 30_000 + b'"}}\n'
        sent = 0
        os.set_blocking(self.writable, False)
        with anyio.move_on_after(0.2) as waiting:
            while True:
                await anyio.wait_writable(self.writable)
                sent += os.write(self.writable, line)
                waiting.deadline = anyio.current_time() + 0.2
        return sent

    async def receive(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await to_thread.run_sync(os.read, self.readable, 65536)
        line, self._rest = self._rest.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors or tuple(self._open):
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.close(descriptor)


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Client, Pipes]]:
    client, served = Client(), Pipes(**options)
    await served.connect(client.from_client, client.to_client)
    try:
        with anyio.fail_after(5):
            yield client, served
    finally:
        client.close()
        await served.close()


async def request_id(served: Pipes) -> object:
    message = (await served.receive()).message
    assert isinstance(message, JSONRPCRequest)
    return message.id


def answer(number: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text}))


async def test_carries_requests_in_and_answers_out() -> None:
    async with connected() as (client, served):
        client.send(PING % 1 + PING % 2)
        assert [await request_id(served), await request_id(served)] == [1, 2]
        await served.send(answer(2, "two"))
        assert await client.receive() == {"jsonrpc": "2.0", "id": 2, "result": {"text": "two"}}


async def test_answers_unreadable_input_and_continues() -> None:
    async with connected() as (client, served):
        client.send(b"what?\n\n[" + (PING % 1).strip() + b"]\n" + PING % 2)
        assert await request_id(served) == 2
        assert (await client.receive())["error"]["code"] == PARSE_ERROR
        batch = await client.receive()
        assert (batch["id"], batch["error"]["code"]) == (None, INVALID_REQUEST)


async def test_answers_a_line_that_is_too_long_without_waiting_for_its_end() -> None:
    async with connected() as (client, served), anyio.create_task_group() as tasks:
        found: list[object] = []

        async def read() -> None:
            found.append(await request_id(served))

        tasks.start_soon(read)
        await client.send_all(b'{"a":"' + b"x" * frames.MAX_LINE)
        refused = await client.receive()
        assert (refused["id"], refused["error"]["code"]) == (None, INVALID_REQUEST)
        assert "4,194,304 bytes" in refused["error"]["message"]
        assert found == []
        client.send(b'xxx"}\n' + PING % 5)
    assert found == [5]


async def test_reads_a_last_line_that_lacks_its_end() -> None:
    async with connected() as (client, served):
        client.send((PING % 1).strip())
        client.close(client.writable)
        assert await request_id(served) == 1


async def test_ends_with_the_client() -> None:
    left: list[bool] = []
    async with connected(on_leave=lambda: left.append(True)) as (client, served):
        client.close(client.writable)
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        assert left == [True]
        assert [item async for item in served] == []


async def test_answers_what_was_asked_before_the_client_closed_its_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "ANSWER_SECONDS", 2 * LONG)
    async with connected() as (client, served), anyio.create_task_group() as tasks:
        client.send(
            PING % 1 + PING % 2 + b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}\n'
        )
        client.close(client.writable)
        assert [await request_id(served), await request_id(served)] == [1, 2]
        assert isinstance((await served.receive()).message, JSONRPCNotification)

        async def answer_in_the_end() -> None:
            await anyio.lowlevel.checkpoint()
            await served.send(answer(1))

        tasks.start_soon(answer_in_the_end)
        begun = anyio.current_time()
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        assert anyio.current_time() - begun < LONG
        assert (await client.receive())["id"] == 1


async def test_does_not_wait_for_long_for_an_answer_that_does_not_come() -> None:
    async with connected() as (client, served):
        client.send(PING % 1)
        client.close(client.writable)
        assert await request_id(served) == 1
        begun = anyio.current_time()
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        assert pipes.ANSWER_SECONDS <= anyio.current_time() - begun < LONG


async def test_ends_when_the_reader_is_gone() -> None:
    async with connected() as (client, served):
        client.close(client.readable)
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await served.send(answer(1))


async def test_ends_when_it_is_stopped_despite_pending_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "ANSWER_SECONDS", 2 * LONG)
    async with connected() as (client, served):
        client.send(PING % 1)
        assert await request_id(served) == 1
        client.send(PING % 2)
        served.stop()
        begun = anyio.current_time()
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        assert anyio.current_time() - begun < LONG


async def test_reads_nothing_more_from_a_client_that_does_not_take_its_answers() -> None:
    big = "x" * 100_000
    async with connected() as (client, served):
        sent = 0
        with anyio.move_on_after(0.1):
            while True:
                await served.send(answer(sent, big))
                sent += 1
        assert pipes.MOST_UNSENT / 100_000 <= sent <= (pipes.MOST_UNSENT + 1_000_000) / 100_000
        client.send(PING % 1)
        with anyio.move_on_after(0.1) as waited:
            await served.receive()
        assert waited.cancelled_caught
        for number in range(sent):
            assert (await client.receive())["id"] == number
        assert await request_id(served) == 1


async def test_reads_nothing_more_while_very_many_requests_are_open() -> None:
    async with connected() as (client, served):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send_all, b"".join(PING % number for number in range(pipes.MOST_OPEN + 1)))
            for number in range(pipes.MOST_OPEN):
                assert await request_id(served) == number
        with anyio.move_on_after(0.1) as waited:
            await served.receive()
        assert waited.cancelled_caught
        await served.send(answer(7))
        assert await request_id(served) == pipes.MOST_OPEN


async def test_holds_only_so_much_of_what_a_client_sends_ahead() -> None:
    async with connected() as (client, _):
        assert frames.MAX_LINE <= await client.send_ahead() < 2 * frames.MAX_LINE


async def test_notices_when_a_client_leaves_that_is_not_read_from() -> None:
    async with connected() as (client, served):
        await client.send_ahead()
        client.close(client.writable)
        with anyio.move_on_after(0.1):
            while True:
                await served.send(answer(1, "x" * 100_000))
        begun = anyio.current_time()
        with pytest.raises(anyio.EndOfStream):
            await served.receive()
        assert anyio.current_time() - begun < LONG


async def test_ends_in_time_when_the_client_neither_reads_nor_leaves() -> None:
    client, served = Client(), Pipes()
    await served.connect(client.from_client, client.to_client)
    with anyio.move_on_after(0.1):
        while True:
            await served.send(answer(1, "x" * 100_000))
    served.stop()
    begun = anyio.current_time()
    await served.send(answer(2, "x" * 100_000))
    await served.close()
    assert anyio.current_time() - begun < LONG
    client.close()


async def test_files_can_replace_pipes() -> None:
    with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as answers:
        questions.write(PING % 1 + b"nonsense")
        questions.seek(0)
        served = Pipes()
        await served.connect(os.dup(questions.fileno()), os.dup(answers.fileno()))
        with anyio.fail_after(5):
            assert await request_id(served) == 1
            await served.send(answer(1))
            with pytest.raises(anyio.EndOfStream):
                await served.receive()
            await served.close()
        answers.seek(0)
        assert [json.loads(line).get("id") for line in answers] == [1, None]
