"""Read the environment: every value is validated, and every error names the variable and the expected value."""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import environ
from django.core.exceptions import ImproperlyConfigured

from tools_app.base import secrets
from tools_app.sdk import variables
from tools_app.sdk.variables import UnreadableError

T = TypeVar("T")
_UPSTREAM: Final = re.compile(r"https?://[^\s/?#@\\]+(?:/[^\s?#@\\]*)?")
_HEADER: Final = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}|[0-9a-f:.]{2,45}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REGION: Final = re.compile(r"[a-z]{2}-[a-z]{2}")
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](?::[0-9]{1,5})?|\*")

_ADDRESS: Final = re.compile(
    r"(?:https://[A-Za-z0-9.-]+|http://(?:localhost|127\.[0-9.]+|\[::1\]))(?::[0-9]{1,5})?(?:/[\w.~%!$&'()*+,;=:@/?-]*)?"
)


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def is_origin(text: str) -> bool:
    """True if a browser could send this as `Origin`; `*` means all."""
    return _ORIGIN.fullmatch(text) is not None


def is_one_host(name: str) -> bool:
    """True if an entry of ALLOWED_HOSTS is a single name, not a wildcard."""
    return not name.startswith((".", "*"))


def is_token_scope(name: str) -> bool:
    """True if a token of an issuer can have the scope: `admin:*` is granted in the hub only."""
    return name in ("tools:list", "tools:read", "tools:execute", "tools:manage")


def is_name(text: str) -> bool:
    """True if it is a valid name of a toolset."""
    return _NAME.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """True for a host name or IP address as in a URL, without port and brackets."""
    return _HOST.fullmatch(text) is not None


def is_header(text: str) -> bool:
    return _HEADER.fullmatch(text) is not None


def is_region(text: str) -> bool:
    """True for country and language, as search engines write them."""
    return _REGION.fullmatch(text) is not None


def is_start_page(address: str) -> bool:
    """True unless it is the search endpoint of a SearXNG. An instance below /search ends with a slash."""
    return not address.endswith("/search")


def is_time_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


class Environment:
    """The environment variables of the process. Collects all errors, so that they can be fixed together."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        self.faults: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """`NAME`, or the content of the file `NAME_FILE`, which keeps secrets out of the environment."""
        try:
            return variables.text(self.variables, name) or default
        except UnreadableError as error:
            self.faults.append(str(error))
            return default

    def number(self, name: str, default: int, low: int, high: int) -> int:
        return self._read(name, default, lambda text: variables.whole_number(text, low, high))

    def seconds(self, name: str, default: float, low: float, high: float) -> float:
        return self._read(name, default, lambda text: variables.seconds(text, low, high))

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, default, variables.flag)

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        text = self.text(name, default).lower()
        if text not in choices:
            self._fault(name, f"one of {', '.join(choices)}", text)
            return default
        return text

    def names(self, name: str, default: Sequence[str] = ()) -> list[str]:
        text = self.text(name)
        return [part.strip() for part in text.split(",") if part.strip()] if text else list(default)

    def address(self, name: str) -> str:
        """A URL with a secure connection: https, or this machine."""
        text = self.text(name)
        if text and not _ADDRESS.fullmatch(text):
            # Not repeated, as it may contain a password.
            self.faults.append(f"{name}: expected an address that begins with https://, without a name and password")
            return ""
        return text

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        try:
            return Path(text).expanduser().absolute() if text else None
        except RuntimeError:  # ~NAME of an unknown user
            self._fault(name, "a path", text)
            return None

    def upstream(self, name: str) -> str:
        """The base URL of an upstream: no password, no query, no fragment."""
        text = self.text(name)
        if text and not _UPSTREAM.fullmatch(text):
            # Not repeated, as it may contain a password.
            self.faults.append(f"{name}: expected an address like https://HOST/PATH, without a name and password")
        return text

    def database(self, name: str, default: str) -> dict[str, Any]:
        url = self.text(name, default)
        try:
            found = dict(environ.Env.db_url_config(url))
        except Exception:
            found = {}
        if found.get("ENGINE") not in ("django.db.backends.sqlite3", "django.db.backends.postgresql"):
            # Not repeated, as the URL may contain a password.
            self.faults.append(f"{name}: expected sqlite:///PATH or postgres://USER:PASSWORD@HOST:PORT/NAME")
            return {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        return found

    def checked(self, name: str, value: T, fits: Callable[[T], bool], expected: str) -> T:
        if not fits(value):
            self._fault(name, expected, str(value))
        return value

    def secret(self, name: str, *keys: str) -> None:
        """Require strong secrets. Their values are never repeated."""
        if not all(map(secrets.is_strong, keys)):
            self.faults.append(
                f"{name}: too easy to guess; expected at least 32 random characters, as from `openssl rand -hex 32`"
            )

    def finish(self) -> None:
        """Raises: ImproperlyConfigured: names every invalid variable."""
        if self.faults:
            raise ImproperlyConfigured("\n".join(self.faults))

    def _read(self, name: str, default: T, read: Callable[[str], T]) -> T:
        text = self.text(name)
        try:
            return read(text) if text else default
        except ValueError as error:
            self.faults.append(str(UnreadableError.because(name, error, text)))
            return default

    def _fault(self, name: str, expected: str, found: str) -> None:
        self.faults.append(str(UnreadableError.because(name, ValueError(f"expected {expected}"), found)))
