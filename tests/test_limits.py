"""What is counted together, and what it costs to count strangers."""

from __future__ import annotations

import pytest

from tools_app import limits


def test_a_hundred_thousand_addresses_do_not_fill_the_memory() -> None:
    for number in range(100_000):
        limits.count_stranger(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(limits._strangers) == limits.MOST_REMEMBERED


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
