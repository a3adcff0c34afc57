"""What is counted together, and what it costs to count strangers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools_app.access import limits
from tools_app.base import hub
from tools_app.sdk.context import Caller
from tools_app.sdk.policies import Rate


@pytest.mark.anyio
async def test_a_hundred_thousand_addresses_do_not_fill_the_memory() -> None:
    for number in range(100_000):
        await limits.count_stranger(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(hub.part(limits.Limits).strangers) == limits.MOST_REMEMBERED


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("", "", True),
        ("x" * 1000, "x" * 2000, True),
    ],
)
def test_one_address_is_one_host_or_one_network_of_ipv6(one: str, other: str, same: bool) -> None:
    assert (limits.neighbourhood(one) == limits.neighbourhood(other)) is same
    assert len(limits.neighbourhood(one)) <= 64


@pytest.mark.anyio
async def test_pages_of_visitors_have_a_limit_of_their_own() -> None:
    visits = [await limits.count_visit("192.0.2.1") for _ in range(601)]

    refused = [visit for visit in visits if visit is not None and visit.wait]
    assert len(refused) == 1
    signing_in = limits.count_sign_in("192.0.2.1")
    assert signing_in is not None
    assert not signing_in.wait


CALLER = Caller("key", "key:1", "one", frozenset(), rate=Rate(100, 1_000))


async def remaining(caller: Caller = CALLER) -> int:
    counted = await limits.count_caller(caller)
    assert counted is not None
    return counted.remaining if not counted.wait else -1


@pytest.mark.anyio
async def test_the_processor_time_of_a_request_counts_as_requests() -> None:
    assert await remaining() == 99
    limits.count_work(CALLER, 0.25)
    limits.count_work(CALLER, 0.009)
    assert await remaining() == 73
    limits.count_answer(CALLER, 10 * limits.BYTES_OF_A_REQUEST)
    assert await remaining() == 62


@pytest.mark.anyio
async def test_a_large_request_counts_as_many() -> None:
    assert await remaining() == 99
    await limits.count_body(CALLER, 40 * limits.BYTES_OF_A_REQUEST)

    assert await remaining() == 58


@pytest.mark.anyio
async def test_a_small_body_counts_nothing() -> None:
    await limits.count_body(CALLER, limits.BYTES_OF_A_REQUEST - 1)

    assert await remaining() == 99


@pytest.mark.anyio
async def test_a_request_above_the_limit_is_accepted_and_delays_the_next() -> None:
    assert await remaining() == 99
    await limits.count_body(CALLER, 10_000 * limits.BYTES_OF_A_REQUEST)

    refused = await limits.count_caller(CALLER)
    assert refused is not None
    assert 0 < refused.wait <= 1_010, "it is never longer than filling the whole limit takes"
    assert refused.remaining == 0


@pytest.mark.anyio
async def test_a_body_of_one_caller_counts_against_no_other() -> None:
    await limits.count_body(CALLER, 10_000 * limits.BYTES_OF_A_REQUEST)

    assert await remaining(replace(CALLER, id="key:2")) == 99
