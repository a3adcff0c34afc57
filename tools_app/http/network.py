"""The egress guard and TLS. Destinations are checked here, by the IP address that is actually connected to."""

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
    """A name resolves to an address that is not public."""


class NotOurOriginError(Exception):
    """An attempt to connect to another origin than the configured one."""


@lru_cache(1)
def shared_tls() -> ssl.SSLContext:
    """TLS 1.2 or later, with the system's CA certificates (or `SSL_CERT_FILE`). Cached: creating it is slow."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Resolving(httpcore2.AnyIOBackend):
    """Resolves a name once, in dedicated threads, checks all addresses and connects, within one timeout."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def _check(self, host: str, port: int) -> None:
        """Raises: an exception, if connections to this host and port are forbidden."""

    def _check_address(self, address: str) -> None:
        """Raises: an exception, if connections to this address are forbidden."""

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
    """Connects only to the configured host and port of an upstream, and to no `closed` address."""

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
            # DNS may return any address.
            raise NotOurOriginError(f"{self._place[0]} is {address}, which is link-local or a metadata service")


class OpenWeb(_Resolving):
    """Connects only to public addresses. A name is resolved once, so the checked address is the one connected to."""

    def __init__(self, resolver: Resolver = names.of_the_web, allowed: Callable[[Any], bool] = is_public) -> None:
        super().__init__(resolver)
        self._allowed = allowed

    def _check_address(self, address: str) -> None:
        # All are checked: an internal address among public ones is an attack (DNS rebinding).
        if not self._allowed(ipaddress.ip_address(address.partition("%")[0])):
            raise NotPublicError(address)
