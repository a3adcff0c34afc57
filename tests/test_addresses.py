"""The addresses from which a key can be used."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.tools import Hub, eventually
from tools_app import engine, governance
from tools_app.access import access, addresses
from tools_app.models import Call
from tools_app.sdk.errors import AuthenticationError, ValidationError


@pytest.mark.parametrize(
    ("allowed", "address", "admitted"),
    [
        ([], "192.0.2.7", True),
        ([], "", True),
        (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7"], "192.0.2.8", False),
        (["10.0.0.0/8"], "10.255.0.1", True),
        (["10.0.0.0/8"], "::ffff:10.255.0.1", True),
        (["10.0.0.0/8"], "2001:db8::1", False),
        (["2001:db8::/32", "10.0.0.0/8"], "2001:db8::1", True),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["10.0.0.0/8"], "", False),
        (["10.0.0.0/8"], "not an address", False),
    ],
)
def test_admits_only_allowed_addresses(allowed: list[str], address: str, admitted: bool) -> None:
    assert addresses.admit(addresses.networks(allowed), address) is admitted


def test_stores_each_address_once_in_one_notation() -> None:
    given = [" 10.0.0.0/8 ", "10.0.0.0/255.0.0.0", "192.0.2.7/32", "2001:DB8:0:0::1"]
    assert addresses.normalized(given) == ["10.0.0.0/8", "192.0.2.7", "2001:db8::1"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("everywhere", "is not an address or network"),
        ("", "is not an address or network"),
        ("10.0.0.1/33", "is not an address or network"),
        ("10.0.0.5/8", "within the network 10.0.0.0/8"),
        ("fe80::1%eth0", "has a zone"),
        ("::ffff:10.0.0.1", "enter it as IPv4"),
    ],
)
def test_refuses_what_is_no_address_and_says_why(wrong: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        addresses.normalized([wrong])


def test_refuses_more_than_fifty() -> None:
    assert len(addresses.normalized(f"10.0.0.{number}" for number in range(50))) == 50
    with pytest.raises(ValidationError, match="at most 50"):
        addresses.normalized(f"10.0.0.{number}" for number in range(51))


@pytest.mark.parametrize(
    ("narrower", "wider", "is_within"),
    [
        ([], [], True),
        (["10.0.0.0/8"], [], True),
        ([], ["10.0.0.0/8"], False),
        (["10.1.0.0/16", "10.2.0.1"], ["10.0.0.0/8"], True),
        (["10.0.0.0/7"], ["10.0.0.0/8"], False),
        (["10.0.0.1", "192.0.2.1"], ["10.0.0.0/8"], False),
        (["2001:db8::1"], ["10.0.0.0/8", "2001:db8::/32"], True),
        (["0.0.0.0/0"], ["::/0"], False),
    ],
)
def test_compares_two_lists(narrower: list[str], wider: list[str], is_within: bool) -> None:
    assert addresses.within(narrower, wider) is is_within


def test_the_journal_has_the_address_and_the_key_of_a_refusal(hub: Hub) -> None:
    key, secret = governance.create_key("agent", addresses=["10.0.0.0/8"], actor=governance.trusted("test"))
    assert asyncio.run(access.caller_of_key(secret, address="10.1.2.3")).name == "agent"
    with pytest.raises(AuthenticationError) as refused:
        asyncio.run(access.caller_of_key(secret, address="192.0.2.7"))
    assert "10.0.0.0" not in str(refused.value)
    engine.note_refusal(refused.value, door="mcp", address="192.0.2.7")
    assert eventually(Call.objects.filter(status="refused").exists)
    row = Call.objects.get(status="refused")
    assert (row.error, row.address) == ("The key is not allowed from 192.0.2.7", "192.0.2.7")
    assert (row.caller_id, row.key_prefix) == (f"key:{key.pk}", key.prefix)


def test_a_request_without_an_address_is_refused(hub: Hub) -> None:
    secret = governance.create_key("agent", addresses=["10.0.0.0/8"], actor=governance.trusted("test"))[1]
    with pytest.raises(AuthenticationError):
        asyncio.run(access.caller_of_key(secret))


def test_a_change_of_addresses_counts_for_the_next_request(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    assert asyncio.run(access.caller_of_key(secret, address="192.0.2.7")).addresses == ()
    governance.change_key(key, addresses=["10.0.0.0/8"], actor=governance.trusted("test"))
    with pytest.raises(AuthenticationError):
        asyncio.run(access.caller_of_key(secret, address="192.0.2.7"))
