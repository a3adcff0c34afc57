"""Sessions over pipes, as child processes have them: what they write, what they do not read, how they end."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.support import mcp_upstream
from tests.support.mcp_upstream import tool
from tests.upstream.conftest import until
from tools_app.upstream import session as sessions
from tools_app.upstream.lines import LineTransport
from tools_app.upstream.links import Link, PendingRequest, opened
from tools_app.upstream.listing import listed
from tools_app.upstream.session import Session
from tools_app.upstream.wire import MOST_PER_SECOND, Broken, Pace, TooLong, lines_of

pytestmark = pytest.mark.anyio

TOOLS = [tool("echo"), tool("odd"), tool("slow")]


class Pipes:
    """Starts the server again at each connection."""

    def __init__(self, **options: Any) -> None:
        self.command = mcp_upstream.command(**{"tools": TOOLS, **options})
        self.era = ""
        self.changes = 0
        self.starts = 0
        self.transport: LineTransport | None = None
        self.process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Link]:
        self.starts += 1
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.transport = LineTransport(process.stdout, process.stdin)
        try:
            async with opened(self.transport, era=self.era, seconds=20, on_change=self.changed) as link:
                yield link
        finally:
            if process.returncode is None:
                process.kill()
            # Otherwise `wait` waits for what was written and is not read any more.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()

    def changed(self) -> None:
        self.changes += 1


@asynccontextmanager
async def session(pipes: Pipes) -> AsyncIterator[Session]:
    one = Session("up", pipes.open, pipes.changed)
    yield one
    await one.close()


def asked(seconds: float = 20.0, **options: Any) -> PendingRequest:
    deadline = time.monotonic() + seconds
    return PendingRequest(lambda: max(0.0, deadline - time.monotonic()), **options)


async def called(one: Session, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
    request = options.pop("asked", None) or asked(**options)
    result = await one.ask("tools/call", {"name": name, "arguments": arguments or {}}, request)
    return json.loads(result["content"][0]["text"])


@pytest.mark.parametrize("eras", [("legacy",), ("modern",), ("legacy", "modern")])
async def test_calls_in_each_era(eras: tuple[str, ...]) -> None:
    pipes = Pipes(eras=eras)
    async with session(pipes) as one:
        results = await asyncio.gather(*(called(one, "echo", {"n": number}) for number in range(20)))
        assert results == [{"n": number} for number in range(20)]
    assert pipes.starts == 1


@pytest.mark.parametrize(
    "raw",
    [
        ["\xff\xfe not UTF-8", "not JSON", '{"json": "but no message"}', "", "[]", "null"],
        ['{"jsonrpc": "2.0", "id": 999999, "result": {}}', '{"jsonrpc":"2.0","id":null,"result":{}}'],
        ['{"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": {"a": 1}}'],
        ["[" * 100_000],
    ],
)
async def test_lines_that_are_no_messages_make_no_session_deaf(raw: list[str]) -> None:
    pipes = Pipes(behaviours={"odd": {"raw": raw}})
    async with session(pipes) as one:
        assert await called(one, "odd", {"a": 1}) == {"a": 1}
        assert await called(one, "echo") == {}
    assert pipes.starts == 1


async def test_a_line_without_end_ends_the_connection_and_the_next_call_has_another() -> None:
    pipes = Pipes(behaviours={"odd": {"big": 20_000_000}})
    async with session(pipes) as one:
        with pytest.raises(Broken, match="more than 16,777,216 bytes") as caught:
            await called(one, "odd")
        assert caught.value.sent == "maybe"
        assert await called(one, "echo") == {}
    assert pipes.starts == 2


async def test_large_answers_pass() -> None:
    async with session(Pipes()) as one:
        assert len((await called(one, "echo", {"text": "x" * 5_000_000}))["text"]) == 5_000_000


async def test_a_flood_of_messages_is_dropped_and_delays_nothing_for_long() -> None:
    pipes = Pipes(behaviours={"odd": {"log": 20_000}})
    heard: list[Any] = []
    async with session(pipes) as one:
        assert await called(one, "odd", asked=asked(log=heard.append)) == {}
    assert 0 < len(heard) < 2_000


@pytest.mark.parametrize("padding", [0, 300, 40_000])
async def test_the_order_of_keys_does_not_get_a_flood_past_its_limit(padding: int) -> None:
    params = b'{"jsonrpc":"2.0","params":{"x":"%b"},"method":"notifications/tools/list_changed"}' % (b"x" * padding)
    pace = Pace()
    began = time.monotonic()
    for _ in range(MOST_PER_SECOND + 1):
        assert await pace.admits(params)
    assert time.monotonic() - began >= 1
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": 'a "method" of '}}).encode()
    assert await pace.admits(answer)


async def test_a_child_that_ends_fails_its_calls_at_once_and_is_started_again() -> None:
    pipes = Pipes(behaviours={"odd": {"die": True}})
    async with session(pipes) as one:
        request = asked()
        with pytest.raises(Broken) as caught:
            await called(one, "odd", asked=request)
        assert caught.value.sent == request.sent == "maybe"
        assert await called(one, "echo") == {}
        # While its connection ends, calls wait for the next one.
        for _ in range(3):
            task = asyncio.create_task(called(one, "odd"))
            await asyncio.wait({task})
            assert isinstance(task.exception(), Broken)
            assert await called(one, "echo") == {}
    assert pipes.starts == 5


async def test_a_child_that_does_not_read_holds_up_no_deadline(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pipes = Pipes(behaviours={"odd": {"deaf": True}}, log=str(log))
    async with session(pipes) as one:
        await called(one, "odd")
        big = asyncio.create_task(called(one, "echo", {"text": "x" * 5_000_000}))
        began = time.monotonic()
        done, _ = await asyncio.wait({big}, timeout=0.3)
        assert not done
        big.cancel()
        await asyncio.wait({big})
        assert time.monotonic() - began < 30
        # Behind it, nothing is sent any more, and it is known.
        request = asked(0.3)
        with pytest.raises(Broken, match="does not read") as caught:
            await called(one, "echo", asked=request)
        assert caught.value.sent == request.sent == "no"
    assert log.read_text().split() == ["odd"]


async def test_a_request_that_was_given_up_in_the_queue_is_never_sent(tmp_path: Path) -> None:
    """The queue behind a slow pipe: what its caller does not wait for any more must not run later."""
    log = tmp_path / "log"
    pipes = Pipes(log=str(log))
    async with session(pipes) as one:
        await called(one, "echo")
        assert pipes.process is not None
        pipes.process.send_signal(19)  # SIGSTOP
        first = asyncio.create_task(called(one, "slow", {"text": "x" * 2_000_000}))
        await asyncio.sleep(0.1)
        with pytest.raises(Broken, match="does not read"):
            await called(one, "odd", seconds=0.2)
        pipes.process.send_signal(18)  # SIGCONT
        await first
        assert await called(one, "echo") == {}
    assert log.read_text().split() == ["echo", "slow", "echo"]


async def test_a_server_that_is_deaf_after_a_cancelled_call_is_connected_to_anew(monkeypatch: Any) -> None:
    monkeypatch.setattr(sessions, "DOUBT_SECONDS", 0.01)
    monkeypatch.setattr(sessions, "PING_SECONDS", 0.3)
    pipes = Pipes(behaviours={"odd": {"deaf": True}}, eras=("legacy",))
    async with session(pipes) as one:
        await called(one, "odd")
        task = asyncio.create_task(called(one, "echo"))
        await until(lambda: pipes.transport is not None and pipes.transport.fates)
        task.cancel()
        await asyncio.wait({task})
        # Nobody calls meanwhile.
        await until(lambda: pipes.starts == 2)
        assert await called(one, "echo") == {}


async def test_a_cancelled_call_is_cancelled_there_and_the_session_stays() -> None:
    pipes = Pipes(behaviours={"slow": {"hang": True}})
    async with session(pipes) as one:
        task = asyncio.create_task(called(one, "slow"))
        await until(lambda: one.is_busy)
        await called(one, "echo")
        task.cancel()
        await asyncio.wait({task})
        assert await called(one, "echo") == {}
    assert pipes.starts == 1


@pytest.mark.parametrize("eras", [("legacy",), ("modern",)])
async def test_changes_are_announced_in_each_era(tmp_path: Path, eras: tuple[str, ...]) -> None:
    state = tmp_path / "state"
    state.write_text(json.dumps({"tools": TOOLS}))
    pipes = Pipes(eras=eras, state=str(state))
    async with session(pipes) as one:
        await called(one, "echo")
        changes = pipes.changes
        # Again until it is heard: when the server has got the subscription is not known.
        async with asyncio.timeout(20):
            for number in itertools.count():
                state.write_text(json.dumps({"tools": [tool(f"other{number}")]}))
                await asyncio.sleep(0.1)
                if pipes.changes > changes:
                    break


async def test_a_listing_has_everything_as_it_came() -> None:
    odd = {"name": "x", "inputSchema": {"properties": {}}, "x_vendor": [1], "annotations": {"moodHint": "good"}}
    pipes = Pipes(tools=[odd, {"no": "name"}, 7], instructions="Read me.", newest="2025-03-26", eras=("legacy",))
    async with pipes.open() as link:
        listing = await listed(link)
    assert listing.tools == [odd, {"no": "name"}, 7]
    assert (listing.instructions, listing.era, listing.server) == ("Read me.", "2025-03-26", "fake 1.0")
    assert listing.capabilities["tools"] == {"listChanged": True}
    assert not listing.unstable


async def test_a_server_that_never_speaks_is_given_up() -> None:
    pipes = Pipes(wait=60)
    reader_of: Callable[[], Any] = pipes.open
    one = Session("up", reader_of, pipes.changed)
    with pytest.raises(Broken, match="not answered yet") as caught:
        await called(one, "echo", seconds=0.5)
    assert caught.value.is_starting
    began = time.monotonic()
    await one.close()
    assert time.monotonic() - began < 30


async def test_an_error_with_the_code_of_a_closed_connection_is_only_an_error() -> None:
    pipes = Pipes(behaviours={"odd": {"error": [-32000, "busy"]}})
    async with session(pipes) as one:
        with pytest.raises(MCPError, match="busy"):
            await called(one, "odd")
        assert await called(one, "echo") == {}
    assert pipes.starts == 1


async def test_a_session_without_calls_ends_and_comes_back() -> None:
    pipes = Pipes()
    one = Session("up", pipes.open, pipes.changed, idle_seconds=0.2)
    await called(one, "echo")
    await until(lambda: one.is_unused)
    assert pipes.process is not None
    assert pipes.process.returncode is not None
    assert await called(one, "echo") == {}
    assert pipes.starts == 2
    await one.close()


async def test_a_session_that_is_kept_is_opened_again_by_itself() -> None:
    pipes = Pipes()
    one = Session("up", pipes.open, pipes.changed, is_kept=True, idle_seconds=0.1)
    await called(one, "echo")
    assert pipes.process is not None
    pipes.process.kill()
    await until(lambda: pipes.starts == 2)
    await one.close()


async def test_a_program_that_cannot_start_is_tried_again_with_pauses() -> None:
    pipes = Pipes()
    pipes.command = [sys.executable, "-c", "raise SystemExit(1)"]
    one = Session("up", pipes.open, pipes.changed)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(Broken) as caught:
            await called(one, "echo")
        assert caught.value.sent == "no"
    assert pipes.starts == 3
    # 0.5 and 1 s, less a fifth.
    assert time.monotonic() - began > 1.1
    await one.close()


# ---- lines


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_lines_in_pieces() -> None:
    found = [line async for line in lines_of(chunks(b"a", b"b\nc\n", b"", b"\n\nd", b"e\r\n", b"rest"))]
    assert found == [b"ab", b"c", b"", b"", b"de\r"]


async def test_a_line_is_limited_while_it_comes() -> None:
    with pytest.raises(TooLong):
        [line async for line in lines_of(chunks(*[b"x" * 10] * 11), 100)]
    assert len([line async for line in lines_of(chunks(b"\n".join([b"x" * 90] * 1000) + b"\n"), 100)]) == 1000
