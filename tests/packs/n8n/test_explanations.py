"""explain_execution: why did it fail, and what to look at next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n, recorded, recorded_executions
from tests.packs.n8n.test_summaries import large, tokens
from tools_app.packs.n8n.explanation import explanation
from tools_app.packs.n8n.runs import Execution


def explained(name: str, line: str = "2") -> dict[str, Any]:
    return explanation(Execution(recorded(f"execution_{name}", line)))


@pytest.mark.parametrize("line", ["2", "1"])
def test_every_recorded_execution_is_explained_in_a_thousand_tokens(line: str) -> None:
    for name, told in recorded_executions(line).items():
        made = explanation(Execution(told))
        assert tokens(made) <= 1_000, name
        assert made["cause"], name
        assert made["lookAt"], name
        assert (made["failedNode"] is None) or made["error"] or made["status"] == "canceled", name


def test_names_the_node_the_error_and_the_input() -> None:
    made = explained("error_http")
    assert made["cause"] == (
        "The node 'Call dead port' failed: The service refused the connection - perhaps it is offline"
    )
    assert made["failedNode"] == {
        "nodeName": "Call dead port",
        "nodeType": "n8n-nodes-base.httpRequest",
        "runIndex": 0,
    }
    assert made["error"]["httpCode"] == "ECONNREFUSED"
    assert made["error"]["request"] == {"method": "GET", "uri": "http://dead.test:9/x"}
    assert made["input"]["from"] == ["Webhook"]
    assert made["input"]["item"]["json"]["body"] == {"hello": "world"}
    assert made["lookAt"][0] == "get_execution_by_node(id: '6', nodeName: 'Call dead port')"


@pytest.mark.parametrize("line", ["2", "1"])
def test_the_cause_of_a_sub_workflow_lies_there(line: str) -> None:
    assert explained("bad_parent", line)["lookAt"][0] == "explain_execution(id: '17')"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("timeout", "longer than the workflow's timeout of 2 s"),
        ("canceled", "by a person, or over the API"),
        ("wait_canceled", "after 'Wait for hook'"),
        ("crashed", "out of memory, while the node 'Sleep 120 s' ran"),
        ("waiting", "waits at the node 'Wait for hook'"),
        ("running", "has not ended yet"),
        ("chain", "did not fail"),
        ("continue", "passed errors on as data"),
    ],
)
def test_other_ends_are_explained_too(name: str, cause: str) -> None:
    assert cause in explained(name)["cause"]


def test_nodes_that_gave_nothing_are_suspects() -> None:
    assert explained("empty")["emptyNodes"] == ["Nothing"]


def test_the_node_that_dropped_all_items_is_named() -> None:
    made = explained("empty")
    assert made["cause"].endswith("But no item reached 'Not reached': 'Nothing' passed none on.")
    assert made["notReached"] == ["Not reached"]
    assert made["lookAt"][0] == "get_execution_by_node(id: '26', nodeName: 'Nothing')"


def test_a_filter_that_drops_everything_passes_nothing_on() -> None:
    told = recorded("execution_chain")
    result = told["data"]["resultData"]["runData"]
    # What a filter discards is in its second output, which leads nowhere.
    result["Keep even"][0]["data"]["main"] = [[], [{"json": {"i": number}} for number in range(10)]]
    followers = told["workflowData"]["connections"]["Keep even"]["main"][0]
    gone = set()
    waiting = [end["node"] for end in followers]
    while waiting:
        node = waiting.pop()
        gone.add(node)
        links = told["workflowData"]["connections"].get(node, {"main": []})["main"]
        waiting += [end["node"] for ends in links for end in ends or () if end["node"] not in gone]
    for node in gone:
        result.pop(node, None)
    made = explanation(Execution(told))
    assert f"But no item reached {followers[0]['node']!r}" in made["cause"]
    assert "'Keep even' passed none on" in made["cause"]
    assert made["emptyNodes"] == ["Keep even"]
    assert set(made["notReached"]) == gone
    assert made["lookAt"][0] == "get_execution_by_node(id: '1', nodeName: 'Keep even')"


def test_an_item_is_only_named_where_n8n_names_it() -> None:
    told = recorded("execution_error_code")
    failed = told["data"]["resultData"]["runData"]["Boom"][0]
    made = explanation(Execution(told))["input"]
    assert (made["items"], made["itemIndex"]) == (3, None)
    assert "item" not in made
    assert made["firstItem"]["json"]
    for error in (
        {"message": "no", "context": {"itemIndex": 1}},
        {"message": "no", "itemIndex": 1},
        {"message": "Cannot read properties of null [line 3, for item 1]"},
    ):
        failed["error"] = error
        made = explanation(Execution(told))["input"]
        assert made["itemIndex"] == 1
        assert "firstItem" not in made
        assert made["item"]["json"]


def test_the_node_that_an_expression_misses_is_named() -> None:
    told = recorded("execution_error_code")
    error = {"message": "Referenced node doesn't exist", "context": {"nodeCause": "Missing", "parameter": "url"}}
    told["data"]["resultData"]["runData"]["Boom"][0]["error"] = error
    made = explanation(Execution(told))["error"]
    assert (made["nodeCause"], made["parameter"]) == ("Missing", "url")


def test_errors_that_were_passed_on_are_reported() -> None:
    assert "Http regular (connect ECONNREFUSED" in explained("continue")["cause"]


def test_errors_that_were_passed_on_are_found_are_found_where_they_began() -> None:
    made = explained("continue")
    assert "After error" not in made["cause"]
    assert [call.partition("nodeName: ")[2] for call in made["lookAt"]] == [
        *("'Regular output')", "'Error output')", "'Http regular')")
    ]


def test_runs_that_come_of_others_lead_back_to_them() -> None:
    assert "explain_execution(id: '5')" in explained("retry")["lookAt"]
    assert "explain_execution(id: '14')" in explained("error_handler")["lookAt"]


def test_large_errors_and_items_are_shortened() -> None:
    told = large(60)
    for name, (run,) in told["data"]["resultData"]["runData"].items():
        if run["executionStatus"] == "error":
            run["error"] = {"message": f"{name} " + "ü" * 5_000, "description": "<html>" + "x" * 9_000}
            run["data"]["main"][0][0] = {"json": {"text": "y" * 100_000}}
    made = explanation(Execution(told))
    assert tokens(made) <= 1_000
    assert made["failedNode"]["nodeName"] == "A node that has a rather long name, 56"
    assert made["error"]["message"]


@pytest.mark.parametrize("line", ["2"])
def test_through_the_hub(ask: Ask, n8n: N8n) -> None:
    data = ask("explain_execution", id=n8n.hold("error_code"))
    assert data["cause"].startswith("The node 'Boom' failed: boom")
    assert data["_guidance"]["example"] == "retry_execution(id: '5', loadWorkflow: true)"
    assert json.loads(ask.text)["message"] == "Execution explained"
