"""Refused calls, recorded so that callers cannot fill the disk by being refused.

The first refusals of a caller for one tool and error code get rows of their own. Further ones, and all that cost the
caller nothing to repeat – no key, no call, too many calls, something stopped – are counted in one row a minute.
Requests without a valid key are told apart by address and key prefix, up to a limit: both are free to choose.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tools_app.models import Call

MINUTE: Final = 60.0
ROWS_A_MINUTE: Final = 10
MOST_KINDS: Final = 10_000
# Beyond this number per minute, requests without a valid key are counted together.
MOST_STRANGERS: Final = 100
COUNTED_AT_ONCE: Final = frozenset({"AUTHENTICATION_ERROR", "RATE_LIMIT_EXCEEDED", "STOPPED", "MAINTENANCE"})


@dataclass(frozen=True, slots=True)
class Presented:
    """What is known about a refused key. It is the `detail` of the error, and never sent to the caller."""

    prefix: str = ""
    """The start of the key, which is not secret."""
    caller_id: str = ""
    """The owner, if known already."""
    caller_name: str = ""
    words: str = ""
    """For the journal: why, if the caller is not told."""
    hashes: tuple[str, ...] = field(default=(), repr=False)
    """For the journal, which identifies the owner later: a lookup during the request would allow a timing attack."""


@dataclass(slots=True)
class _Kind:
    """Refusals of one kind within a minute."""

    until: float
    number: int = 0
    row: Call | None = None
    hashes: tuple[str, ...] = ()
    count: int = 0
    written: int = 0


class Refusals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: OrderedDict[tuple[str, ...], _Kind] = OrderedDict()
        self._strangers: set[tuple[str, str]] = set()
        self._strangers_until = 0.0
        self._changed: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    def count(self, call: Call, hashes: tuple[str, ...] = ()) -> Call | None:
        """The row in which this refusal is counted; None if it gets a row of its own."""
        # Names of unknown tools are free to choose: all of them count as one kind.
        is_unknown = call.code == "TOOL_NOT_FOUND"
        tool = "" if is_unknown else call.tool_name
        is_call = is_unknown or call.tool_name != ""
        now = self._clock()
        with self._lock:
            self._bound(call, now)
            key = (call.caller_id, tool, call.code, call.door, call.address, call.key_prefix)
            kind = self._kinds.get(key)
            if kind is None or now >= kind.until:
                kind = self._kinds[key] = _Kind(now + MINUTE)
                while len(self._kinds) > MOST_KINDS:
                    self._kinds.popitem(last=False)
            self._kinds.move_to_end(key)
            kind.number += 1
            if kind.number <= ROWS_A_MINUTE and is_call and call.code not in COUNTED_AT_ONCE:
                return None
            if kind.row is None:
                kind.row, kind.hashes = call, hashes
            kind.count += 1
            self._changed[kind.row.id] = kind
            return kind.row

    def _bound(self, call: Call, now: float) -> None:
        """Remove what distinguishes the refusal if there are too many strangers already."""
        if now >= self._strangers_until:
            self._strangers.clear()
            self._strangers_until = now + MINUTE
        stranger = (call.address, call.key_prefix)
        if stranger in self._strangers or not any(stranger):
            return
        if len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(stranger)
        else:
            call.address = call.key_prefix = call.client = ""

    @property
    def waiting(self) -> bool:
        return bool(self._changed)

    def unsaved(self) -> list[tuple[Call, int]]:
        """The rows to write, each with the number of refusals since the last write."""
        with self._lock:
            pending = []
            for kind in self._changed.values():
                if kind.row is not None:
                    kind.row.count = kind.count
                    pending.append((kind.row, kind.count - kind.written))
            return pending

    def unnamed(self) -> list[tuple[Call, tuple[str, ...]]]:
        """Rows whose key has not been looked up yet, with the hashes of the key."""
        with self._lock:
            return [(kind.row, kind.hashes) for kind in self._changed.values() if kind.row is not None and kind.hashes]

    def mark_written(self, rows: list[tuple[Call, int]]) -> None:
        with self._lock:
            for call, number in rows:
                kind = self._changed[call.id]
                kind.written += number
                kind.hashes = ()
                if kind.written == kind.count:
                    del self._changed[call.id]
