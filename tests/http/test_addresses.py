"""Nothing that a caller gives reaches beyond the place that it was given for."""

from __future__ import annotations

import ipaddress
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.http import addresses
from tools_app.http.public import is_public, names_the_machine
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError


@pytest.mark.parametrize(
    ("given", "below", "base"),
    [
        ("https://n8n.example", "api/v1", "https://n8n.example/api/v1"),
        ("https://n8n.example/api/v1/", "/api/v1", "https://n8n.example/api/v1"),
        ("https://n8n.example/tools/", "api/v1", "https://n8n.example/tools/api/v1"),
        ("https://n8n.example/tools/api/v1", "api/v1", "https://n8n.example/tools/api/v1"),
        ("https://n8n.example/myapi/v1", "api/v1", "https://n8n.example/myapi/v1/api/v1"),
        ("  HTTPS://N8N.Example:443/ ", "", "https://n8n.example"),
        ("https://n8n.example:8443/a%20b/é", "", "https://n8n.example:8443/a%20b/%C3%A9"),
        ("https://bücher.example", "", "https://xn--bcher-kva.example"),
        ("http://localhost:5678", "", "http://localhost:5678"),
        ("http://127.0.0.1:5678/", "", "http://127.0.0.1:5678"),
        ("http://[::1]:5678", "", "http://[::1]:5678"),
    ],
)
def test_a_base_url_is_taken_as_it_was_meant(given: str, below: str, base: str) -> None:
    assert str(addresses.base(given, below=below)) == base


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "n8n.example", "ftp://n8n.example", "//n8n.example", "https://", "https:///api", "https://n8n.example:0"),
        *(
            "https://n8n.example:99999",
            "https://me:pass@n8n.example",
            "https://n8n.example?a=1",
            "https://n8n.example#a",
        ),
        *(
            "https://n8n.example/a/../b",
            "https://n8n.example/%2e%2e/b",
            "https://n8n.example\\@127.0.0.1",
            "https://a b",
        ),
        *("https://n8n.example/a\tb", "https://[::1", "https://[fe80::1%25eth0]", "file:///etc/passwd"),
    ],
)
def test_a_base_url_that_could_mean_two_things_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL") as caught:
        addresses.base(wrong)
    assert "pass" not in caught.value.message.replace("password", "")


def test_http_is_for_this_machine_or_has_to_be_allowed() -> None:
    with pytest.raises(ConfigurationError, match="unencrypted"):
        addresses.base("http://redmine.example")
    assert str(addresses.base("http://redmine.example", allow_http=True)) == "http://redmine.example"


@pytest.mark.parametrize(
    ("part", "encoded"),
    [
        *((7, "7"), ("a b", "a%20b"), ("a/b?x", "a%2Fb%3Fx"), ("a#b", "a%23b"), ("a;b", "a%3Bb"), ("ü", "%C3%BC")),
        *(("100%", "100%25"), ("%41", "%2541"), ("a..b", "a..b"), ("...", "..."), ("a\u2215b", "a%E2%88%95b")),
    ],
)
def test_a_part_of_a_path_stays_one_part(part: str | int, encoded: str) -> None:
    assert addresses.segment(part, "ID") == encoded


@pytest.mark.parametrize(
    "part",
    [
        *("", " ", ".", "..", "../users", "1/../../admin", "..\\users", "%2e%2e/users", "%2e%2e%2fusers", "a/./b"),
        *("%252e%252e%252fusers", "a\0b", "a%00b", "a\r\nX-Admin: 1", "a\u202eb", "\ud83d", "x" * 10_000),
    ],
)
def test_a_part_that_something_on_the_way_could_step_out_of_is_refused(part: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="^Workflow ID"):
        addresses.segment(part, "Workflow ID")


@given(st.text(max_size=60))
def test_no_part_at_all_leaves_its_place(part: str) -> None:
    try:
        encoded = addresses.segment(part, "ID")
    except InvalidArgumentsError:
        return
    assert encoded.isascii()
    assert not set("/?#\\ \r\n") & set(encoded)
    assert encoded not in (".", "..", "")


def test_a_query_says_what_it_was_given() -> None:
    given: dict[str, Any] = {"a": None, "b": True, "c": [1, "x&y"], "d": date(2026, 1, 2), "e f": "", "g": ()}
    assert addresses.query(given) == "b=true&c=1&c=x%26y&d=2026-01-02&e%20f="
    with pytest.raises(InvalidArgumentsError):
        addresses.query({"a": "\ud83d"})


CLOSED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.5", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::"),
    *("2002:a9fe:a9fe::", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "5f00::1"),
]
OPEN = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::200e", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", CLOSED)
def test_an_inner_address_is_not_of_the_open_web(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OPEN)
def test_a_public_address_is(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_public(address) and getattr(address, "ipv4_mapped", None) is None:
        assert address.is_global


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"),
        *("fe80::1", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("metadata", "metadata.google.internal", "Metadata.Google.Internal.", "instance-data"),
    ],
)
def test_a_host_that_is_the_machines_own_network_is_known(host: str) -> None:
    assert names_the_machine(host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "10.0.0.1", "192.168.0.1", "fd00::1", "n8n.example", "metadata.example", "1"],
)
def test_other_hosts_inside_are_an_operators_own(host: str) -> None:
    assert not names_the_machine(host)
