"""The states of a tool, in the words that operators read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.catalog.snapshot import Snapshot
from tools_app.catalog.source_states import SourceState
from tools_app.models import ToolRecord


class State(StrEnum):
    ON = "on"
    OFF = "off"
    UNAVAILABLE = "unavailable"
    GONE = "gone"


class Effect(StrEnum):
    """The declared effect of a tool."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"


# A tool that declares nothing counts as destructive.
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
SOURCE_WORDS: Final = {
    SourceState.AVAILABLE: _lazy("available"),
    SourceState.INCOMPLETE: _lazy("partly loaded"),
    SourceState.FAILED: _lazy("failed"),
    SourceState.STARTING: _lazy("starting"),
    SourceState.SIGN_IN: _lazy("sign-in required"),
    SourceState.NOT_CONFIGURED: _lazy("not configured"),
    SourceState.OFF: _lazy("off"),
}
SOURCE_TONES: Final = {
    SourceState.AVAILABLE: "good",
    SourceState.INCOMPLETE: "warn",
    SourceState.FAILED: "bad",
    SourceState.STARTING: "quiet",
    SourceState.SIGN_IN: "warn",
    SourceState.NOT_CONFIGURED: "quiet",
    SourceState.OFF: "quiet",
}
TONES: Final = {State.ON: "good", State.OFF: "quiet", State.UNAVAILABLE: "warn", State.GONE: "quiet"}


@dataclass(frozen=True, slots=True)
class ToolCondition:
    """The state of one tool, the reason, and what to do."""

    state: State
    reason: str = ""
    next_step: str = ""

    @property
    def words(self) -> str:
        return str(WORDS[self.state])

    @property
    def tone(self) -> str:
        """The colour; the word is always shown as well."""
        return TONES[self.state]


def condition(record: ToolRecord, snapshot: Snapshot) -> ToolCondition:
    if record.retired_at is not None:
        return ToolCondition(State.GONE, next_step=_("No source provides this tool any more. Its history is kept."))
    if not record.enabled:
        return ToolCondition(State.OFF, next_step=_("All calls are refused."))
    entry = snapshot.find(record.name)
    if entry is None:
        return ToolCondition(State.UNAVAILABLE, _("not in the catalog yet"), _("Run `toolhub synctools`."))
    if entry.refusal is not None:
        return ToolCondition(State.UNAVAILABLE, entry.refusal.reason, entry.refusal.advice)
    if entry.is_held:
        return ToolCondition(State.UNAVAILABLE, _("a new version is not approved"), _("Decide on it under Approvals."))
    return ToolCondition(State.ON)


def effect(*, read_only: bool, destructive: bool | None) -> Effect:
    if read_only:
        return Effect.READS
    return Effect.WRITES if destructive is False else Effect.DESTROYS


def with_effect(records: QuerySet[ToolRecord], effect: Effect) -> QuerySet[ToolRecord]:
    """The records of tools with this effect."""
    if effect is Effect.READS:
        return records.filter(read_only=True)
    writing_tools = records.filter(read_only=False)
    adding_tools = writing_tools.filter(definition__body__annotations__destructiveHint=False)
    return adding_tools if effect is Effect.WRITES else writing_tools.exclude(pk__in=adding_tools.values("pk"))


def unavailable(snapshot: Snapshot) -> list[str]:
    """Names of enabled tools that cannot be called."""
    return [entry.name for entry in snapshot.all if entry.enabled and (entry.is_held or not entry.callable)]


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
    """The number of tools in each state, in one query."""
    present = Q(retired_at=None)
    totals = ToolRecord.objects.aggregate(
        switched_on=Count("pk", filter=present & Q(enabled=True)),
        switched_off=Count("pk", filter=present & Q(enabled=False)),
        retired=Count("pk", filter=~present),
    )
    kept_out = len(unavailable(snapshot))
    return {
        State.ON: max(0, totals["switched_on"] - kept_out),
        State.OFF: totals["switched_off"],
        State.UNAVAILABLE: kept_out,
        State.GONE: totals["retired"],
    }
