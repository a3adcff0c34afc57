"""robots.txt: which pages of a site programs are asked not to read. RFC 9309."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from tools_app.http import WebClient
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, ToolError, shortened

MOST_BYTES: Final = 512 * 1024
MOST_RULES: Final = 5_000
MOST_SITES: Final = 1_000
KEPT_SECONDS: Final = 3_600.0
# If the file could not be fetched.
RETRY_SECONDS: Final = 60.0
_TOKEN: Final = re.compile(r"[A-Za-z_-]+")
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: str
    allows: bool


@dataclass(slots=True)
class _Site:
    """The rules of a site, None if they could not be fetched."""

    rules: Sequence[Rule] | None = None
    expires_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Robots:
    """Checks pages before they are read. For use on one event loop."""

    def __init__(self, web: WebClient, user_agent: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._web = web
        token = _TOKEN.match(user_agent)
        self._token = token[0].lower() if token is not None else ""
        self._clock = clock
        self._sites: OrderedDict[str, _Site] = OrderedDict()

    async def check(self, url: str, operation: str, seconds: float) -> None:
        """Raises: ApiError, if the site asks not to read this page, or its robots.txt cannot be fetched."""
        parts = urlsplit(url)
        site = self._site(f"{parts.scheme}://{parts.netloc}".lower())
        async with site.lock:
            if site.expires_at <= self._clock():
                site.rules = await self._fetched(f"{parts.scheme}://{parts.netloc}/robots.txt", seconds)
                site.expires_at = self._clock() + (RETRY_SECONDS if site.rules is None else KEPT_SECONDS)
        host = shortened(parts.hostname or "")
        if site.rules is None:
            raise ApiError(
                f"Failed to {operation}: robots.txt of {host} cannot be fetched, so its pages are not read",
                context={"operation": operation},
                next_step="Try again later, or look for another page.",
            )
        if not permits(site.rules, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"):
            raise ApiError(
                f"Failed to {operation}: {host} asks programs not to read it (robots.txt)",
                context={"operation": operation},
                next_step="Look for another page.",
            )

    def _site(self, origin: str) -> _Site:
        site = self._sites.setdefault(origin, _Site())
        self._sites.move_to_end(origin)
        if len(self._sites) > MOST_SITES:
            self._sites.popitem(last=False)
        return site

    async def _fetched(self, url: str, seconds: float) -> Sequence[Rule] | None:
        try:
            page = await self._web.get(url, operation="read robots.txt", reads="bytes", seconds=seconds)
        except InvalidArgumentsError:
            return ()  # It redirects to where nothing is read. The page itself has the same checks.
        except ToolError as error:
            status = error.context.get("statusCode")
            has_none = isinstance(error, ApiError) and (status is None or (400 <= status < 500 and status != 429))
            return () if has_none else None
        data: bytes = page.data or b""
        return rules_for(self._token, data[:MOST_BYTES].decode("utf-8-sig", errors="replace"))


def rules_for(token: str, source: str) -> Sequence[Rule]:
    """The rules for a program: of all groups that name it, else of those for every program."""
    own: list[Rule] = []
    common: list[Rule] = []
    names: set[str] = set()
    in_rules = True
    has_own = False
    for name, value in _lines(source):
        if name == "user-agent":
            names = {value.lower()} if in_rules else names | {value.lower()}
            in_rules = False
            has_own = has_own or (bool(token) and token in names)
        elif name in ("allow", "disallow"):
            in_rules = True
            rules = own if token and token in names else common if "*" in names else []
            if value and len(rules) < MOST_RULES:
                rules.append(Rule(_normal(value), name == "allow"))
    return own if has_own else common


def _lines(source: str) -> Iterator[tuple[str, str]]:
    for line in source.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield name.strip().lower(), value.strip()


def permits(rules: Sequence[Rule], path: str) -> bool:
    """The longest rule that matches decides; of two, the one that allows."""
    path = _normal(path)
    if path == "/robots.txt":
        return True
    matching = [(len(rule.pattern), rule.allows) for rule in rules if _matches(rule.pattern, path)]
    return not matching or max(matching)[1]


def _matches(pattern: str, path: str) -> bool:
    """In linear time: sites write the patterns."""
    is_whole = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    end = len(first)
    if not others:
        return not is_whole or end == len(path)
    for piece in others[:-1]:
        begin = path.find(piece, end)
        if begin < 0:
            return False
        end = begin + len(piece)
    last = others[-1]
    return path.endswith(last) and len(path) - len(last) >= end if is_whole else path.find(last, end) >= 0


def _normal(path: str) -> str:
    """With one spelling for each character: `/%7Ea` is `/~a`, `/ä` is `/%C3%A4`."""

    def spelled(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else match[0].upper()

    return _ENCODED.sub(spelled, quote(path, safe=_SAFE))
