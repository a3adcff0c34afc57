"""DNS lookups. The system's resolver blocks and cannot be cancelled, so it runs in threads."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

LOOKUPS: Final = 32
LOOKUPS_OF_THE_WEB: Final = 16

LookUp = Callable[[str, int], list[str]]


def looked_up(host: str, port: int) -> list[str]:
    """All addresses of a name, as the system resolves it. Blocks."""
    results: list[tuple[Any, ...]] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


class Names:
    """Resolves names in dedicated threads, so that slow lookups block no other work.

    Concurrent requests for the same name share a lookup. A slow lookup keeps its thread until the system answers, even
    if no request waits for it any more. Beyond `most` threads, lookups are refused.
    """

    def __init__(self, most: int, look_up: LookUp = looked_up) -> None:
        self._most = most
        self._look_up = look_up
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> list[str]:
        """All addresses of a name.

        Raises:
            socket.gaierror: it has none, or too many names are being looked up.
        """
        if _is_address(host):
            return [host]
        # Shielded: other requests may share the lookup.
        return await asyncio.shield(asyncio.wrap_future(self._lookup(host, port)))

    def _lookup(self, host: str, port: int) -> Future[list[str]]:
        key = host, port
        with self._lock:
            if (current := self._running.get(key)) is not None:
                return current
            if len(self._running) >= self._most:
                raise socket.gaierror(socket.EAI_AGAIN, "too many names are being looked up")
            lookup = self._running[key] = Future()
        # Daemon threads: a name server that does not answer must not delay the shutdown.
        threading.Thread(target=self._work, args=(key, lookup), name="toolhub-names", daemon=True).start()
        return lookup

    def _work(self, key: tuple[str, int], lookup: Future[list[str]]) -> None:
        lookup.set_running_or_notify_cancel()
        try:
            addresses = self._look_up(*key)
        except BaseException as error:
            self._finish(key)
            lookup.set_exception(error)
        else:
            self._finish(key)
            lookup.set_result(addresses)

    def _finish(self, key: tuple[str, int]) -> None:
        with self._lock:
            del self._running[key]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# Separate threads: agents choose names on the open web, whose lookups must not delay the connections of operators.
of_connections: Final = Names(LOOKUPS)
of_the_web: Final = Names(LOOKUPS_OF_THE_WEB)
