"""How items flowed through an execution, and which nodes they did not reach."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from tools_app.packs.n8n.graph import edges
from tools_app.packs.n8n.runs import MAIN, Execution, as_map


class Flow:
    """The items of an execution along the connections of its workflow at that time."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        # By node: its connected outputs, and their targets.
        self._followers: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for source, kind, way, target, _ in edges(as_map(execution.workflow.get("connections"))):
            if kind == MAIN and target in execution.nodes:
                self._followers[source][way].append(target)

    @cached_property
    def missed(self) -> list[tuple[str, str]]:
        """Connections without items, each from a node that ran to one that did not."""
        runs = self._execution.runs
        return [
            (source, target)
            for source in runs
            for way, targets in self._ways(source).items()
            for target in targets
            if target not in runs and not self._passed(source, way)
        ]

    @cached_property
    def not_reached(self) -> list[str]:
        """Nodes that did not run because no item reached them."""
        nodes = dict.fromkeys(target for _, target in self.missed)
        queue = list(nodes)
        while queue:
            for targets in self._ways(queue.pop()).values():
                for target in targets:
                    if target not in self._execution.runs and target not in nodes:
                        nodes[target] = None
                        queue.append(target)
        return list(nodes)

    @cached_property
    def empty(self) -> list[str]:
        """Nodes that ran without an error but passed no item to another node (or, at the end, output none)."""
        execution = self._execution
        return [node for node in execution.runs if execution.outcome(node) == "success" and self._gave_nothing(node)]

    def _gave_nothing(self, node: str) -> bool:
        runs = self._execution.runs[node]
        outputs = [output for run in runs for output in run.outputs if output.items]
        if any(run.waits for run in runs) or any(output.kind != MAIN for output in outputs):
            return False
        ways = self._ways(node)
        return not any(output.index in ways for output in outputs) if ways else not outputs

    def _passed(self, node: str, way: int) -> bool:
        return any(
            output.kind == MAIN and output.index == way and output.items
            for run in self._execution.runs[node]
            for output in run.outputs
        )

    def _ways(self, node: str) -> dict[int, list[str]]:
        return self._followers.get(node, {})
