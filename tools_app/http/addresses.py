"""URLs of requests. Input of a caller cannot change any other part of a URL than the one it is for."""

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
# Characters that are invalid in URLs or that URL parsers treat differently.
_ODD: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\^`{|}<>\"\u2028\u2029]")
_SEPARATORS: Final = re.compile(r"[/\\]")
# Proxies may decode a segment once or twice more before they check it for `..`.
_TIMES_DECODED: Final = 3

Scalar = str | int | float | bool | date
Params = Mapping[str, Scalar | Iterable[Scalar] | None]


@dataclass(frozen=True, slots=True)
class Base:
    """A base URL: origin and path prefix of an upstream's API."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return self.origin + self.path


def base(url: str, *, below: str = "", allow_http: bool = False) -> Base:
    """The base URL of a connection; the path `below` is appended unless it ends with that.

    Raises:
        ConfigurationError: for the operator; without the URL, which may contain a password.
    """
    parts = split(url.strip())
    if isinstance(parts, str):
        raise ConfigurationError(f"The base URL {parts}")
    scheme, host, port, path, rest = parts
    if rest:
        raise ConfigurationError("The base URL must end before `?` and `#`")
    if any(part in (".", "..") for part in unquote(path).split("/")):
        raise ConfigurationError("The base URL must not contain `.` or `..` as path segments")
    if scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigurationError(
            "The base URL must begin with https://, or the key would be sent unencrypted",
            next_step="Use https, or allow http for this connection if the network is trusted.",
        )
    path = path.rstrip("/")
    below = below.strip("/")
    if below and not f"{path}/".endswith(f"/{below}/"):
        path = f"{path}/{below}"
    return Base(scheme, host, port, quote(path, safe="/%:@!$&'()*+,;=~-._"))


def split(url: str) -> tuple[str, str, int, str, str] | str:
    """Scheme, host, port, path and the rest of a URL; or an error text that continues `The URL …`."""
    if _ODD.search(url):
        return "must not contain spaces, backslashes or control characters"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if not url.isascii() else "ascii").decode()
    except ValueError:
        return "is not valid"
    if parts.scheme not in PORTS:
        return "must begin with https:// or http://"
    if "@" in parts.netloc:
        return "must not contain a user name or password"
    if not host or "%" in host or port == 0:
        return "must contain a host name and no port 0"
    rest = (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    return parts.scheme, host, port or PORTS[parts.scheme], parts.path, rest


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def segment(part: str | int, label: str) -> str:
    """One path segment, percent-encoded so that it stays one segment.

    Raises:
        InvalidArgumentsError: it is empty, or a proxy could read it as path traversal.
    """
    text = str(part)
    if not text.strip():
        raise InvalidArgumentsError(f"{label} is required")
    if len(text) > MOST_PART:
        raise InvalidArgumentsError(f"{label} is too long: at most {MOST_PART:,} characters")
    decoded = text
    for _ in range(_TIMES_DECODED):
        steps = _SEPARATORS.split(decoded)
        if "." in steps or ".." in steps or not decoded.isprintable():
            raise InvalidArgumentsError(f"{label} is not valid: it must not contain `..` or invisible characters")
        decoded = unquote(decoded)
    return quote(text, safe="")


def query(params: Params | None) -> str:
    """Parameters as a query string: None is omitted, lists are repeated.

    Raises:
        InvalidArgumentsError: a text contains a lone surrogate.
    """
    pairs: list[str] = []
    try:
        for name, value in (params or {}).items():
            values = [value] if isinstance(value, Scalar) else value or ()
            pairs += [f"{quote(name, safe='')}={quote(_text(each), safe='')}" for each in values]
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError("A text contains an incomplete character (lone surrogate)") from error
    return "&".join(pairs)


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
