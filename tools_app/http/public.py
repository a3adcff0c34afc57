"""Which addresses are public. All others belong to an internal network, possibly ours.

Python's own predicates are not enough: they accept carrier-grade NAT, and IPv6 that embeds an IPv4 address.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CLOSED_4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),  # documentation; multicast, reserved, broadcast
        "168.63.129.16/32",  # Azure's own services, at a public address
    )
)
# The allocated part of IPv6, and its reserved ranges: Teredo and other protocols, benchmarks, documentation, 6to4.
# This excludes all that embeds an IPv4 address: ::ffff:a.b.c.d, 64:ff9b::a.b.c.d, 2002:ab:cd::.
_GIVEN_6: Final = ipaddress.IPv6Network("2000::/3")
_CLOSED_6: Final = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)


def is_public(address: Address) -> bool:
    """Whether the address is reachable on the Internet, as the same machine from everywhere."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    mapped = address.ipv4_mapped
    if mapped is not None:
        return is_public(mapped)
    return address in _GIVEN_6 and not any(address in network for network in _CLOSED_6)


def is_of_the_machine(address: Address) -> bool:
    """Whether the address is link-local or a cloud's metadata service, which hands out credentials."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_of_the_machine(address.ipv4_mapped)
        return any(address in network for network in _MACHINES_6)
    return any(address in network for network in _MACHINES_4)


def names_the_machine(host: str) -> bool:
    """The same for a host name or IP address in a URL, in any number format that systems accept."""
    host = host.lower().rstrip(".")
    if host in _MACHINES_NAMES:
        return True
    try:
        return is_of_the_machine(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return is_of_the_machine(ipaddress.IPv4Address(socket.inet_aton(host)))
    except (OSError, ValueError):
        return False


# Link-local, and metadata services elsewhere: Azure, Oracle, Alibaba; AWS and Google over IPv6.
_MACHINES_4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in ("169.254.0.0/16", "168.63.129.16/32", "192.0.0.192/32", "100.100.100.200/32")
)
_MACHINES_6: Final = tuple(
    ipaddress.IPv6Network(network) for network in ("fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128")
)
_MACHINES_NAMES: Final = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
