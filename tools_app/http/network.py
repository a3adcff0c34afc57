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

from tools_app.http import names
from tools_app.http.public import is_of_the_machine, is_public

CONNECT_SECONDS: Final = 5.0
MOST_CONNECTIONS: Final = 10
MOST_ADDRESSES: Final = 3  # tried one after the other
FIRST_SECONDS: Final = 1.0  # for each but the last

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


class _Resolving(httpcore2.AnyIOBackend):
    """Resolves a name once, in threads that do nothing else, and connects to what was found, all within one time."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def _check(self, host: str, port: int) -> None:
        """Raises: an exception, where no connection is made to that name."""

    def _check_address(self, address: str) -> None:
        """Raises: an exception, where no connection is made to that address."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the name of the pool
        *args: Any,
        **options: Any,
    ) -> httpcore2.AsyncNetworkStream:
        self._check(host, port)
        try:
            async with asyncio.timeout(timeout):
                addresses = list(await self._resolver(host, port))
                if not addresses:
                    raise socket.gaierror(socket.EAI_NONAME, "no address")
                for address in addresses:
                    self._check_address(address)
                *others, last = addresses[:MOST_ADDRESSES]
                for address in others:
                    try:
                        return await super().connect_tcp(address, port, FIRST_SECONDS, *args, **options)
                    except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                        continue
                return await super().connect_tcp(last, port, None, *args, **options)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error


class OneOrigin(_Resolving):
    """Connects to the host and port of one upstream, as an operator has set them, but to no `closed` address."""

    def __init__(
        self,
        host: str,
        port: int,
        resolver: Resolver = names.of_connections,
        closed: Callable[[Any], bool] = is_of_the_machine,
    ) -> None:
        super().__init__(resolver)
        self._place = (host, port)
        self._closed = closed

    def _check(self, host: str, port: int) -> None:
        if (host, port) != self._place:
            raise NotOurOriginError(f"{host}:{port}")

    def _check_address(self, address: str) -> None:
        if self._closed(ipaddress.ip_address(address.partition("%")[0])):
            # A name may lead anywhere.
            raise NotOurOriginError(f"{self._place[0]} is {address}, which is the machine's own network")


class OpenWeb(_Resolving):
    """Connects to public addresses. A name is resolved once, and what was checked is what is connected to."""

    def __init__(self, resolver: Resolver = names.of_the_web, allowed: Callable[[Any], bool] = is_public) -> None:
        super().__init__(resolver)
        self._allowed = allowed

    def _check_address(self, address: str) -> None:
        # All are checked: one inner address among public ones is no accident.
        if not self._allowed(ipaddress.ip_address(address.partition("%")[0])):
            raise NotPublicError(address)
