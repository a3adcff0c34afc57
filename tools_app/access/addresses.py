"""The addresses from which a key can be used, as networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from tools_app.sdk.errors import ValidationError, shortened

MOST_NETWORKS: Final = 50

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(addresses: Iterable[str]) -> tuple[Network, ...]:
    """Raises: ValueError."""
    return tuple(ipaddress.ip_network(address) for address in addresses)


def normalized(addresses: Iterable[str]) -> list[str]:
    """Addresses and networks as they are stored: sorted, each once.

    Raises:
        ValidationError: names the first that is not an address or network.
    """
    stored = set()
    for address in addresses:
        text = address.strip()
        try:
            network = ipaddress.ip_network(text, strict=False)
            is_exact = "/" not in text or ipaddress.ip_interface(text).ip == network.network_address
        except ValueError:
            raise _wrong(text, "is not an address or network, like 192.0.2.7 or 10.0.0.0/8") from None
        if not is_exact:
            raise _wrong(text, f"is an address within the network {network}: enter the address or the network")
        if isinstance(network, ipaddress.IPv6Network):
            if network.network_address.scope_id is not None:
                raise _wrong(text, "has a zone, which other machines do not know: leave it out")
            if network.network_address.ipv4_mapped is not None:
                raise _wrong(text, "is an IPv4 address in IPv6 notation: enter it as IPv4")
        stored.add(str(network.network_address) if network.num_addresses == 1 else str(network))
    if len(stored) > MOST_NETWORKS:
        raise ValidationError(f"A key has at most {MOST_NETWORKS} allowed addresses; these are {len(stored)}")
    return sorted(stored)


def admit(allowed: tuple[Network, ...], address: str) -> bool:
    """Whether a request from this address can use the key. A Unix socket has no address."""
    if not allowed:
        return True
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip in network for network in allowed)


def within(narrower: Iterable[str], wider: Iterable[str]) -> bool:
    """Whether all that `narrower` admits is admitted by `wider`, too. Both are stored addresses; none: any."""
    limits, inner = networks(wider), networks(narrower)
    if not limits:
        return True
    return bool(inner) and all(any(_is_part(network, limit) for limit in limits) for network in inner)


def _is_part(network: Network, limit: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network) and isinstance(limit, ipaddress.IPv4Network):
        return network.subnet_of(limit)
    if isinstance(network, ipaddress.IPv6Network) and isinstance(limit, ipaddress.IPv6Network):
        return network.subnet_of(limit)
    return False


def _wrong(text: str, words: str) -> ValidationError:
    return ValidationError(f"{shortened(repr(text))} {words}")
