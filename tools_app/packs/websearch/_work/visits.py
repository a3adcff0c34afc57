"""How pages are fetched: politely to each host, and as its robots.txt asks, if the operator has set that."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from tools_app.http import Page, WebClient
from tools_app.packs.websearch._work.engines import Remaining
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch._work.robots import Robots

AT_ONCE: Final = 2
MOST_HOSTS: Final = 1_000


class _Host:
    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.places = asyncio.Semaphore(AT_ONCE)
        self.visitors = 0


class Hosts:
    """At most two requests at once for each host, and one in an interval. For use on one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        host = self._hosts.setdefault(name, _Host(Pace(self._seconds)))
        self._hosts.move_to_end(name)
        host.visitors += 1
        try:
            async with host.places:
                await host.pace.wait()
                yield
        finally:
            host.visitors -= 1
            self._drop_idle()

    def __len__(self) -> int:
        return len(self._hosts)

    def _drop_idle(self) -> None:
        """The least recently used ones: their interval is over."""
        excess = len(self._hosts) - MOST_HOSTS
        idle = [name for name, host in self._hosts.items() if not host.visitors][: max(0, excess)]
        for name in idle:
            del self._hosts[name]


class Visitor:
    """Fetches pages. `robots` is None if the operator does not follow robots.txt."""

    def __init__(self, web: WebClient, hosts: Hosts, robots: Robots | None, seconds: float) -> None:
        self._web = web
        self._hosts = hosts
        self._robots = robots
        self._seconds = seconds

    async def page(self, url: str, operation: str, headers: Mapping[str, str], remaining: Remaining) -> Page:
        """Raises: ToolError: the page is not public, is not available, or must not be read."""
        async with self._hosts.turn(_host_of(url)):
            if self._robots is not None and _host_of(url):
                await self._robots.check(url, operation, self._left(remaining))
            page = await self._web.get(
                url, operation=operation, headers=headers, reads="bytes", seconds=self._left(remaining)
            )
        if self._robots is not None and page.url != url:
            await self._robots.check(page.url, operation, self._left(remaining))
        return page

    def _left(self, remaining: Remaining) -> float:
        return min(self._seconds, remaining())


def _host_of(url: str) -> str:
    """Empty if the URL is not valid, which the client says."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
