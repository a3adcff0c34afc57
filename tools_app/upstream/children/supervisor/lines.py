"""Lines of bytes in linear time, of limited length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_LINE: Final = 16 * 1024 * 1024
# Of a line that is too long: as much of its beginning and end as an id needs.
_HEAD: Final = 256
_TAIL: Final = 128


class Lines:
    """Divides chunks into lines without their ends. `too_long` gets beginning and end of a line over the limit."""

    def __init__(self, too_long: Callable[[bytes, bytes], None], most: int = MOST_LINE) -> None:
        self._too_long = too_long
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        # Beginning of a line that is being skipped.
        self._head: bytes | None = None
        self._tail = b""

    @property
    def is_skipping(self) -> bool:
        return self._head is not None

    def feed(self, data: bytes) -> list[bytes]:
        first, *rest = data.split(b"\n")
        self._add(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [*self._end(), *(line for line in whole if line.strip())]
        self._add(last)
        return lines

    def _add(self, part: bytes) -> None:
        if self._head is not None:
            self._tail = (self._tail + part[-_TAIL:])[-_TAIL:]
        elif self._size + len(part) > self._most:
            start = b"".join((*self._parts, part[:_HEAD]))
            self._head, self._tail = start[:_HEAD], (start[-_TAIL:] + part[-_TAIL:])[-_TAIL:]
            self._parts.clear()
            self._size = 0
        elif part:
            self._parts.append(part)
            self._size += len(part)

    def _end(self) -> list[bytes]:
        if self._head is not None:
            head, self._head = self._head, None
            self._too_long(head, self._tail)
            return []
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return [line] if line.strip() else []
