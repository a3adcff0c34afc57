"""Budgets over REST: set, shown, refused when spent, and told to those who ask."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tools_app.models import ApiKey, AuditEntry

ECHO = {"name": "echo", "parameters": {"message": "hi"}}


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["admin:*"])
    return rest


def change(rest: Rest, path: str, body: Any) -> Any:
    return rest.send("PATCH", path, json.dumps(body))


def test_the_budget_of_a_key_is_set_spent_shown_and_raised(root: Rest) -> None:
    made = root.post("/v1/keys", {"name": "worker", "budget": {"callsPerDay": 2, "tokensPerMonth": 10_000}}).json()
    check_form("NewKey", made)
    path = f"/v1/keys/{made['id']}"
    assert made["budget"] == {
        "callsPerDay": 2, "tokensPerDay": None, "callsPerMonth": None, "tokensPerMonth": 10_000,
    }  # fmt: skip
    assert [(use["unit"], use["used"]) for use in made["budgetUse"]] == [("calls", 0), ("tokens", 0)]
    assert AuditEntry.objects.get(action="key.create", subject="key:worker").changes["budget"] == [
        None,
        {"calls_a_day": 2, "tokens_a_month": 10_000},
    ]
    worker = made["key"]
    for _ in range(2):
        assert root.post("/v1/tools/call", ECHO, key=worker).status_code == 200
    refused = root.post("/v1/tools/call", ECHO, key=worker)
    assert (refused.status_code, refused.json()["code"]) == (429, "BUDGET_SPENT")
    assert 0 < int(refused.headers["Retry-After"]) <= 25 * 3600
    shown = root.get("/v1/budgets", key=worker).json()
    check_form("CallerBudgets", shown)
    calls, tokens = shown["budgets"]
    assert (calls["owner"], calls["limit"], calls["used"], calls["percent"]) == ("key", 2, 2, 100)
    assert 0 < tokens["used"] < 100
    listed = next(key for key in root.get("/v1/keys").json()["keys"] if key["name"] == "worker")
    assert listed["budgetUse"][0]["used"] == root.get(path).json()["budgetUse"][0]["used"] == 2

    assert change(root, path, {"budget": None, "reason": "enough"}).json()["budget"] is None
    assert root.post("/v1/tools/call", ECHO, key=worker).status_code == 200
    assert root.get("/v1/budgets", key=worker).json() == {"budgets": []}


def test_the_budget_of_a_toolset_is_that_of_all_its_keys(root: Rest, make_key: MakeKey) -> None:
    made = root.post("/v1/toolsets", {"name": "support", "names": ["echo"], "budget": {"callsPerMonth": 1}}).json()
    check_form("ToolsetDetail", made)
    one, other = (make_key(name, toolsets=["support"]) for name in ("one", "other"))
    assert root.post("/v1/tools/call", ECHO, key=one).status_code == 200
    assert root.post("/v1/tools/call", ECHO, key=other).json()["context"]["budget"] == "the toolset support"
    told = root.get("/v1/budgets", key=other).json()["budgets"]
    assert [(limit["owner"], limit["toolset"], limit["percent"]) for limit in told] == [("toolset", "support", 100)]
    assert root.get("/v1/toolsets").json()["toolsets"][0]["budgetUse"][0]["percent"] == 100
    # What is not named stays.
    assert change(root, "/v1/toolsets/support", {"description": "x"}).json()["budget"]["callsPerMonth"] == 1
    assert change(root, "/v1/toolsets/support", {"budget": {"callsPerMonth": 2}}).json()["budgetUse"][0]["limit"] == 2
    assert root.post("/v1/tools/call", ECHO, key=other).status_code == 200


@pytest.mark.parametrize("value", [0, -1, 1.5, "5", 10**12 + 1])
def test_refuses_a_limit_that_is_none(root: Rest, value: object) -> None:
    response = root.post("/v1/keys", {"name": "worker", "budget": {"tokensPerDay": value}})
    assert failure(response, 400, "VALIDATION_ERROR")["details"][0]["path"] == "/budget/tokensPerDay"


def test_a_key_with_a_budget_cannot_make_one_with_more(root: Rest) -> None:
    limited = root.post("/v1/keys", {"name": "limited", "scopes": ["admin:*"], "budget": {"callsPerDay": 50}}).json()
    for budget in (None, {"callsPerDay": 51}, {"callsPerMonth": 50}):
        refused = root.post("/v1/keys", {"name": "more", "budget": budget}, key=limited["key"])
        assert "its budget" in failure(refused, 403, "AUTHORIZATION_ERROR")["error"]
    fitting = {"name": "less", "budget": {"callsPerDay": 50, "tokensPerDay": 1}}
    assert root.post("/v1/keys", fitting, key=limited["key"]).status_code == 201
    assert ApiKey.objects.filter(name="more").count() == 0
