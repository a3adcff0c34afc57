"""What there is in the n8n and the Redmine that the demo's tools reach: enough to be found by trying."""

from __future__ import annotations

from itertools import cycle

from toolhub.demo.asking import SUBJECTS, WORKFLOWS
from tests.packs.n8n.fake import N8n, recorded_executions
from tests.support.redmine import FakeRedmine

_START, _SEND = "Every hour", "Send"


def furnish(n8n: N8n, redmine: FakeRedmine) -> None:
    for name in WORKFLOWS:
        nodes = [_node(_START, "n8n-nodes-base.scheduleTrigger", 0), _node(_SEND, "n8n-nodes-base.httpRequest", 1)]
        connections = {_START: {"main": [[{"node": _SEND, "type": "main", "index": 0}]]}}
        n8n.add({"name": name, "nodes": nodes, "connections": connections, "settings": {}, "active": True})
    for name in recorded_executions():
        n8n.hold(name)
    for issue, subject in zip(redmine.issues.values(), cycle(SUBJECTS), strict=False):
        issue["subject"] = subject
    for project, name in zip(redmine.projects.values(), ("Shop", "Warehouse", "Customer care"), strict=False):
        project["name"] = name


def _node(name: str, kind: str, number: int) -> dict[str, object]:
    return {
        "id": f"node-{number}", "name": name, "type": kind, "typeVersion": 1, "position": [240 * number, 0],
        "parameters": {},
    }  # fmt: skip
