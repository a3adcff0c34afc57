"""Clients that connect and never leave: their state is bounded, and later clients get the reason."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HELLO, HttpAgent
from tests.support.processes import Home, Server, key_in

pytestmark = pytest.mark.mcp

MIB = 1024 * 1024
LISTENING = 700
LISTENING_OF_ONE = 100
AT_ONCE = 32
# With what a hub loads by itself in its first seconds: 3 MiB.
MOST_GROWN = 55 * MIB


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", {"TOOLHUB_KEY_RATE_CALLS": "0", "LOG_LEVEL": "error"})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@pytest.fixture
def key(home: Home) -> str:
    return key_in(home.run("addkey", "crowd").stdout)


def test_ten_thousand_handshakes_cost_no_more_than_the_session_limit(server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent:
        agent.connect()
        first, agent.session = agent.session, None
        hello = agent.message("initialize", HELLO)

        async def handshake(crowd: Crowd) -> str:
            reader, writer, status = await opened(server, agent, hello)
            await reader.read()
            await crowd.sees_off(writer)
            return status

        found, grown = all_at_once(handshake, 10_000, server)
        assert found == {"200 OK": 10_000}
        assert grown < MOST_GROWN
        agent.connect()
        assert "echo" in agent.names()
        agent.session = first
        assert agent.send(agent.message("tools/list")).status_code == 404, "the one unused longest is gone"


def test_of_five_thousand_subscriptions_those_above_the_limit_are_refused(home: Home, server: Server, key: str) -> None:
    keys = [key_in(home.run("addkey", f"crowd-{number}").stdout) for number in range(LISTENING // LISTENING_OF_ONE + 1)]
    with contextlib.ExitStack() as entered:
        agent, *agents = [entered.enter_context(HttpAgent(server.url, each, MODERN)) for each in (key, *keys)]
        assert "echo" in agent.names()
        listen = agent.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        turns = itertools.cycle(agents)

        async def subscribe(crowd: Crowd) -> str:
            reader, writer, _ = await opened(server, next(turns), listen)
            first = await reader.readuntil(b"}")
            if b"acknowledged" in first:
                crowd.stays(writer)
                return "listening"
            await crowd.sees_off(writer)
            return "refused" if b"Too many subscriptions" in first else repr(first)

        found, grown = all_at_once(subscribe, 5_000, server)
        assert found == {"listening": LISTENING, "refused": 5_000 - LISTENING}
        assert grown < MOST_GROWN
        assert "echo" in agent.names()


def test_one_key_has_a_share_of_the_subscriptions(server: Server, key: str) -> None:
    with HttpAgent(server.url, key, MODERN) as agent:
        listen = agent.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})

        async def subscribe(crowd: Crowd) -> str:
            reader, writer, _ = await opened(server, agent, listen)
            first = await reader.readuntil(b"}")
            if b"acknowledged" in first:
                crowd.stays(writer)
                return "listening"
            rest = await reader.read()
            await crowd.sees_off(writer)
            return "told" if b'"code":"RATE_LIMIT_EXCEEDED"' in first + rest else repr(first + rest)

        found, _ = all_at_once(subscribe, 300, server)
        assert found == {"listening": LISTENING_OF_ONE, "told": 300 - LISTENING_OF_ONE}


class Crowd:
    """Those who are connected."""

    def __init__(self) -> None:
        self._connected: list[asyncio.StreamWriter] = []

    def stays(self, writer: asyncio.StreamWriter) -> None:
        self._connected.append(writer)

    async def sees_off(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def leaves(self) -> None:
        for writer in self._connected:
            await self.sees_off(writer)


def all_at_once(visit: Callable[[Crowd], Awaitable[str]], count: int, server: Server) -> tuple[Counter[str], int]:
    """How this many visits ended, and the growth of the server while all staying clients were connected."""

    async def visits() -> tuple[Counter[str], int]:
        gate, crowd, before = asyncio.Semaphore(AT_ONCE), Crowd(), resident(server)

        async def one() -> str:
            async with gate:
                return await visit(crowd)

        try:
            return Counter(await asyncio.gather(*(one() for _ in range(count)))), resident(server) - before
        finally:
            await crowd.leaves()

    return asyncio.run(visits())


async def opened(
    server: Server, agent: HttpAgent, message: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """A connection on which a message was sent, and the status of what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = json.dumps(message).encode()
    headers = {**dict(agent.http.headers), **agent.headers(message), "host": f"127.0.0.1:{server.port}"}
    headers |= {"connection": "close", "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
    status = (await reader.readline()).decode().strip().removeprefix("HTTP/1.1 ")
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer, status


def resident(server: Server) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
