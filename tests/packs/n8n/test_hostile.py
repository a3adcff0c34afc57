"""Hostile names, texts and sizes: every answer fits, and can be read."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n
from tests.packs.n8n.test_summaries import large
from tools_app.packs.n8n.secrecy import readable
from tools_app.text import hygiene

# How names begin; a number follows. Each is as long as a name may be to be asked for, or longer.
NAMES: Final = {
    "ideographs": "节点" * 120,
    "emoji": "👩‍💻" * 40,
    "quotes": "\"'\\\n" * 60,
    "controls": "\x01\x1b[31m" * 40,
    "halves": "x\ud83d" * 60,
    "nothing to see": "\u200b" * 200 + "x",
    "too long to be asked for": "long " * 400,
}

pytestmark = pytest.mark.parametrize("line", ["2"])


def hostile(beginning: str, nodes: int = 500) -> dict[str, Any]:
    """Everything that has a name or a text is called `beginning`, or begins with it."""
    told = large(nodes)
    result = told["data"]["resultData"]
    names = [f"{beginning}{number}" for number in range(nodes)]
    result["runData"] = dict(zip(names, result["runData"].values(), strict=True))
    for name, (run,) in result["runData"].items():
        run["source"] = [{"previousNode": other} for other in names[: 60 if name == names[0] else 2]]
        if run["executionStatus"] == "error":
            text = beginning * 3
            error = {"message": text, "description": text, "messages": [text] * 4, name: {name: [name]}}
            run["error"] = error | {"context": {"itemIndex": 0, "request": {"uri": text, "method": text}}}
            run["data"]["main"][0][0] = {"json": {name: {name: [text]}}, "binary": {name: {"fileName": name}}}
    result["lastNodeExecuted"] = names[0]
    kinds = [{"name": name, "type": name, "parameters": {name: name}} for name in names]
    told["workflowData"] = {"name": beginning * 3, "nodes": kinds}
    return told


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_summed_up_has_a_thousand_tokens_at_most_and_says_where_to_look(ask: Ask, n8n: N8n, kind: str) -> None:
    n8n.executions["7"] = hostile(NAMES[kind])
    summed = ask("get_execution", id="7")
    assert len(ask.text.encode()) / 3 <= 1_000
    assert summed["availableNodesTotal"] == summed["statistics"]["executedNodes"] == 500
    explained = ask("explain_execution", id="7")
    assert len(ask.text.encode()) / 3 <= 1_000
    assert explained["failedNode"]["nodeName"]
    assert explained["cause"]
    assert explained["lookAt"]
    wanted = "get_workflow(" if "long" in kind else "get_execution_by_node("
    assert explained["lookAt"][0].startswith(wanted)


@pytest.mark.parametrize("kind", [kind for kind in NAMES if "long" not in kind])
def test_a_node_is_found_by_the_name_that_is_shown(ask: Ask, n8n: N8n, kind: str) -> None:
    n8n.executions["7"] = hostile(NAMES[kind], nodes=61)
    shown = hygiene.cleaned(readable(f"{NAMES[kind]}0"))
    data = ask("get_execution_by_node", id="7", nodeName=shown)
    assert data["nodeName"] == shown
    assert len(data["input"]["sources"]) == 50
    # It fits as it is: no outline of it is sent.
    assert "read_result" not in str(data["_guidance"])


def test_sources_with_names_of_any_length_fit(ask: Ask, n8n: N8n) -> None:
    told = large(2)
    name = "A node that has a rather long name, 1"
    told["data"]["resultData"]["runData"][name][0]["source"] = [{"previousNode": "字" * 9_000}] * 60
    n8n.executions["7"] = told
    data = ask("get_execution_by_node", id="7", nodeName=name)
    assert len(data["input"]["sources"]) == 50
    assert data["output"]["items"]
    assert "read_result" not in str(data["_guidance"])


def test_items_nested_as_deep_as_is_read_are_shown(ask: Ask, n8n: N8n) -> None:
    told = large(2)
    name = "A node that has a rather long name, 1"
    deep: Any = "the bottom"
    for _ in range(90):
        deep = {"a": [deep]}
    (run,) = told["data"]["resultData"]["runData"][name]
    run |= {"error": {"message": "no", "deep": deep}, "executionStatus": "error"}
    run["data"]["main"][0] = [{"json": {"deep": deep}}]
    n8n.executions["7"] = told
    assert "the bottom" in str(ask("get_execution_by_node", id="7", nodeName=name)["output"])
    assert ask("explain_execution", id="7")["error"]["message"] == "no"


def test_workflows_with_halves_of_characters_can_be_read(ask: Ask, n8n: N8n) -> None:
    nodes = [{"name": "y\ud83d", "type": "t", "parameters": {"z\ud83d": "\ud83d"}}]
    ends = {"y\ud83d": {"main": [[{"node": "q\ud83d"}]]}}
    one = n8n.add({"name": "x\ud83d", "nodes": nodes, "connections": ends, "settings": {}})
    for raw in (False, True):
        assert ask("list_workflows", raw=raw)["workflows"][0]["name"] == "x?"
        assert ask("get_workflow", id=one, raw=raw)["name"] == "x?"
        assert ask("get_workflow_connections", id=one, raw=raw)["graph"][1]["node"] == "q?"
        assert ask("get_workflow_node", workflowId=one, nodeId="y?", raw=raw)["parameters"] == {"z?": "?"}
