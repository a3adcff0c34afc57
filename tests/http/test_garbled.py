"""A tool gets an answer or one of our errors for any response of an upstream."""

from __future__ import annotations

import asyncio
import gzip
import random

import pytest

from tests.http.conftest import Client
from tests.support.faultd import Faultd, Wire
from tools_app.sdk.errors import ToolError

pytestmark = pytest.mark.anyio

BODY = b'{"data": [{"id": "1", "name": "x\\u00e9"}], "errors": ["a"], "message": "m"}'
STATUSES = (200, 200, 201, 204, 206, 301, 304, 400, 404, 422, 429, 500, 503, 99, 101, 1000)


def garbled(chance: random.Random) -> bytes:
    """An answer in which some bytes are changed, missing or too many."""
    body, encoding = (gzip.compress(BODY), b"Content-Encoding: gzip\r\n") if chance.random() < 0.3 else (BODY, b"")
    head = b"HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nRetry-After: 3\r\nLocation: //x/y\r\n" % (
        chance.choice(STATUSES)
    )
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    made = bytearray(head + encoding + (chunks if chance.random() < 0.3 else length + body))
    for _ in range(chance.choice((0, 1, 1, 2, 5, 20))):
        place, how = chance.randrange(len(made)), chance.random()
        if how < 0.5:
            made[place] = chance.randrange(256)
        elif how < 0.7:
            del made[place : place + chance.randrange(1, 6)]
        else:
            made[place:place] = chance.randbytes(chance.randrange(1, 6))
    return bytes(made)


async def test_no_answer_breaks_a_tool(client: Client, upstream: Faultd) -> None:
    chance = random.Random(7)

    async def garble(wire: Wire) -> None:
        await wire.send(garbled(chance))
        wire.writer.close()

    upstream.answer("garbled", garble)
    api = client("garbled", timeout=2.0)
    outcomes: list[object] = []

    async def ask(method: str) -> None:
        try:
            outcomes.append(await api.request(method, "a", "b", operation="get a", resource="Thing"))
        except ToolError as error:
            outcomes.append(error.as_dict()["code"])

    for _ in range(40):
        await asyncio.gather(*(ask(method) for method in ("GET", "GET", "POST", "PUT", "DELETE")))
    assert len(outcomes) == 200
    assert len({str(outcome) for outcome in outcomes if isinstance(outcome, str)}) >= 4
