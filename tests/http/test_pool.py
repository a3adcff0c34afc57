"""Connections that are lent and taken back: who gets one, and what must not be left on it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpcore2
import httpx
import pytest

from tests.support.faultd import Faultd, Wire
from tests.support.tools import eventually
from tools_app.http import ApiClient
from tools_app.http.network import OneOrigin, shared_tls
from tools_app.http.pool import Pool
from tools_app.http.transport import Transport

pytestmark = pytest.mark.anyio


# As much as TLS encrypts by itself: what comes behind it is there, and not decrypted yet.
RECORD = 16 * 1024


def answered(body: bytes, size: int = 0) -> bytes:
    """An answer, filled up to a size."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    filled = max(0, size - len(head) - len(body) - len(b"X: \r\n\r\n"))
    return b"%bX: %b\r\n\r\n%b" % (head, b"x" * filled, body)


async def one_too_many(wire: Wire) -> None:
    """Two answers to one question, in one packet."""
    await wire.send(answered(b'{"whose": "mine"}', RECORD) + answered(b'{"whose": "nobody\'s"}'))


async def with_a_body_that_must_not_be(wire: Wire) -> None:
    await wire.send(b'HTTP/1.1 204 No Content\r\n\r\n{"whose": "nobody\'s"}')


@pytest.fixture(params=["", "good"], ids=["http", "https"])
def upstream(request: pytest.FixtureRequest) -> Iterator[Faultd]:
    with Faultd(tls=request.param) as running:
        running.answer("one-too-many", one_too_many)
        running.answer("fat-204", with_a_body_that_must_not_be)
        yield running


def client(upstream: Faultd, at_once: int = 10) -> ApiClient:
    tls = upstream.trusting if upstream.tls else None
    return ApiClient(upstream.url, name="Faultd", timeout=5.0, tls=tls, at_once=at_once)


@pytest.mark.parametrize("fault", ["one-too-many", "fat-204"])
async def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one(upstream: Faultd, fault: str) -> None:
    api = client(upstream, at_once=1)
    first = await api.get(fault, operation="x")
    assert first in ({"whose": "mine"}, None)
    for number in range(3):
        assert (await api.get("ok", str(number), operation="x"))["target"] == f"/ok/{number}"
    await api.close()
    assert upstream.connections == 2, "the first one is not used again, and the second one is"


async def test_a_connection_is_used_again(upstream: Faultd) -> None:
    api = client(upstream)
    for _ in range(3):
        await api.get("ok", operation="x")
    await api.close()
    assert upstream.connections == 1
    assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)


@asynccontextmanager
async def lent(pool: Pool, url: str) -> AsyncIterator[httpcore2.Response]:
    response = await pool.handle_async_request(httpcore2.Request("GET", url, headers=[("Host", "localhost")]))
    try:
        yield response
    finally:
        await response.aclose()


async def test_a_request_under_way_outlives_the_closing_of_its_client() -> None:
    with Faultd() as upstream:
        api = client(upstream)
        call = asyncio.create_task(api.get("delay:500", operation="x"))
        assert await asyncio.to_thread(eventually, lambda: upstream.open == 1, 10)
        await api.close()
        assert (await call)["method"] == "GET"
        assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)


async def test_giving_a_connection_back_twice_makes_no_place() -> None:
    with Faultd() as upstream:
        pool = Pool(OneOrigin(upstream.host, upstream.port), shared_tls(), 1)
        async with lent(pool, f"{upstream.url}/ok") as response:
            await response.aread()
            await response.aclose()
        async with lent(pool, f"{upstream.url}/ok"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), lent(pool, f"{upstream.url}/ok"):
                    pass
        await pool.aclose()


async def test_a_place_goes_to_another_origin_when_its_connection_is_idle() -> None:
    with Faultd() as one, Faultd() as other:
        pool = Pool(httpcore2.AnyIOBackend(), shared_tls(), 1)
        for upstream in (one, other, one):
            async with lent(pool, f"{upstream.url}/ok") as response:
                await response.aread()
            assert len(pool.connections) == 1
        assert (one.connections, other.connections) == (2, 1)
        await pool.aclose()


async def test_what_cannot_be_connected_takes_no_place_along() -> None:
    transport = Transport(OneOrigin("127.0.0.1", 9), shared_tls(), 1)
    for _ in range(3):
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(httpx.Request("GET", "http://127.0.0.1:9/"))
    assert not transport.pool.connections
    await transport.aclose()


async def test_cancelled_calls_leave_no_client_without_connections() -> None:
    """Two hundred clients of two connections each, ten calls each that are cancelled: most of them twice."""
    chance = random.Random(3)

    async def ten_cancelled(api: ApiClient) -> None:
        calls = [asyncio.create_task(api.get("ok", operation="x")) for _ in range(10)]
        for call in calls:
            await asyncio.sleep(chance.random() * 0.002)
            call.cancel()
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    with Faultd() as upstream:
        clients = [client(upstream, at_once=2) for _ in range(200)]
        for first in range(0, len(clients), 20):
            await asyncio.gather(*(ten_cancelled(api) for api in clients[first : first + 20]))
        for api in clients:
            answers = await asyncio.gather(*(api.get("ok", operation="x") for _ in range(3)))
            assert [answer["method"] for answer in answers] == ["GET"] * 3
            await api.close()
        assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)


@pytest.mark.parametrize("turns", range(1, 5))
async def test_a_request_cancelled_while_its_answer_is_closed_gives_its_place_back(turns: int) -> None:
    with Faultd() as upstream:
        transport = Transport(OneOrigin(upstream.host, upstream.port), shared_tls(), 1)
        response = await transport.handle_async_request(httpx.Request("GET", f"{upstream.url}/drip_body"))
        closing = asyncio.create_task(response.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        async with asyncio.timeout(10):
            answer = await transport.handle_async_request(httpx.Request("GET", f"{upstream.url}/ok"))
            await answer.aclose()
        await transport.aclose()
        assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)
