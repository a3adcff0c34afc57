"""Request bodies: plain JSON in UTF-8, not too large, and nothing else."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.api.rest import Rest, failure
from tests.support.tools import Programmable
from tests.test_json_text import HOSTILE, REFUSED
from tools_app.models import Call
from tools_app.sdk.checker import MAX_PROBLEMS, Checker
from tools_app.text import json_text

OTHER_TYPES = (
    "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "*/*", "",
    "application/jsonp", "application/json-patch+json", "application/vnd.api+json", "application/xml", "json",
    "application/json; charset=utf-16", "application/json; charset=latin-1", "application/json; profile=x",
    "application/json, text/plain", "text/plain; application/json", "application /json",
)  # fmt: skip
GOOD = json.dumps({"name": "echo", "parameters": {"message": "hi"}})


def test_refuses_a_body_that_is_no_json(rest: Rest, subtests: pytest.Subtests) -> None:
    for name, body, reason in REFUSED[1:]:  # Nothing at all is another test's business.
        with subtests.test(name):
            told = failure(rest.post("/v1/tools/call", body), 400, "VALIDATION_ERROR")
            assert told["error"].startswith("The body is not valid JSON: ")
            assert reason in told["error"]
    assert Call.objects.count() == 0


def test_refuses_a_body_that_is_made_to_hurt(rest: Rest, subtests: pytest.Subtests) -> None:
    for name, body in HOSTILE.items():
        with subtests.test(name):
            failure(rest.post("/v1/tools/call", body), 400, "VALIDATION_ERROR")


def test_refuses_a_call_without_a_body(rest: Rest) -> None:
    told = failure(rest.post("/v1/tools/call", b""), 400, "VALIDATION_ERROR")

    assert told["details"] == [{"path": "", "message": "A JSON object is required", "expected": "a value"}]


def test_the_next_call_goes_through_after_a_refusal(rest: Rest) -> None:
    failure(rest.post("/v1/tools/call", "[" * 1000), 400, "VALIDATION_ERROR")

    assert rest.post("/v1/tools/call", GOOD).status_code == 200


@pytest.mark.parametrize("type", ["application/json", "Application/JSON", "application/json; charset=UTF-8"])
def test_takes_json(rest: Rest, type: str) -> None:
    assert rest.post("/v1/tools/call", GOOD, type=type).status_code == 200


def test_takes_no_other_type(rest: Rest, programmable: Programmable, subtests: pytest.Subtests) -> None:
    for type in OTHER_TYPES:
        with subtests.test(type):
            response = rest.post("/v1/tools/call", {"name": "programmable"}, type=type)
            assert "application/json" in failure(response, 415, "UNSUPPORTED_MEDIA_TYPE")["nextStep"]
    assert programmable.calls == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity", "gzip, gzip", ""])
def test_takes_nothing_compressed(rest: Rest, encoding: str) -> None:
    response = rest.post("/v1/tools/call", gzip.compress(GOOD.encode()), Content_Encoding=encoding)

    failure(response, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_stranger_learns_nothing_about_bodies(rest: Rest) -> None:
    failure(rest.post("/v1/tools/call", "{", key=None, type="text/plain"), 401, "AUTHENTICATION_ERROR")


def test_names_some_of_many_unknown_fields_and_how_many_more_there_are(rest: Rest) -> None:
    body = {"name": "echo", **{f"field{number}": 1 for number in range(60_000)}}

    response = rest.post("/v1/tools/call", json.dumps(body, separators=(",", ":")))

    told = failure(response, 400, "VALIDATION_ERROR")
    assert len(told["details"]) == MAX_PROBLEMS + 1
    assert told["details"][0] == {"path": "/field0", "message": "Unknown parameter: field0"}
    assert told["details"][-1] == {"path": "", "message": "and 59,980 more"}
    assert len(response.content) < 10_000


@pytest.mark.parametrize("path", ["/v1/tools/call", "/v1/tools/echo/call"])
def test_a_large_body_is_not_worked_on_by_the_event_loop(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    threads: set[str] = set()

    def seen(work: Callable[..., Any]) -> Callable[..., Any]:
        def noticed(*args: Any) -> Any:
            threads.add(threading.current_thread().name)
            return work(*args)

        return noticed

    monkeypatch.setattr(json_text, "parsed", seen(json_text.parsed))
    monkeypatch.setattr(Checker, "problems", seen(Checker.problems))
    arguments = {"message": [1] * 90_000}

    response = server.post(path, json=arguments if "echo" in path else {"name": "echo", "parameters": arguments})

    assert failure(response, 400, "VALIDATION_ERROR")["error"].startswith("Invalid type for parameter message")
    assert {name.rpartition("_")[0] for name in threads} == {"toolhub-heavy"}


def test_takes_a_body_of_exactly_the_limit_and_not_a_byte_more(rest: Rest) -> None:
    largest = GOOD.ljust(1024 * 1024)

    assert rest.post("/v1/tools/call", largest).status_code == 200
    failure(rest.post("/v1/tools/call", largest + " "), 413, "BODY_TOO_LARGE")


def test_text_of_all_kinds_arrives(rest: Rest) -> None:
    text = "日本語 👩‍👩‍👧 \\u0000 \\ud800"

    assert rest.call("echo", {"message": text}).json()["result"] == {"message": text}
