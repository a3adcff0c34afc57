"""Sockets and TLS. The last word on where a connection goes is spoken here, about the address that is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import certifi
import httpcore2

from tools_app.http.public import is_of_the_machine, is_public

CONNECT_SECONDS: Final = 5.0
MOST_CONNECTIONS: Final = 10
MOST_ADDRESSES: Final = 3  # tried one after the other

Resolver = Callable[[str, int], Awaitable[Iterable[str]]]


class NotPublicError(Exception):
    """A name leads to an address that is not of the open web."""


class NotOurOriginError(Exception):
    """Somebody tried to connect to another place than the one that was set up."""


@lru_cache(1)
def shared_tls() -> ssl.SSLContext:
    """Trusts whom this system trusts (`SSL_CERT_FILE` names others), from TLS 1.2 on. Made once: it takes a while."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def resolved(host: str, port: int) -> list[str]:
    """All addresses of a name, as the system resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class OneOrigin(httpcore2.AnyIOBackend):
    """Connects to the host and port of one upstream, as an operator has set them, but to no `closed` address."""

    def __init__(self, host: str, port: int, closed: Callable[[Any], bool] = is_of_the_machine) -> None:
        self._place = (host, port)
        self._closed = closed

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        if (host, port) != self._place:
            raise NotOurOriginError(f"{host}:{port}")
        stream = await super().connect_tcp(host, port, *args, **kwargs)
        address = str(stream.get_extra_info("server_addr")[0]).partition("%")[0]
        if self._closed(ipaddress.ip_address(address)):
            # A name may lead anywhere. Nothing has been sent yet.
            await stream.aclose()
            raise NotOurOriginError(f"{host} is {address}, which is the machine's own network")
        return stream


class OpenWeb(httpcore2.AnyIOBackend):
    """Connects to public addresses. A name is resolved once, and what was checked is what is connected to."""

    def __init__(self, resolver: Resolver = resolved, allowed: Callable[[Any], bool] = is_public) -> None:
        self._resolved = resolver
        self._allowed = allowed

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        addresses = list(await self._resolved(host, port))
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        for address in addresses:
            # One inner address among public ones is no accident.
            if not self._allowed(ipaddress.ip_address(address.partition("%")[0])):
                raise NotPublicError(address)
        *others, last = addresses[:MOST_ADDRESSES]
        for address in others:
            try:
                return await super().connect_tcp(address, port, *args, **kwargs)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await super().connect_tcp(last, port, *args, **kwargs)
