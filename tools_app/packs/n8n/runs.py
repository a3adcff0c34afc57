"""An execution as n8n tells of it, in one shape whatever its version: which nodes ran, how often, from what to what.

n8n keeps a list of runs for each node that ran, under the node's name; what kind of node that is stands in the
workflow beside it, as it was then. Nothing here trusts that a part is there, or what it should be.
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
# After a crash, n8n puts together what is left, and counts in seconds then.
_SECONDS: Final = 100_000_000_000
_LARGEST: Final = 1e15

Outcome = Literal["success", "error"]
Status = Literal["success", "error", "waiting", "running", "canceled"]
# The documents know five words, and n8n has more.
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
    """One way out of a node. Sub-nodes of AI nodes have ways of other kinds than `main`."""

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
    """A node ran once."""

    node: str
    index: int
    told: Mapping[str, Any]
    # Of an execution that is reduced.
    reduced: bool = False

    @property
    def outcome(self) -> Outcome:
        # With `continueOnFail` there are both an error and data.
        return "error" if str(self.told.get("executionStatus")) in _FAILED or self.error is not None else "success"

    @property
    def error(self) -> Any:
        redacted = mapped(self.told.get("redactedError"))
        if self.told.get("error") is None and redacted:
            known = {"name": str(redacted.get("type") or "Error"), "httpCode": redacted.get("httpCode")}
            return known | ({} if self.reduced else {"message": "n8n has redacted what it says"})
        return self.told.get("error")

    @property
    def waits(self) -> bool:
        return self.told.get("executionStatus") == "waiting"

    @cached_property
    def outputs(self) -> list[Output]:
        return _outputs(self.told.get("data"))

    @property
    def sources(self) -> list[Source]:
        told = [each for each in listed(self.told.get("source")) if isinstance(each, Mapping) and each]
        return [
            Source(
                str(each.get("previousNode", "")),
                number(each.get("previousNodeRun")),
                number(each.get("previousNodeOutput")),
            )
            for each in told
        ]

    @property
    def override(self) -> list[Output]:
        """What a sub-node was asked; its source names the node that it belongs to."""
        return _outputs(self.told.get("inputOverride"))

    @property
    def items(self) -> int:
        return sum(len(output.items) for output in self.outputs)

    @property
    def started(self) -> float | None:
        """In milliseconds since 1970."""
        told = self.told.get("startTime")
        if not isinstance(told, int | float) or isinstance(told, bool):
            return None
        return told * 1000 if told < _SECONDS else told

    @property
    def took(self) -> int:
        return max(0, number(self.told.get("executionTime")))

    @property
    def sub_execution(self) -> str:
        """The execution of another workflow that it started, and that failed or did what it was to do."""
        told = mapped(mapped(self.told.get("metadata")).get("subExecution")).get("executionId")
        return str(told or mapped(self.error).get("executionId") or "")


class Execution:
    """One execution, with its data.

    `reduced`: it was too large, and the hub has asked n8n to leave out what items and errors say.
    """

    def __init__(self, told: Mapping[str, Any], *, reduced: bool = False) -> None:
        data = mapped(told.get("data"))
        result = mapped(data.get("resultData"))
        self.told = told
        self.reduced = reduced
        self.workflow = mapped(told.get("workflowData"))
        self.id = words(str(told.get("id", "")), 100)
        self.n8n_status = str(told.get("status") or "unknown")
        self.too_large = told.get("dataTooLargeToDisplay") is True
        self.error = result.get("error")
        self.last_node = str(result.get("lastNodeExecuted") or "")
        self.pinned = mapped(result.get("pinData"))
        self.parent = str(mapped(data.get("parentExecution")).get("executionId") or "")
        self.redacted = bool(data.get("redactionInfo"))
        nodes = [node for node in listed(self.workflow.get("nodes")) if isinstance(node, Mapping)]
        self.nodes: dict[str, Mapping[str, Any]] = {
            str(node.get("name", "")): node for node in nodes if node.get("type") != STICKY_NOTE
        }
        self.runs: dict[str, list[Run]] = {
            node: [Run(node, index, mapped(each), reduced) for index, each in enumerate(listed(runs))]
            for node, runs in mapped(result.get("runData")).items()
        }

    @cached_property
    def hidden(self) -> frozenset[str]:
        """What resumes this execution, and must not be told wherever it stands."""
        notes = (mapped(run.told.get("metadata")) for runs in self.runs.values() for run in runs)
        signatures = {signature(note.get(key)) for note in notes for key in ("resumeUrl", "resumeFormUrl")}
        token = mapped(self.told.get("data")).get("resumeToken")
        found = signatures | ({token} if isinstance(token, str) else set())
        # Anything shorter is none, and would take words out of what is told.
        return frozenset(each for each in found if len(each) >= 16)

    @property
    def workflow_id(self) -> str:
        return str(self.told.get("workflowId") or self.workflow.get("id") or "")

    @property
    def workflow_name(self) -> str:
        return str(self.workflow.get("name") or "Unknown Workflow")

    @property
    def status(self) -> Status:
        """In the documents' words. What n8n itself lost track of has not succeeded."""
        return _STATUSES.get(self.n8n_status, "error")

    @property
    def duration(self) -> int | None:
        """Milliseconds; None while it runs, and after a crash, of which n8n does not know when it was."""
        began, ended = moment(self.told.get("startedAt")), moment(self.told.get("stoppedAt"))
        if began is None or ended is None or self.n8n_status == "crashed":
            return None
        return max(0, round((ended - began).total_seconds() * 1000))

    @property
    def limit(self) -> float:
        """Seconds after which n8n ends it by itself; 0 where nothing is set."""
        told = mapped(self.workflow.get("settings")).get("executionTimeout")
        return float(told) if isinstance(told, int | float) and told > 0 else 0

    @cached_property
    def steps(self) -> list[Run]:
        """All runs in the order in which they began."""
        runs = (run for runs in self.runs.values() for run in runs)
        return sorted(runs, key=lambda run: (run.started or 0, number(run.told.get("executionIndex"))))

    def type_of(self, node: str) -> str:
        return str(self.nodes.get(node, {}).get("type") or "unknown")

    def goes_on_after(self, node: str) -> bool:
        """Whether the node is set to pass its errors on as data."""
        settings = self.nodes.get(node, {})
        return settings.get("continueOnFail") is True or str(settings.get("onError", "")).startswith("continue")

    def outcome(self, node: str) -> Outcome:
        return "error" if any(run.outcome == "error" for run in self.runs[node]) else "success"

    def inputs(self, run: Run) -> Iterator[tuple[int | str, Any]]:
        """What a run was given, each item with the output of the earlier node that it came from."""
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
        """The runs whose output it was given."""
        for source in run.sources:
            runs = self.runs.get(source.node, [])
            if source.run < len(runs):
                yield runs[source.run]


def _outputs(told: Any) -> list[Output]:
    return [
        Output(str(kind), index, listed(items))
        for kind, ways in mapped(told).items()
        for index, items in enumerate(listed(ways))
    ]


# ---- parts that may not be what they should be


def mapped(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def number(value: Any) -> int:
    """A count or a time; 0 for what is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
    return int(value) if fits else 0


def moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def iso(milliseconds: float | None) -> str:
    """As n8n writes times elsewhere; empty where there is none."""
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds is not None else None
    except (ValueError, OverflowError, OSError):
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z") if found else ""
