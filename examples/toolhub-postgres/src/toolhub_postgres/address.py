"""The address of the database: which URLs are accepted, and which networks they may lead to."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from psycopg.conninfo import make_conninfo

from toolhub import ConfigurationError, UpstreamUnavailableError
from toolhub_postgres import URL, pack

PORT: Final = 5432
CONNECT_SECONDS: Final = 10
FORM: Final = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
SSL_MODES: Final = ("disable", "require", "verify-ca", "verify-full")
# Everything else would let the URL read other files or connect elsewhere: `service`, `passfile`, `hostaddr`, `options`.
PARAMETERS: Final = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is, and as whom to sign in."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)

    async def conninfo(self) -> str:
        """The parameters of libpq. All that its environment or password file could add is set.

        Raises:
            ConfigurationError, UpstreamUnavailableError
        """
        addresses = await _resolved(self.host, self.port)
        parameters = {
            # The addresses that were checked are those that are connected to; the name is for the certificate.
            "host": ",".join([self.host] * len(addresses)),
            "hostaddr": ",".join(addresses),
            "port": str(self.port),
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "passfile": str(Path(os.devnull, "none")),
            "options": "",
            "gssencmode": "disable",
            "client_encoding": "UTF8",
            "application_name": "toolhub",
            "connect_timeout": str(CONNECT_SECONDS),
            **self.parameters,
        }
        return make_conninfo(**parameters)


def configured() -> Address:
    """The address in POSTGRES_URL.

    Raises:
        ConfigurationError: it cannot be used. The message does not repeat it, as it has a password.
    """
    return parsed(pack.value(URL))


def parsed(url: str) -> Address:
    """Raises: ConfigurationError."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _unusable("is not valid") from None
    host, database = parts.hostname or "", unquote(parts.path[1:])
    if parts.scheme not in ("postgresql", "postgres") or not (host and parts.username and database):
        raise _unusable("does not name scheme, user, host and database")
    if "," in parts.netloc.rpartition("@")[2] or "/" in database or parts.fragment:
        raise _unusable("names more than one host or database")
    if unknown := parameters.keys() - PARAMETERS:
        raise _unusable(f"has the parameters {', '.join(sorted(unknown))}; it can have {', '.join(sorted(PARAMETERS))}")
    if parameters.get("sslmode", "require") not in SSL_MODES:
        raise _unusable(f"needs one of {', '.join(SSL_MODES)} as sslmode")
    return Address(
        host=host,
        port=port,
        user=unquote(parts.username),
        database=database,
        password=unquote(parts.password or ""),
        parameters=_encrypted(host) | parameters,
    )


def _encrypted(host: str) -> dict[str, str]:
    """By default, a password leaves the machine only to a server whose certificate says that it is that one."""
    if host == "localhost" or _is_loopback(host):
        return {"sslmode": "prefer"}
    return {"sslmode": "verify-full", "sslrootcert": "system"}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _resolved(host: str, port: int) -> list[str]:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise UpstreamUnavailableError("The host of the database has no address", detail=error) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in addresses:
        if fault := _fault_of(address):
            raise _unusable(f"leads to {fault}")
    return addresses


def _fault_of(address: str) -> str:
    """Why the hub does not connect to it; empty if it may. Private addresses are where databases are."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_link_local:
        return "the machine's own network, where clouds serve credentials"
    return "an address that is no single machine's" if ip.is_multicast or ip.is_unspecified else ""


def _unusable(fault: str) -> ConfigurationError:
    return ConfigurationError(f"{URL} {fault}", next_step=f"An operator should set it to {FORM}, and restart the hub.")
