"""Contract tests: runs the examples of tools through the engine and compares the answers with the documented ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils import timezone

from tools_app import engine
from tools_app.catalog.entry import Entry
from tools_app.models import ToolCheck, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.examples import Example
from tools_app.sdk.hub_errors import ContractBrokenError

DOOR: Final = "command"
MOST_FAULTS: Final = 20


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """The outcome of one example."""

    example: str
    call_id: str
    faults: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "example": self.example,
            "passed": not self.faults,
            "faults": list(self.faults),
            "callId": self.call_id,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of one tool's examples; `skipped` says why none was run."""

    tool: str
    outcomes: Sequence[ExampleOutcome] = field(default=())
    skipped: str = ""

    @property
    def passed(self) -> bool:
        return not self.skipped and not self.faults

    @property
    def faults(self) -> list[str]:
        return [f"{outcome.example}: {fault}" for outcome in self.outcomes for fault in outcome.faults]

    def as_dict(self) -> dict[str, Any]:
        report: dict[str, Any] = {"tool": self.tool, "passed": self.passed}
        if self.skipped:
            return report | {"skipped": self.skipped}
        return report | {"examples": [outcome.as_dict() for outcome in self.outcomes]}


def check(entry: Entry, caller: Caller, *, writes: bool = False) -> Report:
    """Run the examples of a tool and store the outcome. Tools that write are skipped unless `writes`."""
    if entry.refusal is not None:
        return Report(entry.name, skipped=entry.refusal.reason)
    examples = entry.spec.runnable_examples
    if not examples:
        return Report(entry.name, skipped="it has no examples that can be run")
    if entry.hints.writes and not writes:
        return Report(entry.name, skipped="it writes")
    report = Report(entry.name, [_outcome(entry, example, caller) for example in examples])
    _remember(report, entry)
    return report


def check_all(entries: Iterable[Entry], caller: Caller, *, writes: bool = False) -> list[Report]:
    return [check(entry, caller, writes=writes) for entry in entries]


def _outcome(entry: Entry, example: Example, caller: Caller) -> ExampleOutcome:
    try:
        result = engine.call_sync(entry.name, example.parameters, caller, door=DOOR)
    except ToolError as error:
        # The engine has logged it already, if it belongs in the error log.
        return ExampleOutcome(example.description, error.call_id or "", [f"{error.code}: {error.message}"])
    answer = result.answer.value
    if entry.spec.done and isinstance(answer, dict):
        answer = answer.get("data")
    faults = example.mismatches(answer)
    if faults:
        engine.file_sync(ContractBrokenError.of(entry.name, example.description, faults), tool=entry.name, door=DOOR)
    return ExampleOutcome(example.description, result.call_id, faults)


def _remember(report: Report, entry: Entry) -> None:
    record = ToolRecord.objects.filter(folded_name=entry.folded_name).first()
    if record is not None:
        ToolCheck.objects.update_or_create(
            tool=record,
            defaults={
                "passed": report.passed,
                "examples": len(report.outcomes),
                "faults": report.faults[:MOST_FAULTS],
                "definition_hash": entry.definition_hash,
                "checked_at": timezone.now(),
            },
        )
