"""Secrets in responses of n8n are not passed on."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.packs.n8n.fake import recorded, recorded_executions
from tools_app.packs.n8n.explanation import explanation
from tools_app.packs.n8n.node_data import node_data
from tools_app.packs.n8n.runs import Execution
from tools_app.packs.n8n.secrecy import error_of, without_secrets
from tools_app.packs.n8n.summary import summary
from tools_app.packs.n8n.workflows import whole

NEVER = re.compile(
    r'"(?:resumeToken|resumeUrl|resumeFormUrl|user-agent|host|content-type)": (?!"\(hidden\)")|'
    r"signature=|c{40}|d{40}|runtimeData|\(encrypted\)|defaultHeaders|"
    r'"stack"|\\n\s+at \S+ \(|executionData|owner@example|jsonSizeBytes'
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


def test_an_address_loses_its_signature_in_every_position() -> None:
    text = "Click http://n8n.test/webhook-waiting/23?signature=abc or http://n8n.test/form-waiting/4/x?a=1&signature=b."
    assert without_secrets({"json": [text]}) == {
        "json": ["Click http://n8n.test/webhook-waiting/23 or http://n8n.test/form-waiting/4/x"]
    }
    assert without_secrets("https://example.test/?signature=kept") == "https://example.test/?signature=kept"


@pytest.mark.parametrize(
    "text",
    [
        "https://go.test/?u=https%3A%2F%2Fn8n.test%2Fwebhook-waiting%2F23%3Fsignature%3Dabc",
        r"{\"url\":\"http:\/\/n8n.test\/form-waiting\/23?signature=abc\"}",
        "[here](http://n8n.test/sub/webhook-waiting/23/approve?approved=true&signature=abc)",
        "http://n8n.test/rest/binary-data/signed?token=abc",
        "u=http%3a%2f%2fn8n.test%2fform-waiting%2f23%2Fa%20b%3fsignature=abc",
    ],
)
def test_an_address_within_another_loses_it_too(text: str) -> None:
    assert "abc" not in json.dumps(without_secrets({"a": [{"b": text}]}))
    assert "abc" not in json.dumps(error_of({"message": text}))


def test_resume_urls_are_hidden_in_every_position() -> None:
    told = recorded("execution_waiting")
    token = told["data"]["resumeToken"]
    runs = told["data"]["resultData"]["runData"]
    signed = runs["Wait for hook"][0]["metadata"]["resumeUrl"].rpartition("=")[2]
    runs["Webhook"][0]["data"]["main"][0][0]["json"] = {"x": {token: [f"say {signed}!", {"y": token}]}}
    runs["Webhook"][0]["error"] = {"message": f"{token} was refused", "context": {"z": signed}}
    shown = everything(told)
    assert token not in shown
    assert signed not in shown
    assert "say …!" in shown


def test_who_resumed_an_execution_sent_its_signature() -> None:
    told = recorded("execution_resumed")
    sent = told["data"]["resultData"]["runData"]["Wait for hook"][0]["data"]["main"][0][0]["json"]["query"]
    assert len(sent["signature"]) == 64
    assert sent["signature"] not in everything(told)
    assert without_secrets({"webhookUrl": "x", "query": {"signature": "a" * 64, "page": 2}})["query"] == {"page": 2}
    assert without_secrets({"query": {"signature": "a" * 64}}) == {"query": {"signature": "a" * 64}}


def test_errors_among_items_are_errors_however_deep_they_lie() -> None:
    config = {"method": "get", "url": "https://api.test/x?key=secret", "headers": {"Authorization": "secret"}}
    axios = {
        "message": "no",
        "code": "E",
        "config": config,
        "response": {"status": 500, "headers": {"set-cookie": "secret"}},
    }
    api = {
        "message": "Bad request",
        "stack": "NodeApiError: Bad request\n    at ExecuteContext.secret (x.ts:1:2)",
        "node": {"parameters": {"key": "secret"}},
        "context": {
            "request": {"uri": "https://api.test/", "method": "POST", "body": "secret", "headers": {"a": "secret"}}
        },
        "cause": {"options": {"uri": "https://api.test/", "headers": {"cookie": "secret"}}, "Authorization": "secret"},
    }
    for told in ({"error": axios}, {"a": [{"b": {"error": api}}]}, axios, api):
        assert "secret" not in json.dumps(without_secrets(told))
        assert "secret" not in json.dumps(error_of(told))
    assert without_secrets({"error": axios})["error"]["config"] == {"method": "get", "uri": "https://api.test/x"}


def test_the_words_of_people_are_no_errors() -> None:
    for kept in (
        {"message": "hello", "options": {"a": None}, "tags": []},
        {"message": "hello", "request": "please", "timestamp": 1, "node": ""},
        {"signature": "kept", "level": "", "stack": ["a"]},
    ):
        assert without_secrets(kept) == kept


def test_a_traceback_is_a_stack() -> None:
    text = 'Traceback (most recent call last):\n  File "/x.py", line 1, in <module>\n    boom()\nValueError: no'
    assert error_of({"message": text, "description": "a"}) == {"message": "ValueError: no", "description": "a"}
    assert without_secrets({"message": "x", "stack": text}) == {"message": "x"}


@pytest.mark.parametrize(
    "piece",
    ["\n", "\n ", "/webhook-waiting/", "%2Fform-waiting%2F", "\n  File", "Traceback (most recent call last):\n"],
)
def test_a_text_of_nothing_but_beginnings_of_secrets_takes_no_time(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    began = time.process_time()
    without_secrets({"text": text, "stack": text})
    error_of({"message": text})
    assert time.process_time() - began < 10


def test_headers_of_a_request_are_named_and_those_of_a_response_stay() -> None:
    assert without_secrets({"headers": {"cookie": "x"}, "params": {}, "query": {}, "body": {}}) == {
        "headers": {"cookie": "(hidden)"},
        "params": {},
        "query": {},
        "body": {},
    }
    assert without_secrets({"headers": {"etag": "x"}, "body": "y", "statusCode": 200})["headers"] == {"etag": "x"}


def test_what_is_hidden_leaves_a_mark() -> None:
    assert without_secrets({"resumeUrl": "https://example.test/x", "a": 1}) == {"resumeUrl": "(hidden)", "a": 1}
    webhook = {"headers": "mine", "rawHeaders": ["a", "b"], "params": {}, "query": {}, "body": {}}
    assert without_secrets(webhook) == webhook | {"headers": "(hidden)", "rawHeaders": "(hidden)"}
    told = Execution(recorded("execution_error_http"))
    (item,) = node_data(told, told.runs["Webhook"][0], 0, 1)["output"]["items"]
    assert set(item["json"]["headers"].values()) == {"(hidden)"}
    assert "content-type" in item["json"]["headers"]


def test_a_field_called_stack_is_no_stack() -> None:
    assert without_secrets({"stack": "MERN"}) == {"stack": "MERN"}
    assert without_secrets({"stack": "Error: x\n    at run (file.js:1:2)", "message": "x"}) == {"message": "x"}


def test_a_failed_request_is_reported_with_its_target() -> None:
    request = {"method": "GET", "uri": "https://api.test/x?key=secret", "headers": {"authorization": "y"}, "body": "z"}
    told = error_of({"message": "no\n    at x (y:1:1)", "context": {"request": request, "itemIndex": 2}, "stack": "s"})
    assert told == {
        "message": "no",
        "context": {"request": {"method": "GET", "uri": "https://api.test/x"}, "itemIndex": 2},
    }
