"""Slow names hold up nothing but themselves."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpcore2
import pytest

from tests.http.conftest import Client
from tools_app.http import WebClient
from tools_app.http.names import Names, looked_up
from tools_app.http.network import OneOrigin, OpenWeb

pytestmark = pytest.mark.anyio


class SlowNames:
    """The system's resolver, whose name servers do not answer until they are released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: list[threading.Thread] = []
        self.release = threading.Event()

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        self.threads.append(threading.current_thread())
        if not self.release.wait(30):
            raise TimeoutError
        return ["127.0.0.1"]


@pytest.fixture
def slow() -> Iterator[SlowNames]:
    names = SlowNames()
    yield names
    names.release.set()


async def test_slow_names_take_no_thread_from_other_work(slow: SlowNames, client: Client) -> None:
    names = Names(64, slow)
    web = WebClient(resolver=names, timeout=30)
    reading = [asyncio.create_task(web.get(f"http://slow{n}.test/", operation="read page")) for n in range(64)]
    async with asyncio.timeout(20):
        while not slow.asked:  # noqa: ASYNC110 - a thread of the resolver says so
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(lambda: "other work") == "other work"
        assert (await client("ok").get("a", operation="x"))["method"] == "GET"
    assert not slow.release.is_set()
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    await web.close()


async def test_a_name_is_looked_up_once_for_all_who_ask_and_outlives_who_hangs_up(slow: SlowNames) -> None:
    names = Names(1, slow)
    first, second = (asyncio.create_task(names("n8n.test", 443)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    slow.release.set()
    assert await second == ["127.0.0.1"]
    assert slow.asked == ["n8n.test"]


async def test_more_lookups_than_there_are_threads_for_are_refused(slow: SlowNames) -> None:
    names = Names(2, slow)
    waiting = [asyncio.create_task(names(f"slow{n}.test", 443)) for n in range(2)]
    await asyncio.sleep(0.05)
    with pytest.raises(socket.gaierror) as refused:
        await names("another.test", 443)
    assert refused.value.args == (socket.EAI_AGAIN, "too many names are being looked up")
    assert await names("127.0.0.1", 443) == ["127.0.0.1"], "an address needs no lookup"
    slow.release.set()
    assert await asyncio.gather(*waiting) == [["127.0.0.1"]] * 2
    assert await names("another.test", 443) == ["127.0.0.1"]


async def test_looking_up_a_name_takes_no_longer_than_connecting_may(slow: SlowNames) -> None:
    for network in (OpenWeb(Names(4, slow)), OneOrigin("slow.test", 80, Names(4, slow))):
        with pytest.raises(httpcore2.ConnectTimeout):
            await network.connect_tcp("slow.test", 80, timeout=0.05)


async def test_a_slow_name_does_not_delay_the_end_of_the_process(slow: SlowNames) -> None:
    lookup = asyncio.create_task(Names(1, slow)("n8n.test", 443))
    async with asyncio.timeout(20):
        while not slow.threads:  # noqa: ASYNC110 - a thread of the resolver says so
            await asyncio.sleep(0.01)
    assert [(thread.name, thread.daemon) for thread in slow.threads] == [("toolhub-names", True)]
    slow.release.set()
    assert await lookup == ["127.0.0.1"]


async def test_the_system_is_asked_once_for_addresses_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    resolve = socket.getaddrinfo

    def record(*question: Any, **options: Any) -> list[Any]:
        asked.append((*question, *options.values()))
        return resolve(*question, **options)

    monkeypatch.setattr(socket, "getaddrinfo", record)
    assert await Names(1)("localhost", 80) == list(dict.fromkeys(looked_up("localhost", 80)))
    assert asked == [("localhost", 80, socket.SOCK_STREAM)] * 2


async def test_names_of_this_machine_are_found() -> None:
    assert "127.0.0.1" in await Names(1)("localhost", 80)
    assert "127.0.0.1" in looked_up("localhost", 80)
