"""Which agents are connected to this process: kept in memory, and written by the journal's thread.

Arrivals and departures are written within about a second, call counts within a few. Nothing waits for that.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tools_app.journal.failures import storable
from tools_app.models import Agent
from tools_app.sdk.context import Caller

# Intervals for writing arrivals and departures, and call counts.
ARRIVALS_SECONDS: Final = 1.0
FIGURES_SECONDS: Final = 10.0
MOST_TOOLSETS: Final = 200


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class Presence:
    """One connected agent.

    `idle_seconds` is for agents that disconnect silently: idle for longer, they count as gone.
    """

    door: str
    caller: Caller
    client: str = ""
    version: str = ""
    protocol: str = ""
    era: str = Agent.Era.HANDSHAKE
    idle_seconds: float | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    since: datetime = field(default_factory=_now)
    seen_at: datetime = field(default_factory=_now)
    called_at: datetime | None = None
    calls: int = 0
    # Number of its requests in progress.
    busy: int = 0
    left: bool = False
    _written: tuple[datetime, int] | None = field(default=None, init=False)

    def seen(self, *, calls: bool) -> None:
        """Update the time stamp on a request; `calls`: the request runs a tool."""
        self.seen_at = _now()
        if calls:
            self.calls += 1
            self.called_at = self.seen_at

    @property
    def arrived(self) -> bool:
        """True once its row has been written."""
        return self._written is not None

    @property
    def changed(self) -> bool:
        return self._written != (self.seen_at, self.calls)

    def row(self, process_id: str) -> Agent:
        return Agent(
            id=self.id,
            process_id=process_id,
            door=self.door,
            client=storable(self.client, 100),
            version=storable(self.version, 64),
            protocol=storable(self.protocol, 32),
            era=self.era,
            toolset=_listed(self.caller.reach.toolsets or ()),
            caller_kind=self.caller.kind,
            caller_id=self.caller.id,
            caller_name=storable(self.caller.name, 150),
            since=self.since,
            seen_at=self.seen_at,
            called_at=self.called_at,
            calls=self.calls,
        )

    def mark_written(self, row: Agent) -> None:
        self._written = (row.seen_at, row.calls)


class Attendance:
    """Agents arrive and leave on event loops; the journal's thread fetches the changes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._present: dict[str, Presence] = {}
        self._gone: list[Presence] = []
        self._lock = threading.Lock()
        self._next_figures = 0.0

    def arrived(self, presence: Presence) -> Presence:
        with self._lock:
            self._present[presence.id] = presence
        return presence

    def left(self, presence: Presence) -> None:
        with self._lock:
            self._leave(presence)

    def news(self) -> list[Presence]:
        """Agents whose rows are outdated, including those that have left."""
        now = self._clock()
        with self._lock:
            for presence in [agent for agent in self._present.values() if _is_idle(agent)]:
                self._leave(presence)
            coming = [agent for agent in self._present.values() if not agent.arrived]
            if now < self._next_figures:
                return [*self._gone, *coming]
            self._next_figures = now + FIGURES_SECONDS
            return [*self._gone, *(agent for agent in self._present.values() if agent.changed)]

    def mark_written(self, rows: Iterable[tuple[Presence, Agent]], departed: Collection[Presence]) -> None:
        """Note which rows are written now."""
        with self._lock:
            self._gone = [agent for agent in self._gone if agent not in departed]
            for presence, row in rows:
                presence.mark_written(row)
                if presence.left and presence not in self._gone:
                    # Race condition: it left while its row was being written.
                    self._gone.append(presence)

    def _leave(self, presence: Presence) -> None:
        presence.left = True
        if self._present.pop(presence.id, None) is not None and presence.arrived:
            self._gone.append(presence)


def _is_idle(presence: Presence) -> bool:
    seconds = presence.idle_seconds
    return seconds is not None and not presence.busy and (_now() - presence.seen_at).total_seconds() > seconds


def _listed(toolsets: Collection[str]) -> str:
    """As many of their names as fit; none is truncated."""
    text = ", ".join(sorted(toolsets))
    return text if len(text) <= MOST_TOOLSETS else text[: MOST_TOOLSETS + 1].rpartition(", ")[0]
