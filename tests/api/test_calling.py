"""Calling a tool at its own address."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.rest import Rest, failure
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.models import Call
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack, TextForm

PATH = "/v1/tools/programmable/call"


def test_the_body_is_what_the_tool_takes_and_the_answer_is_the_same(rest: Rest, programmable: Programmable) -> None:
    there = rest.post(PATH, {"value": 3}).json()
    here = rest.call("programmable", {"value": 3}).json()

    assert there.keys() == here.keys()
    assert (there["success"], there["result"]) == (here["success"], here["result"]) == (True, {"value": 3})
    assert Call.objects.get(id=there["callId"]).door == "rest"


@pytest.mark.parametrize("body", [{}, b""])
def test_a_tool_that_needs_nothing_is_called_with_nothing(rest: Rest, programmable: Programmable, body: Any) -> None:
    assert rest.post(PATH, body).json()["result"] == {"value": 0}


@pytest.mark.parametrize("body", ["null", "[]", "1", '"x"', "true"])
def test_anything_but_an_object_is_refused(rest: Rest, programmable: Programmable, body: str) -> None:
    told = failure(rest.post(PATH, body), 400, "VALIDATION_ERROR")

    assert told["details"][0]["expected"] == "object"
    assert programmable.calls == []


def test_an_envelope_around_the_arguments_is_refused(rest: Rest, programmable: Programmable) -> None:
    told = failure(rest.post(PATH, {"name": "programmable", "parameters": {}}), 400, "VALIDATION_ERROR")

    assert [problem["path"] for problem in told["details"]] == ["/name", "/parameters"]


def test_options_are_query_parameters(rest: Rest, programmable: Programmable) -> None:
    told = rest.post(f"{PATH}?timeout=500&retry=1&retryDelay=100&dryRun=true", {"value": 3}).json()

    assert told["dryRun"] is True
    assert (told["result"]["timeoutMs"], told["result"]["retries"]) == (500, 1)
    assert programmable.calls == []


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("timeout=99", "/timeout"),
        ("timeout=120001", "/timeout"),
        ("timeout=abc", "/timeout"),
        ("retry=4", "/retry"),
        ("retry=-1", "/retry"),
        ("retryDelay=99", "/retryDelay"),
        ("retry_delay=100", "/retry_delay"),
        ("dryRun=1", "/dryRun"),
        ("dryrun=true", "/dryrun"),
        ("value=3", "/value"),
    ],
)
def test_refuses_any_other_option(rest: Rest, programmable: Programmable, query: str, path: str) -> None:
    told = failure(rest.post(f"{PATH}?{query}", {}), 400, "VALIDATION_ERROR")

    assert [problem["path"] for problem in told["details"]] == [path]
    assert programmable.calls == []


def test_an_idempotency_key_is_accepted(rest: Rest, programmable: Programmable) -> None:
    first = rest.post(PATH, {"value": 3}, Idempotency_Key="k-1")
    again = rest.post(PATH, {"value": 3}, Idempotency_Key="k-1")
    other = rest.call("programmable", {"value": 3}, Idempotency_Key="k-1")

    assert len(programmable.calls) == 1
    assert (again.headers["Idempotent-Replayed"], other.headers["Idempotent-Replayed"]) == ("true", "true")
    assert first.json()["callId"] == again.json()["callId"] == other.json()["callId"]


def test_unknown_and_switched_off_are_what_they_are_everywhere(rest: Rest, programmable: Programmable) -> None:
    assert failure(rest.post("/v1/tools/nope/call", {}), 404, "TOOL_NOT_FOUND")["error"] == "Tool not found: nope"
    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))
    failure(rest.post(PATH, {}), 403, "TOOL_DISABLED")


def test_only_a_post_calls(rest: Rest, programmable: Programmable) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
        response = rest.send(method, PATH)
        assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert programmable.calls == []


def test_the_text_form_of_an_answer_is_not_written(rest: Rest, hub: Hub) -> None:
    pack = Pack("forms", text_form=TextForm("shout", lambda data: pytest.fail("REST sends the value")))

    @pack.tool(hints=Hints(read_only=True))
    def say() -> dict[str, str]:
        """Say something."""
        return {"said": "a"}

    hub.add(say)
    assert rest.call("say", {}).json()["result"] == {"said": "a"}
    assert Call.objects.get().result_bytes == len('{"said":"a"}')
