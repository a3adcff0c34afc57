"""What state a tool is in, in the words that operators read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.catalog.snapshot import Snapshot
from tools_app.models import ToolRecord


class State(StrEnum):
    ON = "on"
    OFF = "off"
    UNAVAILABLE = "unavailable"
    GONE = "gone"


class Effect(StrEnum):
    """What a tool says that it does to the world."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"


# What a tool says in its definition; one that says nothing may destroy.
DESTRUCTIVE: Final = "definition__body__annotations__destructiveHint"

WORDS: Final = {
    State.ON: _lazy("on"),
    State.OFF: _lazy("off"),
    State.UNAVAILABLE: _lazy("not callable"),
    State.GONE: _lazy("removed"),
}
EFFECTS: Final = {
    Effect.READS: _lazy("read-only"),
    Effect.WRITES: _lazy("write"),
    Effect.DESTROYS: _lazy("destructive"),
}
TONES: Final = {State.ON: "good", State.OFF: "quiet", State.UNAVAILABLE: "warn", State.GONE: "quiet"}


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of one tool, why it is so, and what to do about it."""

    state: State
    reason: str = ""
    next_step: str = ""

    @property
    def words(self) -> str:
        return str(WORDS[self.state])

    @property
    def tone(self) -> str:
        """How it is coloured; the word is always there too."""
        return TONES[self.state]


def condition(record: ToolRecord, snapshot: Snapshot) -> Condition:
    if record.retired_at is not None:
        return Condition(State.GONE, next_step=_("No source provides this tool any more. Its history is kept."))
    if not record.enabled:
        return Condition(State.OFF, next_step=_("All calls are refused."))
    entry = snapshot.find(record.name)
    if entry is None:
        return Condition(State.UNAVAILABLE, _("not in the catalog yet"), _("Run `toolhub synctools`."))
    if entry.refusal is not None:
        return Condition(State.UNAVAILABLE, entry.refusal.reason, entry.refusal.advice)
    return Condition(State.ON)


def effect(*, read_only: bool, destructive: bool | None) -> Effect:
    if read_only:
        return Effect.READS
    return Effect.WRITES if destructive is False else Effect.DESTROYS


def having(records: QuerySet[ToolRecord], effect: Effect) -> QuerySet[ToolRecord]:
    """The records of tools that say so."""
    if effect is Effect.READS:
        return records.filter(read_only=True)
    writing = records.filter(read_only=False)
    adding = writing.filter(definition__body__annotations__destructiveHint=False)
    return adding if effect is Effect.WRITES else writing.exclude(pk__in=adding.values("pk"))


def unavailable(snapshot: Snapshot) -> list[str]:
    """Names of the tools that are switched on and still cannot be called."""
    return [entry.name for entry in snapshot.all if entry.enabled and not entry.callable]


def within(records: QuerySet[ToolRecord], state: State, snapshot: Snapshot) -> QuerySet[ToolRecord]:
    """The records that are in a state."""
    if state is State.GONE:
        return records.exclude(retired_at=None)
    present = records.filter(retired_at=None)
    if state is State.OFF:
        return present.filter(enabled=False)
    kept_out = unavailable(snapshot)
    if state is State.UNAVAILABLE:
        return present.filter(enabled=True, name__in=kept_out)
    return present.filter(enabled=True).exclude(name__in=kept_out)


def counts(snapshot: Snapshot) -> dict[State, int]:
    """How many tools are in each state; one query, whatever there is."""
    present = Q(retired_at=None)
    found = ToolRecord.objects.aggregate(
        switched_on=Count("pk", filter=present & Q(enabled=True)),
        switched_off=Count("pk", filter=present & Q(enabled=False)),
        retired=Count("pk", filter=~present),
    )
    kept_out = len(unavailable(snapshot))
    return {
        State.ON: max(0, found["switched_on"] - kept_out),
        State.OFF: found["switched_off"],
        State.UNAVAILABLE: kept_out,
        State.GONE: found["retired"],
    }
