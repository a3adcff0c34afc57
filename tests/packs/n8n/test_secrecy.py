"""What n8n tells and nobody else must know stays here."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.packs.n8n.fake import recorded, recorded_executions
from tools_app.packs.n8n.explanation import explanation
from tools_app.packs.n8n.node_data import node_data
from tools_app.packs.n8n.runs import Execution
from tools_app.packs.n8n.secrecy import error_of, stripped
from tools_app.packs.n8n.summary import summary
from tools_app.packs.n8n.workflows import whole

NEVER = re.compile(
    r"resumeToken|resumeUrl|signature=|c{40}|d{40}|runtimeData|\(encrypted\)|user-agent|defaultHeaders|"
    r'"stack"|\\n\s+at \S+ \(|executionData|owner@example|jsonSizeBytes|"headers"'
)


def everything(told: dict[str, Any]) -> str:
    execution = Execution(told)
    answers = [summary(execution), explanation(execution)]
    answers += [node_data(execution, run, 0, 1000) for run in execution.steps]
    return json.dumps(answers, ensure_ascii=False)


@pytest.mark.parametrize("line", ["2", "1"])
def test_nothing_of_it_is_in_any_answer(line: str) -> None:
    for name, told in recorded_executions(line).items():
        assert not NEVER.search(everything(told)), (name, NEVER.search(everything(told)))


def test_it_is_there_to_be_found() -> None:
    assert NEVER.search(json.dumps(recorded("execution_waiting")["data"]))


def test_of_a_workflow_its_people_and_versions_stay_away() -> None:
    told = recorded("workflow_show")
    assert "owner@example.test" in json.dumps(told)
    shown = json.dumps(whole(told | {"staticData": {"token": "x"}}))
    for word in ("owner@example", "staticData", "shared", "activeVersion", "versionCounter"):
        assert word not in shown


def test_an_address_loses_its_signature_wherever_it_stands() -> None:
    text = "Click http://n8n.test/webhook-waiting/23?signature=abc or http://n8n.test/form-waiting/4/x?a=1&signature=b."
    assert stripped({"json": [text]}) == {
        "json": ["Click http://n8n.test/webhook-waiting/23 or http://n8n.test/form-waiting/4/x"]
    }
    assert stripped("https://example.test/?signature=kept") == "https://example.test/?signature=kept"


def test_headers_of_a_request_go_and_those_of_a_response_stay() -> None:
    assert stripped({"headers": {"cookie": "x"}, "params": {}, "query": {}, "body": {}}) == {
        "params": {},
        "query": {},
        "body": {},
    }
    assert stripped({"headers": {"etag": "x"}, "body": "y", "statusCode": 200})["headers"] == {"etag": "x"}


def test_a_field_called_stack_is_no_stack() -> None:
    assert stripped({"stack": "MERN"}) == {"stack": "MERN"}
    assert stripped({"stack": "Error: x\n    at run (file.js:1:2)", "message": "x"}) == {"message": "x"}


def test_of_a_failed_request_it_is_told_where_it_went() -> None:
    request = {"method": "GET", "uri": "https://api.test/x?key=secret", "headers": {"authorization": "y"}, "body": "z"}
    told = error_of({"message": "no\n    at x (y:1:1)", "context": {"request": request, "itemIndex": 2}, "stack": "s"})
    assert told == {
        "message": "no",
        "context": {"request": {"method": "GET", "uri": "https://api.test/x"}, "itemIndex": 2},
    }
