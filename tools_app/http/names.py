"""Looking names up. The system does it in its own time, and nothing can end it before."""

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
    found: list[tuple[Any, ...]] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """Resolves names in threads that do nothing else: slow ones take none that other work needs.

    Requests that ask for the same name at the same time share its lookup. A slow name keeps its thread until the system
    answers, also when no request waits for it any more. Beyond `most` such threads, lookups are refused.
    """

    def __init__(self, most: int, look_up: LookUp = looked_up) -> None:
        self._most = most
        self._look_up = look_up
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, int], Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> list[str]:
        """All addresses of a name.

        Raises:
            socket.gaierror: it has none, or too many names are being looked up.
        """
        if _is_address(host):
            return [host]
        # Others wait for it as well: it outlives whoever hangs up.
        return await asyncio.shield(asyncio.wrap_future(self._lookup(host, port)))

    def _lookup(self, host: str, port: int) -> Future[list[str]]:
        key = host, port
        with self._lock:
            if (found := self._under_way.get(key)) is not None:
                return found
            if len(self._under_way) >= self._most:
                raise socket.gaierror(socket.EAI_AGAIN, "too many names are being looked up")
            lookup = self._under_way[key] = Future()
        # Daemons: a name server that does not answer must not hold up the end of the process.
        threading.Thread(target=self._work, args=(key, lookup), name="toolhub-names", daemon=True).start()
        return lookup

    def _work(self, key: tuple[str, int], lookup: Future[list[str]]) -> None:
        lookup.set_running_or_notify_cancel()
        try:
            found = self._look_up(*key)
        except BaseException as error:
            self._done(key)
            lookup.set_exception(error)
        else:
            self._done(key)
            lookup.set_result(found)

    def _done(self, key: tuple[str, int]) -> None:
        with self._lock:
            del self._under_way[key]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# Agents choose the names of the open web: however slow those are, connections of operators have threads of their own.
of_connections: Final = Names(LOOKUPS)
of_the_web: Final = Names(LOOKUPS_OF_THE_WEB)
