"""Switching tools and setting their policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, failure
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.models import AuditEntry, ToolRecord
from tools_app.sdk.hints import Hints

PATH = "/v1/tools/programmable"
DECIDED = {
    "timeoutMs": 500, "retries": 1, "retryDelayMs": 200, "rateLimit": {"max": 5, "timeWindow": 2000}, "cacheSeconds": 9,
    "answerTokens": 2_000,
}  # fmt: skip
WRONG = [
    ({"enabled": None}, "/enabled"),
    ({"enabled": "no"}, "/enabled"),
    ({"enabled": 0}, "/enabled"),
    ({"policy": None}, "/policy"),
    ({"policy": []}, "/policy"),
    ({"reason": None}, "/reason"),
    ({"reason": "x" * 501}, "/reason"),
    ({"name": "other"}, "/name"),
    ({"policy": {"timeout": 500}}, "/policy/timeout"),
    ({"policy": {"timeout_ms": 500}}, "/policy/timeout_ms"),
    ({"policy": {"origins": {}}}, "/policy/origins"),
    *(
        ({"policy": {"timeoutMs": value}}, "/policy/timeoutMs")
        for value in (99, 120_001, -1, 2**62, "500", 500.5, 1e300, True)
    ),
    *(({"policy": {"retries": value}}, "/policy/retries") for value in (-1, 4)),
    *(({"policy": {"retryDelayMs": value}}, "/policy/retryDelayMs") for value in (99, 10_001)),
    *(({"policy": {"cacheSeconds": value}}, "/policy/cacheSeconds") for value in (-1, 86_401)),
    ({"policy": {"rateLimit": {"max": 5}}}, "/policy/rateLimit/timeWindow"),
    ({"policy": {"rateLimit": {"timeWindow": 1000}}}, "/policy/rateLimit/max"),
    ({"policy": {"rateLimit": {"max": 0, "timeWindow": 1000}}}, "/policy/rateLimit/max"),
    ({"policy": {"rateLimit": {"max": 1, "timeWindow": 1500}}}, "/policy/rateLimit/timeWindow"),
    ({"policy": {"rateLimit": {"max": 1, "timeWindow": 86_401_000}}}, "/policy/rateLimit/timeWindow"),
    ({"policy": {"rateLimit": 5}}, "/policy/rateLimit"),
]


@pytest.fixture
def ops(make_key: MakeKey) -> str:
    return make_key("ops", scopes=["tools:manage"])


def change(rest: Rest, key: str, body: Any, path: str = PATH) -> Any:
    return rest.send("PATCH", path, json.dumps(body), key=key)


def test_a_switch_counts_from_the_next_call(rest: Rest, ops: str, programmable: Programmable) -> None:
    off = change(rest, ops, {"enabled": False, "reason": "it hurts"})

    assert (off.status_code, off.json()["enabled"], off.json()["available"]) == (200, False, False)
    failure(rest.call("programmable"), 403, "TOOL_DISABLED")
    assert change(rest, ops, {"enabled": True}).json()["available"] is True
    assert rest.call("programmable").status_code == 200
    first, second = AuditEntry.objects.filter(actor="key:ops").order_by("pk")
    assert (first.action, first.subject, first.reason) == ("tool.disable", "programmable", "it hurts")
    assert (second.action, second.changes) == ("tool.enable", {"enabled": [False, True]})


def test_what_is_left_out_stays_and_null_lets_others_decide(rest: Rest, ops: str, programmable: Programmable) -> None:
    decided = change(rest, ops, {"policy": DECIDED}).json()["policy"]
    assert {part: decided[part] for part in DECIDED} == DECIDED
    assert set(decided["origins"].values()) == {"operator"}

    after = change(rest, ops, {"policy": {"timeoutMs": None, "rateLimit": None, "retries": 2}}).json()["policy"]

    assert (after["timeoutMs"], after["retries"], after["cacheSeconds"]) == (30_000, 2, 9)
    assert after["rateLimit"] == {"max": 1000, "timeWindow": 60_000}
    assert after["origins"] == {
        "timeoutMs": "settings", "retries": "operator", "retryDelayMs": "operator", "rateLimit": "settings",
        "cacheSeconds": "operator", "answerTokens": "operator",
    }  # fmt: skip


def test_a_whole_number_can_be_written_with_a_point(rest: Rest, ops: str, programmable: Programmable) -> None:
    sent = '{"policy": {"timeoutMs": 5e2, "retries": 1.0}}'

    policy = rest.send("PATCH", PATH, sent, key=ops).json()["policy"]

    assert (policy["timeoutMs"], policy["retries"]) == (500, 1)


def test_nothing_to_change_changes_nothing(rest: Rest, ops: str, programmable: Programmable) -> None:
    before = ToolRecord.objects.get(name="programmable").updated_at

    bodies: list[Any] = [{}, {"policy": {}}, {"enabled": True}, {"policy": {"timeoutMs": None}}]
    for body in bodies:
        assert change(rest, ops, body).status_code == 200

    assert ToolRecord.objects.get(name="programmable").updated_at == before
    assert not AuditEntry.objects.filter(actor="key:ops").exists()


def test_it_is_all_or_nothing(rest: Rest, ops: str, hub: Hub) -> None:
    hub.add(Programmable("writes", hints=Hints()).tool)

    told = failure(
        change(rest, ops, {"enabled": False, "policy": {"cacheSeconds": 5}}, "/v1/tools/writes"),
        400,
        "VALIDATION_ERROR",
    )

    assert told["error"] == "writes says that it writes: its answers cannot be cached"
    assert ToolRecord.objects.get(name="writes").enabled
    assert not AuditEntry.objects.filter(actor="key:ops").exists()


def test_refuses_everything_else(rest: Rest, ops: str, programmable: Programmable, subtests: pytest.Subtests) -> None:
    for body, path in WRONG:
        with subtests.test(body=str(body)):
            told = failure(change(rest, ops, body), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]
    assert not AuditEntry.objects.filter(actor="key:ops").exists()


def test_needs_the_scope_before_anything_is_revealed(rest: Rest, programmable: Programmable) -> None:
    for path in (PATH, "/v1/tools/unknown", "/v1/tools/call"):
        told = failure(change(rest, rest.key, {"enabled": False}, path), 403, "AUTHORIZATION_ERROR")
        assert told["context"] == {"requiredScope": "tools:manage"}
    assert ToolRecord.objects.get(name="programmable").enabled


def test_an_unknown_tool_is_not_found(rest: Rest, ops: str) -> None:
    failure(change(rest, ops, {"enabled": False}, "/v1/tools/nope"), 404, "TOOL_NOT_FOUND")


def test_a_tool_outside_the_toolset_does_not_exist(rest: Rest, programmable: Programmable, make_key: MakeKey) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    bound = make_key("bound", scopes=["tools:manage"], toolsets=["maths"])

    failure(change(rest, bound, {"enabled": False}), 404, "TOOL_NOT_FOUND")

    assert change(rest, bound, {"enabled": False}, "/v1/tools/calculate").status_code == 200
    assert ToolRecord.objects.get(name="programmable").enabled


def test_an_alias_changes_the_tool_that_has_it(rest: Rest, ops: str, hub: Hub) -> None:
    hub.add(Programmable("own", aliases=("other",)).tool)

    assert change(rest, ops, {"enabled": False}, "/v1/tools/other").json()["name"] == "own"
    assert not ToolRecord.objects.get(name="own").enabled


@pytest.mark.parametrize("name", ["call", "search"])
def test_a_tool_can_have_the_name_of_an_endpoint(rest: Rest, ops: str, hub: Hub, name: str) -> None:
    hub.add(Programmable(name).tool)

    assert rest.get(f"/v1/tools/{name}").json()["name"] == name
    assert rest.post(f"/v1/tools/{name}/call", {"value": 3}).json()["result"] == {"value": 3}
    assert change(rest, ops, {"enabled": False}, f"/v1/tools/{name}").json()["enabled"] is False
    assert not ToolRecord.objects.get(name=name).enabled
    governance.set_enabled([name], True, actor=governance.trusted("test"))
    assert rest.call("echo", {"message": "hi"}).json()["result"] == {"message": "hi"}
    assert rest.post("/v1/tools/search", {"query": "echo"}).json()["results"][0]["name"] == "echo"


@pytest.mark.parametrize("name", ["call", "search"])
def test_without_such_a_tool_there_is_none(rest: Rest, name: str) -> None:
    assert failure(rest.get(f"/v1/tools/{name}"), 404, "TOOL_NOT_FOUND")["error"] == f"Tool not found: {name}"
    refused = rest.send("PUT", f"/v1/tools/{name}")
    assert refused.headers["Allow"] == "DELETE, GET, PATCH, POST"
