"""How much one caller, and one address of strangers, may ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.api.rest import Rest, failure
from tests.support.tools import eventually
from tools_app.api import limits
from tools_app.models import Call

HOUR = 3600


@pytest.fixture
def few(settings: Any) -> None:
    """Three requests an hour for each key, and three a minute for strangers."""
    settings.TOOLHUB_KEY_RATE_CALLS, settings.TOOLHUB_KEY_RATE_SECONDS = 3, HOUR
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 3


def rate_headers(response: Any) -> tuple[int, ...]:
    return tuple(int(response.headers[name]) for name in limits.HEADERS)


def test_a_key_has_a_limit_and_sees_the_remaining_requests(rest: Rest, few: None) -> None:
    told = [rate_headers(rest.call("echo", {"message": "hi"})) for _ in range(3)]
    refused = rest.call("echo", {"message": "hi"})

    assert [(limit, remaining) for limit, remaining, _ in told] == [(3, 2), (3, 1), (3, 0)]
    assert all(abs(reset - used * HOUR / 3) <= 5 for used, (_, _, reset) in enumerate(told, 1))
    body = failure(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert body["retryable"] is True
    assert body["context"] == {"limit": 3, "windowSeconds": HOUR}
    assert 1100 < body["retryAfter"] <= 1201
    assert int(refused.headers["Retry-After"]) >= body["retryAfter"]
    assert rate_headers(refused)[:2] == (3, 0)


def test_lists_count_like_calls(rest: Rest, few: None) -> None:
    assert [rest.get("/v1/tools").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_each_key_has_its_own_limit(rest: Rest, make_key: Callable[[str], str], few: None) -> None:
    other = make_key("bob")
    for _ in range(4):
        last = rest.get("/v1/tools")

    assert last.status_code == 429
    assert [rest.get("/v1/tools", key=other).status_code for _ in range(3)] == [200] * 3


def test_unauthenticated_requests_are_counted_by_address_and_block_no_valid_key(rest: Rest, few: None) -> None:
    statuses = [rest.get("/v1/tools", key=key).status_code for key in (None, "wrong", None, "wrong", None)]

    assert statuses == [401, 401, 401, 429, 429]
    refused = rest.get("/v1/tools", key=None)
    failure(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert rate_headers(refused)[:2] == (3, 0)
    assert int(refused.headers["Retry-After"]) <= 21
    assert rest.get("/v1/tools").status_code == 200
    assert rest.get("/health", key=None).status_code == 200
    assert rest.get("/", key=None).status_code == 429


def test_the_sign_counts_and_the_health_does_not(rest: Rest, few: None) -> None:
    assert [rest.get("/health", key=None).status_code for _ in range(10)] == [200] * 10
    assert [rest.get("/", key=None).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_nought_is_no_limit(rest: Rest, settings: Any) -> None:
    settings.TOOLHUB_KEY_RATE_CALLS = settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 0

    answers = [rest.get("/v1/tools", key=key) for key in ("own", None) for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200] * 5 + [401] * 5
    assert not any(name in answer.headers for answer in answers for name in limits.HEADERS)


def test_of_a_hundred_calls_at_once_exactly_the_limit_is_accepted(server: httpx.Client, settings: Any) -> None:
    settings.TOOLHUB_KEY_RATE_CALLS, settings.TOOLHUB_KEY_RATE_SECONDS = 30, HOUR
    call = {"name": "echo", "parameters": {"message": "hi"}}

    async def storm() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            base_url=server.base_url, headers=server.headers, trust_env=False, timeout=30
        ) as client:
            return await asyncio.gather(*[client.post("/v1/tools/call", json=call, timeout=60) for _ in range(100)])

    statuses = [response.status_code for response in asyncio.run(storm())]

    assert (statuses.count(200), statuses.count(429)) == (30, 70)
    assert Call.objects.filter(tool_name="echo").count() == 30


@pytest.mark.parametrize("forwarded", ["203.0.113.7", "203.0.113.8, 203.0.113.9"])
def test_what_a_client_says_about_its_address_is_not_believed(server: httpx.Client, few: None, forwarded: str) -> None:
    statuses = [
        server.get(
            "/v1/tools", headers={"X-API-Key": "wrong", "X-Forwarded-For": f"{forwarded}, 10.0.0.{last}"}
        ).status_code
        for last in range(4)
    ]

    assert statuses == [401, 401, 401, 429]


def test_behind_a_proxy_that_is_named_each_client_is_counted(few: None, make_key: Callable[[], str]) -> None:
    from toolhub.asgi import behind_proxies

    application = behind_proxies(["10.0.0.0/8"])

    async def statuses(peer: str, *forwarded: str) -> list[int]:
        transport = httpx.ASGITransport(application, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.get("/v1/tools", headers={"X-Forwarded-For": one})).status_code for one in forwarded]

    # The last address that is no proxy of ours: what stands before it, the client may have invented.
    hops = [f"198.51.100.{invented}, 203.0.113.7, 10.0.0.9" for invented in range(4)]
    assert asyncio.run(statuses("10.0.0.1", *hops)) == [401, 401, 401, 429]
    assert asyncio.run(statuses("10.0.0.1", "203.0.113.8")) == [401]
    assert asyncio.run(statuses("192.0.2.1", *[f"203.0.113.{number}" for number in range(10, 14)])) == [401] * 3 + [429]


def test_refusals_are_counted_in_the_journal(rest: Rest, few: None) -> None:
    for _ in range(10):
        rest.get("/v1/tools")

    def noted() -> int:
        return sum(Call.objects.filter(code="RATE_LIMIT_EXCEEDED").values_list("count", flat=True))

    assert eventually(lambda: noted() == 7)
