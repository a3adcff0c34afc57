"""An execution from n8n in one shape for all versions: which nodes ran, how often, with what input and output.

n8n stores a list of runs for each node under the node's name; the node's type is in the copy of the workflow that was
saved with the execution. No part is assumed to exist or to have the right type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal

from tools_app.packs.n8n.secrecy import signature
from tools_app.packs.n8n.sizes import words

STICKY_NOTE: Final = "n8n-nodes-base.stickyNote"
MAIN: Final = "main"
_FAILED: Final = frozenset({"error", "crashed"})
# After a crash n8n reconstructs runs, with start times in seconds. Smaller numbers are seconds.
_SECONDS: Final = 100_000_000_000
_LARGEST: Final = 1e15

Outcome = Literal["success", "error"]
Status = Literal["success", "error", "waiting", "running", "canceled"]
# The documents define five statuses; n8n has more.
_STATUSES: Final[Mapping[str, Status]] = {
    "success": "success",
    "error": "error",
    "waiting": "waiting",
    "running": "running",
    "canceled": "canceled",
    "crashed": "error",
    "new": "waiting",
}


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a node. Sub-nodes of AI nodes have outputs of other kinds than `main`."""

    kind: str
    index: int
    items: list[Any]

    @property
    def label(self) -> int | str:
        return self.index if self.kind == MAIN else self.kind


@dataclass(frozen=True, slots=True)
class Source:
    """Where the input of a run came from."""

    node: str
    run: int
    output: int


@dataclass(frozen=True)
class Run:
    """One run of a node."""

    node: str
    index: int
    record: Mapping[str, Any]
    # See `Execution.reduced`.
    reduced: bool = False

    @property
    def outcome(self) -> Outcome:
        # With `continueOnFail` there are both an error and data.
        return "error" if str(self.record.get("executionStatus")) in _FAILED or self.error is not None else "success"

    @property
    def error(self) -> Any:
        redacted = as_map(self.record.get("redactedError"))
        if self.record.get("error") is None and redacted:
            error = {"name": str(redacted.get("type") or "Error"), "httpCode": redacted.get("httpCode")}
            return error | ({} if self.reduced else {"message": "n8n redacted the message"})
        return self.record.get("error")

    @property
    def waits(self) -> bool:
        return self.record.get("executionStatus") == "waiting"

    @cached_property
    def outputs(self) -> list[Output]:
        return _outputs(self.record.get("data"))

    @property
    def sources(self) -> list[Source]:
        entries = [each for each in as_list(self.record.get("source")) if isinstance(each, Mapping) and each]
        return [
            Source(
                str(each.get("previousNode", "")),
                number(each.get("previousNodeRun")),
                number(each.get("previousNodeOutput")),
            )
            for each in entries
        ]

    @property
    def override(self) -> list[Output]:
        """The input of a sub-node; its source names its parent node."""
        return _outputs(self.record.get("inputOverride"))

    @property
    def items(self) -> int:
        return sum(len(output.items) for output in self.outputs)

    @property
    def started(self) -> float | None:
        """In milliseconds since 1970."""
        start = self.record.get("startTime")
        if not isinstance(start, int | float) or isinstance(start, bool):
            return None
        return start * 1000 if start < _SECONDS else start

    @property
    def took(self) -> int:
        return max(0, number(self.record.get("executionTime")))

    @property
    def sub_execution(self) -> str:
        """The id of the sub-workflow execution that this run started; empty if there is none."""
        execution_id = as_map(as_map(self.record.get("metadata")).get("subExecution")).get("executionId")
        return str(execution_id or as_map(self.error).get("executionId") or "")


