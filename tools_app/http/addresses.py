"""What a request is addressed to. Nothing that a caller gives can reach beyond the place that it was given for."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError

MOST_PART: Final = 1_000
PORTS: Final = {"http": 80, "https": 443}
# What no address has, and what readers of addresses disagree about.
_ODD: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\^`{|}<>\"\u2028\u2029]")
_SEPARATORS: Final = re.compile(r"[/\\]")
# Programs on the way may decode a part once more, or twice, before they look for `..` in it.
_TIMES_DECODED: Final = 3

Scalar = str | int | float | bool | date
Params = Mapping[str, Scalar | Iterable[Scalar] | None]


@dataclass(frozen=True, slots=True)
class Base:
    """Where an upstream's interface begins: an origin, and the path that all others go on from."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return self.origin + self.path


def base(url: str, *, below: str = "", allow_http: bool = False) -> Base:
    """The base URL of a connection, as it was set; `below` is added where it does not end with that already.

    Raises:
        ConfigurationError: in words for the operator who set it, and without the address, which may hold a password.
    """
    parts = split(url.strip())
    if isinstance(parts, str):
        raise ConfigurationError(f"The base URL {parts}")
    scheme, host, port, path, rest = parts
    if rest:
        raise ConfigurationError("The base URL must end before `?` and `#`")
    if any(part in (".", "..") for part in unquote(path).split("/")):
        raise ConfigurationError("The base URL must not hold `.` or `..` as parts of its path")
    if scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigurationError(
            "The base URL must begin with https://, or the key would travel unencrypted",
            next_step="Use https, or allow http for this connection where the network can be trusted.",
        )
    path = path.rstrip("/")
    below = below.strip("/")
    if below and not f"{path}/".endswith(f"/{below}/"):
        path = f"{path}/{below}"
    return Base(scheme, host, port, quote(path, safe="/%:@!$&'()*+,;=~-._"))


def split(url: str) -> tuple[str, str, int, str, str] | str:
    """Scheme, host, port, path and the rest of an address; or what is wrong with it, to go on from `The address`."""
    if _ODD.search(url):
        return "must not hold spaces, backslashes or control characters"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if not url.isascii() else "ascii").decode()
    except ValueError:
        return "is not one"
    if parts.scheme not in PORTS:
        return "must begin with https:// or http://"
    if "@" in parts.netloc:
        return "must not hold a name or password"
    if not host or "%" in host or port == 0:
        return "must name a host, and no port 0"
    rest = (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    return parts.scheme, host, port or PORTS[parts.scheme], parts.path, rest


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def segment(part: str | int, named: str) -> str:
    """One part of a path, encoded so that it stays one part.

    Raises:
        InvalidArgumentsError: it is empty, or something on the way could take it for a step to another place.
    """
    text = str(part)
    if not text.strip():
        raise InvalidArgumentsError(f"{named} is required")
    if len(text) > MOST_PART:
        raise InvalidArgumentsError(f"{named} is too long: at most {MOST_PART:,} characters")
    decoded = text
    for _ in range(_TIMES_DECODED):
        steps = _SEPARATORS.split(decoded)
        if "." in steps or ".." in steps or not decoded.isprintable():
            raise InvalidArgumentsError(f"{named} is not valid: it must not hold `..` or invisible characters")
        decoded = unquote(decoded)
    return quote(text, safe="")


def query(params: Params | None) -> str:
    """Parameters as a query: None is left out, lists are repeated.

    Raises:
        InvalidArgumentsError: a value is no text that can be sent.
    """
    pairs: list[str] = []
    try:
        for name, value in (params or {}).items():
            values = [value] if isinstance(value, Scalar) else value or ()
            pairs += [f"{quote(name, safe='')}={quote(_shown(each), safe='')}" for each in values]
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError("A text holds half of a character, which cannot be sent") from error
    return "&".join(pairs)


def _shown(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
