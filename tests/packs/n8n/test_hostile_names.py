"""What people call their nodes and workflows, beside the calls that the pack advises."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.packs.n8n.fake import recorded_executions
from tests.packs.n8n.test_summaries import unquoted
from tests.support.outsiders import INJECTIONS
from tools_app.packs.n8n import changes, executions, lists, workflows
from tools_app.packs.n8n.explanation import explanation
from tools_app.packs.n8n.node_data import node_data
from tools_app.packs.n8n.runs import Execution
from tools_app.packs.n8n.summary import summary
from tools_app.text import hygiene

TEXT = r"'(?:[^'\\]|\\.)*'"
VALUE = rf"(?:{TEXT}|\d+|true|false)"
CALL = re.compile(rf"([a-z_]+)\((\w+: {VALUE}(?:, \w+: {VALUE})*)\)", re.DOTALL)


def parsed(example: str) -> tuple[str, dict[str, Any]]:
    """A call that the pack advises, as its reader would make it."""
    # Before it leaves the hub, what people would not see is taken out of it.
    found = CALL.fullmatch(hygiene.cleaned(example))
    assert found is not None, example
    arguments = re.findall(rf"(\w+): ({VALUE})", found[2], re.DOTALL)
    return found[1], {name: unquoted(value[1:-1]) if value[0] == "'" else value for name, value in arguments}


def renamed(told: Any, names: dict[str, str]) -> Any:
    if isinstance(told, dict):
        return {names.get(key, key): renamed(value, names) for key, value in told.items()}
    if isinstance(told, list):
        return [renamed(value, names) for value in told]
    return names.get(told, told) if isinstance(told, str) else told


@pytest.mark.parametrize("payload", INJECTIONS)
def test_what_a_node_is_called_stays_one_argument(payload: str) -> None:
    seen = set()
    for told in recorded_executions("2").values():
        nodes = list(Execution(told).runs)
        names = {node: f"{payload} {number}" for number, node in enumerate(nodes)}
        execution = Execution(renamed(told, names))
        shown = [summary(execution), explanation(execution)]
        for run in execution.steps:
            answer = node_data(execution, run, 0, 2)
            shown.append({"_guidance": executions._node_guidance(execution, answer, [])})
        for answer in shown:
            guidance = answer["_guidance"]
            assert payload not in guidance["message"], "only the calls name it"
            tool, arguments = parsed(guidance["example"])
            seen.add(tool)
            if tool == "get_workflow":
                assert arguments["id"] == execution.workflow_id
                continue
            assert tool in ("get_execution_by_node", "explain_execution", "get_execution", "retry_execution")
            assert arguments["id"] in (execution.id, execution.parent)
            if "nodeName" in arguments:
                assert hygiene.cleaned(arguments["nodeName"]) in map(hygiene.cleaned, names.values())
    assert "get_execution_by_node" in seen


@pytest.mark.parametrize("payload", INJECTIONS)
def test_so_does_every_other_word_of_n8n(payload: str) -> None:
    graph = {"id": payload, "name": payload, "graph": [{"node": payload}]}
    told = [
        workflows._listing_guidance({"workflows": [{"id": payload, "name": payload}], "nextCursor": payload}),
        workflows._reading_guidance({"id": payload, "name": payload}),
        workflows._graph_guidance(graph),
        lists._listing_guidance({"executions": [{"id": payload, "status": "error"}], "nextCursor": payload}),
        executions._look({"id": payload, "status": payload, "workflowId": payload}),
        changes._switched_guidance({"id": payload, "name": payload, "active": True}),
        changes._switched_guidance({"id": payload, "name": payload, "active": False}),
    ]
    for guidance in told:
        assert payload not in guidance["message"]
        _, arguments = parsed(guidance["example"])
        assert set(map(hygiene.cleaned, arguments.values())) <= {hygiene.cleaned(payload)}
