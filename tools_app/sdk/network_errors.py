"""Whether an exception, or one of its causes, is a network failure.

Exceptions of HTTP libraries are recognised by class name, so that no library has to be imported: tools may use any.
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
# Error codes in the style of Node.
_CODES: Final = frozenset({errno.errorcode[number] for number in _NUMBERS} | {"EAI_AGAIN"})
_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
_CLASSES: Final = frozenset(
    {
        *("ConnectError", "ReadError", "WriteError", "CloseError", "NetworkError", "RemoteProtocolError"),
        *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutException"),
    }
)


def is_network_error(error: BaseException) -> bool:
    """Whether the exception, or one of its causes, is a failed connection or a network timeout."""
    return any(_is_one(cause) for cause in causes(error))


def causes(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """An exception and all its causes; suppressed ones (`from None`) only if `hidden`."""
    pending: list[BaseException | None] = [error]
    visited: set[int] = set()
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in visited:
            continue
        visited.add(id(cause))
        yield cause
        pending += (cause.__cause__, cause.__context__ if hidden or not cause.__suppress_context__ else None)
        if isinstance(cause, BaseExceptionGroup):
            pending += cause.exceptions


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
