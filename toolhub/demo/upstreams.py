"""A small n8n and a small Redmine on loopback, with what the demo's calls ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from toolhub.demo.asking import ISSUES, SUBJECTS, WORKFLOWS
from toolhub.testing.upstream import FakeUpstream, ReceivedRequest, Reply, fake_upstream

_START, _SEND = "Every hour", "Send"
_DAY: Final = "2026-05-12"
_PROJECT: Final = {"id": 1, "name": "Shop"}
_STATUSES: Final = {1: "New", 2: "In Progress", 3: "Resolved", 5: "Closed"}
_EXECUTIONS: Final = 9


@contextlib.contextmanager
def running() -> Iterator[tuple[str, str]]:
    """Their addresses, for the length of the block."""
    with fake_upstream(_n8n()) as n8n, fake_upstream(_redmine()) as redmine:
        _furnish_redmine(redmine)
        yield n8n.url, redmine.url


def _n8n() -> dict[str, Any]:
    workflows = {f"wf{number:04}": _workflow(f"wf{number:04}", name) for number, name in enumerate(WORKFLOWS, 1)}
    executions = [_execution(number, workflows) for number in range(_EXECUTIONS, 0, -1)]

    def list_executions(request: ReceivedRequest) -> dict[str, Any]:
        status = request.query.get("status")
        listed = [one for one in executions if status in (None, one["status"])]
        return {"data": [{key: one[key] for key in one if key != "data"} for one in listed], "nextCursor": None}

    return {
        "GET /api/v1/workflows": {"data": list(workflows.values()), "nextCursor": None},
        **{f"GET /api/v1/workflows/{key}": workflow for key, workflow in workflows.items()},
        "GET /api/v1/executions": list_executions,
        **{f"GET /api/v1/executions/{one['id']}": one for one in executions},
    }


def _workflow(key: str, name: str) -> dict[str, Any]:
    return {
        "id": key, "name": name, "active": True, "isArchived": False, "settings": {}, "staticData": None, "tags": [],
        "createdAt": f"{_DAY}T08:00:00.000Z", "updatedAt": f"{_DAY}T08:00:00.000Z", "versionId": f"version-{key}",
        "triggerCount": 1, "nodes": [_node(_START, "scheduleTrigger", 0), _node(_SEND, "httpRequest", 1)],
        "connections": {_START: {"main": [[{"node": _SEND, "type": "main", "index": 0}]]}},
    }  # fmt: skip


def _node(name: str, kind: str, number: int) -> dict[str, Any]:
    return {
        "id": f"node-{number}", "name": name, "type": f"n8n-nodes-base.{kind}", "typeVersion": 1,
        "position": [240 * number, 0], "parameters": {},
    }  # fmt: skip


def _execution(number: int, workflows: Mapping[str, Any]) -> dict[str, Any]:
    """Every third one failed, as the carrier did not answer."""
    workflow = list(workflows.values())[number % len(workflows)]
    failed = number % 3 == 0
    error = {"name": "NodeApiError", "message": "The service refused the connection", "httpCode": "ECONNREFUSED"}
    sent: dict[str, Any] = {"startTime": 1_778_572_800_000, "executionTime": 14, "executionIndex": 1, "source": []}
    sent |= {"executionStatus": "error", "error": error} if failed else {
        "executionStatus": "success", "data": {"main": [[{"json": {"order": "O-2041", "sent": True}}]]},
    }  # fmt: skip
    result = {"runData": {_SEND: [sent]}, "lastNodeExecuted": _SEND, **({"error": error} if failed else {})}
    return {
        "id": str(number), "finished": not failed, "mode": "trigger", "status": "error" if failed else "success",
        "retryOf": None, "retrySuccessId": None, "workflowId": workflow["id"], "waitTill": None,
        "startedAt": f"{_DAY}T{number + 8:02}:00:00.000Z", "stoppedAt": f"{_DAY}T{number + 8:02}:00:02.100Z",
        "workflowData": workflow, "data": {"resultData": result},
    }  # fmt: skip


def _furnish_redmine(redmine: FakeUpstream) -> None:
    issues: dict[int, dict[str, Any]] = {}

    def add(number: int, subject: str) -> dict[str, Any]:
        issue = issues[number] = _issue(number, subject)
        redmine.on(f"GET /issues/{number}.json", {"issue": issue})
        redmine.on(f"PUT /issues/{number}.json", lambda request: update(issue, request.data["issue"]))
        return issue

    def update(issue: dict[str, Any], changes: Mapping[str, Any]) -> Reply:
        issue |= {key: changes[key] for key in ("subject", "description") if key in changes}
        if (status := int(changes.get("status_id", 0))) in _STATUSES:
            issue["status"] = _status(status)
        return Reply(204)

    def create(request: ReceivedRequest) -> Reply:
        return Reply(201, {"issue": add(max(issues) + 1, str(request.data["issue"].get("subject", "")))})

    def list_issues(request: ReceivedRequest) -> dict[str, Any]:
        offset, limit = int(request.query.get("offset", 0)), int(request.query.get("limit", 25))
        page = list(issues.values())[offset : offset + limit]
        return {"issues": page, "total_count": len(issues), "offset": offset, "limit": limit}

    for number, subject in zip(ISSUES, SUBJECTS, strict=False):
        add(number, subject)
    redmine.on("GET /issues.json", list_issues)
    redmine.on("POST /issues.json", create)


def _redmine() -> dict[str, Any]:
    return {
        "GET /users/current.json": {"user": {"id": 5, "login": "shop", "firstname": "Shop", "lastname": "Bot"}},
        "GET /projects.json": {"projects": [_project()], "total_count": 1, "offset": 0, "limit": 25},
        **{f"GET /projects/{key}.json": {"project": _project()} for key in ("1", "shop")},
        "GET /trackers.json": {"trackers": [{"id": 1, "name": "Bug"}, {"id": 3, "name": "Support"}]},
        "GET /issue_statuses.json": {"issue_statuses": [_status(number) for number in _STATUSES]},
        "GET /enumerations/issue_priorities.json": {"issue_priorities": [{"id": 2, "name": "Normal", "active": True}]},
        "GET /custom_fields.json": {"custom_fields": []},
    }


def _status(number: int) -> dict[str, Any]:
    return {"id": number, "name": _STATUSES[number], "is_closed": number == 5}


def _project() -> dict[str, Any]:
    return {
        **_PROJECT, "identifier": "shop", "description": "", "status": 1, "is_public": True,
        "trackers": [{"id": 1, "name": "Bug"}, {"id": 3, "name": "Support"}], "custom_fields": [],
        "created_on": f"{_DAY}T08:00:00Z", "updated_on": f"{_DAY}T08:00:00Z",
    }  # fmt: skip


def _issue(number: int, subject: str) -> dict[str, Any]:
    return {
        "id": number, "project": dict(_PROJECT), "tracker": {"id": 3, "name": "Support"}, "status": _status(1),
        "priority": {"id": 2, "name": "Normal"}, "author": {"id": 5, "name": "Shop Bot"}, "subject": subject,
        "description": "", "done_ratio": 0, "custom_fields": [], "start_date": _DAY, "due_date": None,
        "created_on": f"{_DAY}T09:30:00Z", "updated_on": f"{_DAY}T10:00:00Z", "closed_on": None,
    }  # fmt: skip
