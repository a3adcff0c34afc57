"""Lists of executions: failures of both kinds, page by page, and what is not there."""

from __future__ import annotations

import base64
import random

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n, recorded


def hold(n8n: N8n, number: int, status: str) -> None:
    told = recorded("execution_error_code", n8n.line)
    n8n.executions[str(number)] = told | {"id": str(number), "status": status}


def test_crashed_executions_are_among_those_that_failed(ask: Ask, n8n: N8n) -> None:
    for number, status in enumerate(("success", "error", "crashed", "canceled", "error"), start=1):
        hold(n8n, number, status)
    found = ask("list_executions", status="error")
    assert [(each["id"], each["status"]) for each in found["executions"]] == [
        ("5", "error"),
        ("3", "crashed"),
        ("2", "error"),
    ]
    assert (found["count"], found["nextCursor"]) == (3, None)


@pytest.mark.parametrize(
    "kinds", [("error", "crashed"), ("error", "error", "success", "crashed"), ("crashed",), ("error",)]
)
def test_pages_of_failures_have_each_once_the_newest_first(ask: Ask, n8n: N8n, kinds: tuple[str, ...]) -> None:
    chance = random.Random(1)
    for number in range(1, 31):
        hold(n8n, number, chance.choice(kinds))
    expected = [number for number in range(30, 0, -1) if n8n.executions[str(number)]["status"] != "success"]
    for limit in (2, 7, 100):
        seen: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            page = ask("list_executions", status="error", limit=limit, cursor=cursor)
            assert 0 < page["count"] <= limit
            seen += [int(each["id"]) for each in page["executions"]]
            cursor = page["nextCursor"]
        assert seen == expected


@pytest.mark.parametrize(
    "cursor", ["failures.garbage", "failures." + base64.b64encode(b'{"before": 1, "cursors": {"x": 1}}').decode()]
)
def test_a_cursor_that_is_none_is_refused(ask: Ask, cursor: str) -> None:
    assert ask.error("list_executions", status="error", cursor=cursor).message.startswith("cursor is not")


@pytest.mark.parametrize("workflow_id", ["Monthly invoices", "nosuchnosuch", 99])
def test_an_unknown_workflow_is_reported(ask: Ask, workflow_id: str | int) -> None:
    error = ask.error("list_executions", workflowId=workflow_id)
    assert error.message == f"Workflow '{workflow_id}' not found"
    assert f"list_workflows(name: '{workflow_id}')" in error.next_step


def test_a_workflow_without_executions_has_an_empty_list(ask: Ask, n8n: N8n) -> None:
    one = n8n.add({"name": "new", "nodes": [], "connections": {}, "settings": {}})
    assert ask("list_executions", workflowId=one)["count"] == 0


def test_ids_can_be_sent_as_numbers(ask: Ask, n8n: N8n) -> None:
    one = int(n8n.hold("error_code"))
    assert ask("get_execution", id=one)["id"] == str(one)
    assert ask("explain_execution", id=one)["executionId"] == str(one)
    assert ask("get_execution_by_node", id=one, nodeName="Boom")["executionId"] == str(one)
