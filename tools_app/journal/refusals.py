"""Refused calls, so recorded that nobody can fill the disk by being refused.

The first refusals of a caller for one tool and reason are rows of their own. Those beyond that, and all that cost the
hub nothing to repeat – no key, too many calls, something stopped – are counted in one row a minute. Of requests without
a valid key there is one for each address and start of a key, up to a number: both are free to choose.
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
# Beyond so many in a minute, strangers are counted together.
MOST_STRANGERS: Final = 100
COUNTED_AT_ONCE: Final = frozenset({"AUTHENTICATION_ERROR", "RATE_LIMIT_EXCEEDED", "STOPPED"})


@dataclass(frozen=True, slots=True)
class Presented:
    """What is known of a key with which somebody was refused. It is the `detail` of the error, and never leaves."""

    prefix: str = ""
    """The start of it, which is no secret."""
    caller_id: str = ""
    """Whose it is, where that is known already."""
    caller_name: str = ""
    hashes: tuple[str, ...] = field(default=(), repr=False)
    """By which the journal finds out whose it was: not at once, so that the time of a refusal tells nothing of that."""


@dataclass(slots=True)
class _Kind:
    """Refusals of one kind within a minute."""

    until: float
    seen: int = 0
    row: Call | None = None
    hashes: tuple[str, ...] = ()
    counted: int = 0
    written: int = 0


class Refusals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: OrderedDict[tuple[str, ...], _Kind] = OrderedDict()
        self._strangers: set[tuple[str, str]] = set()
        self._strangers_until = 0.0
        self._changed: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    def counted(self, call: Call, hashes: tuple[str, ...] = ()) -> Call | None:
        """The row in which this refusal is counted; None when it gets one of its own."""
        # A name that does not exist is free to choose: a thousand of them are one kind.
        tool = "" if call.code == "TOOL_NOT_FOUND" else call.tool_name
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
            kind.seen += 1
            if kind.seen <= ROWS_A_MINUTE and call.code not in COUNTED_AT_ONCE:
                return None
            if kind.row is None:
                kind.row, kind.hashes = call, hashes
            kind.counted += 1
            self._changed[kind.row.id] = kind
            return kind.row

    def _bound(self, call: Call, now: float) -> None:
        """Take off a refusal what would make it one of its own, when there were too many strangers already."""
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

    def changed(self) -> list[tuple[Call, int]]:
        """The rows that are not written as they are, each with how many refusals are new in it."""
        with self._lock:
            found = []
            for kind in self._changed.values():
                if kind.row is not None:
                    kind.row.count = kind.counted
                    found.append((kind.row, kind.counted - kind.written))
            return found

    def unnamed(self) -> list[tuple[Call, tuple[str, ...]]]:
        """The rows of which it is not known yet whether the key was one of this hub, with what tells it."""
        with self._lock:
            return [(kind.row, kind.hashes) for kind in self._changed.values() if kind.row is not None and kind.hashes]

    def written(self, rows: list[tuple[Call, int]]) -> None:
        with self._lock:
            for call, number in rows:
                kind = self._changed[call.id]
                kind.written += number
                kind.hashes = ()
                if kind.written == kind.counted:
                    del self._changed[call.id]
