"""Whether an exception means that the network failed, however deep that is inside of it, and whoever raised it.

HTTP libraries are known by the names of their classes: none is imported for that, and tools may use any.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from typing import Final

_NUMBERS: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "ETIMEDOUT", "EPIPE", "ESHUTDOWN"),
        *("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH"),
    )
    if hasattr(errno, name)
)
# As Node and libraries made after it say it.
_CODES: Final = frozenset({errno.errorcode[number] for number in _NUMBERS} | {"EAI_AGAIN"})
_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
_CLASSES: Final = frozenset(
    {
        *("ConnectError", "ReadError", "WriteError", "CloseError", "NetworkError", "RemoteProtocolError"),
        *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutException"),
    }
)


def is_network_error(error: BaseException) -> bool:
    """Whether it, or what led to it, is a connection or a host that could not be reached or did not answer in time."""
    return any(_is_one(cause) for cause in causes(error))


def causes(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """An exception and all that led to it; what its author left out (`from None`) only where that is asked for."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += (found.__cause__, found.__context__ if hidden or not found.__suppress_context__ else None)
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions


def _is_one(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return True
    code = getattr(error, "code", None)
    if isinstance(code, str) and code in _CODES:
        return True
    return any(
        kind.__name__ in _CLASSES and kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(error).__mro__
    )