class Execution:
    """One execution, with its data.

    `reduced`: it was too large, and n8n omitted the content of items and errors.
    """

    def __init__(self, record: Mapping[str, Any], *, reduced: bool = False) -> None:
        data = as_map(record.get("data"))
        result = as_map(data.get("resultData"))
        self.record = record
        self.reduced = reduced
        self.workflow = as_map(record.get("workflowData"))
        self.id = words(str(record.get("id", "")), 100)
        self.n8n_status = str(record.get("status") or "unknown")
        self.too_large = record.get("dataTooLargeToDisplay") is True
        self.error = result.get("error")
        self.last_node = str(result.get("lastNodeExecuted") or "")
        self.pinned = as_map(result.get("pinData"))
        self.parent = str(as_map(data.get("parentExecution")).get("executionId") or "")
        self.redacted = bool(data.get("redactionInfo"))
        nodes = [node for node in as_list(self.workflow.get("nodes")) if isinstance(node, Mapping)]
        self.nodes: dict[str, Mapping[str, Any]] = {
            str(node.get("name", "")): node for node in nodes if node.get("type") != STICKY_NOTE
        }
        self.runs: dict[str, list[Run]] = {
            node: [Run(node, index, as_map(each), reduced) for index, each in enumerate(as_list(runs))]
            for node, runs in as_map(result.get("runData")).items()
        }

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Tokens and signatures that resume this execution. They must not appear anywhere in an answer."""
        notes = (as_map(run.record.get("metadata")) for runs in self.runs.values() for run in runs)
        signatures = {signature(note.get(key)) for note in notes for key in ("resumeUrl", "resumeFormUrl")}
        token = as_map(self.record.get("data")).get("resumeToken")
        candidates = signatures | ({token} if isinstance(token, str) else set())
        # Shorter texts are no secrets, and replacing them would damage other texts.
        return frozenset(each for each in candidates if len(each) >= 16)

    @property
    def workflow_id(self) -> str:
        return str(self.record.get("workflowId") or self.workflow.get("id") or "")

    @property
    def workflow_name(self) -> str:
        return str(self.workflow.get("name") or "Unknown Workflow")

    @property
    def status(self) -> Status:
        """The status in the documents' terms. Unknown statuses count as errors."""
        return _STATUSES.get(self.n8n_status, "error")

    @property
    def duration(self) -> int | None:
        """Milliseconds; None while it runs, and after a crash, whose time n8n does not know."""
        began, ended = moment(self.record.get("startedAt")), moment(self.record.get("stoppedAt"))
        if began is None or ended is None or self.n8n_status == "crashed":
            return None
        return max(0, round((ended - began).total_seconds() * 1000))

    @property
    def limit(self) -> float:
        """The workflow's timeout in seconds; 0 if there is none."""
        timeout = as_map(self.workflow.get("settings")).get("executionTimeout")
        return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else 0

    @cached_property
    def steps(self) -> list[Run]:
        """All runs, in order of their start."""
        runs = (run for runs in self.runs.values() for run in runs)
        return sorted(runs, key=lambda run: (run.started or 0, number(run.record.get("executionIndex"))))

    def type_of(self, node: str) -> str:
        return str(self.nodes.get(node, {}).get("type") or "unknown")

    def goes_on_after(self, node: str) -> bool:
        """Whether the node is set to pass its errors on as data."""
        settings = self.nodes.get(node, {})
        return settings.get("continueOnFail") is True or str(settings.get("onError", "")).startswith("continue")

    def outcome(self, node: str) -> Outcome:
        return "error" if any(run.outcome == "error" for run in self.runs[node]) else "success"

    def inputs(self, run: Run) -> Iterator[tuple[int | str, Any]]:
        """The input items of a run, each with the output of the earlier node that it came from."""
        if override := run.override:
            for output in override:
                yield from ((output.label, item) for item in output.items)
            return
        if run.outputs and all(output.kind != MAIN for output in run.outputs):
            return
        for source in run.sources:
            runs = self.runs.get(source.node, [])
            if source.run < len(runs):
                for output in runs[source.run].outputs:
                    if output.kind == MAIN and output.index == source.output:
                        yield from ((output.index, item) for item in output.items)

    def feeders(self, run: Run) -> Iterator[Run]:
        """The runs whose output was its input."""
        for source in run.sources:
            runs = self.runs.get(source.node, [])
            if source.run < len(runs):
                yield runs[source.run]


def _outputs(data: Any) -> list[Output]:
    return [
        Output(str(kind), index, as_list(items))
        for kind, ways in as_map(data).items()
        for index, items in enumerate(as_list(ways))
    ]


# ---- values of unknown type


def as_map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def number(value: Any) -> int:
    """A count or a time; 0 for other values."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
    return int(value) if fits else 0


def moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def iso(milliseconds: float | None) -> str:
    """An ISO 8601 timestamp, as n8n writes them elsewhere; empty for None."""
    try:
        timestamp = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds is not None else None
    except (ValueError, OverflowError, OSError):
        return ""
    return timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z") if timestamp else ""
