"""Refused calls, so recorded that nobody can fill the disk by being refused.

The first refusals of a caller for one tool and reason are rows of their own. Those beyond that, and all that cost the
hub nothing to repeat – no key, too many calls, something stopped – are counted in one row a minute.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tools_app.models import Call

MINUTE: Final = 60.0
ROWS_A_MINUTE: Final = 10
MOST_KINDS: Final = 10_000
COUNTED_AT_ONCE: Final = frozenset({"AUTHENTICATION_ERROR", "RATE_LIMIT_EXCEEDED", "STOPPED"})


@dataclass(slots=True)
class _Kind:
    """Refusals of one kind within a minute."""

    until: float
    seen: int = 0
    row: Call | None = None
    counted: int = 0
    written: int = 0


class Refusals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: OrderedDict[tuple[str, str, str, str], _Kind] = OrderedDict()
        self._changed: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    def counted(self, call: Call) -> Call | None:
        """The row in which this refusal is counted; None when it gets one of its own."""
        # A name that does not exist is free to choose: a thousand of them are one kind.
        tool = "" if call.code == "TOOL_NOT_FOUND" else call.tool_name
        key = (call.caller_id, tool, call.code, call.door)
        now = self._clock()
        with self._lock:
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
                kind.row = call
            kind.counted += 1
            self._changed[kind.row.id] = kind
            return kind.row

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

    def written(self, rows: list[tuple[Call, int]]) -> None:
        with self._lock:
            for call, number in rows:
                kind = self._changed[call.id]
                kind.written += number
                if kind.written == kind.counted:
                    del self._changed[call.id]
