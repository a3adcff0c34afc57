"""The hints of a tool in words: what its source claims, and what applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.admin import states
from tools_app.catalog.entry import effective_hints
from tools_app.governance import hints
from tools_app.models import Definition, ToolRecord
from tools_app.sdk.hints import Hints
from tools_app.sdk.spec import ToolSpec

# What an operator decides, with what it means.
WORDS: Final = {
    "read_only": (_lazy("Read-only"), _lazy("A call changes nothing.")),
    "destructive": (_lazy("Destructive"), _lazy("A call may delete or overwrite.")),
    "idempotent": (_lazy("Idempotent"), _lazy("Repeating a call has no further effect: failed ones are retried.")),
    "open_world": (_lazy("External access"), _lazy("It accesses external systems, such as the web.")),
}
_DECISIONS: Final = {True: "yes", False: "no", None: ""}
VALUES: Final = {decision: value for value, decision in _DECISIONS.items()}


@dataclass(frozen=True, slots=True)
class HintRow:
    """One hint: what the source claims, what applies, and what an operator has set."""

    name: str
    title: str
    help: str
    claimed: str
    effective: str
    # `yes`, `no`, or empty: what the hub assumes.
    decided: str


def claimed(version: Definition | None) -> Hints:
    """What a version says of itself; where it says nothing, the worst."""
    claims = hints.claimed(version)
    is_open = claims["open_world"] is not False
    return Hints(claims["read_only"] is True, claims["destructive"], claims["idempotent"], is_open)


def in_words(hints: Hints) -> str:
    effect = states.effect(read_only=hints.read_only, destructive=hints.destroys)
    words = [str(states.EFFECTS[effect])]
    if hints.writes and hints.idempotent:
        words.append(_("idempotent"))
    return ", ".join(words)


def rows(record: ToolRecord, spec: ToolSpec) -> list[HintRow]:
    claims, effective = hints.claimed(record.definition), effective_hints(record, spec).as_dict()
    return [
        HintRow(
            name=part,
            title=str(title),
            help=str(help),
            claimed=_answer(claims[part]),
            effective=_answer(effective[hints.HINTS[part][0]]),
            decided=_DECISIONS[getattr(record, f"hint_{part}")],
        )
        for part, (title, help) in WORDS.items()
    ]


def _answer(value: object) -> str:
    return _("yes") if value is True else _("no") if value is False else _("not stated")
