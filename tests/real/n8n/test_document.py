"""n8n through its own document: what it says and does there, it says and does through the pack."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.packs.n8n.conftest import Ask
from tests.real.document import Documented
from tests.real.n8n.server import Server

pytestmark = pytest.mark.real

NODE: dict[str, Any] = {
    "id": "a",
    "name": "Every hour",
    "type": "n8n-nodes-base.scheduleTrigger",
    "typeVersion": 1.2,
    "position": [0, 0],
    "parameters": {"rule": {"interval": [{"field": "hours"}]}},
}


@pytest.fixture
def documented(n8n: Server) -> Documented:
    # Beside the page that shows it, without a key.
    document = httpx.get(f"{n8n.url}/api/v1/openapi.yml").raise_for_status().content
    return Documented("n8n", f"{n8n.url}/api/v1", document)


def operation(documented: Documented, key: str) -> str:
    """The name of the tool for a method and path."""
    return next(name for name, spec in documented.specs.items() if spec.key == key)


def test_workflows_are_those_of_the_pack(documented: Documented, n8n: Server, ask: Ask) -> None:
    def call(key: str, **arguments: Any) -> Any:
        return documented.call({"X-N8N-API-KEY": n8n.key}, operation(documented, key), **arguments)

    def shown(workflow: str) -> Any:
        return ask("get_workflow", id=workflow)

    body = {"name": "Té & <tea>", "nodes": [NODE], "connections": {}, "settings": {}}
    one = call("POST /workflows", body=body)["id"]
    assert shown(one)["name"] == "Té & <tea>"
    two = ask("create_workflow", name="Two", nodes=[NODE], connections={}, settings={})["id"]
    assert call("GET /workflows/{id}", id=two)["name"] == "Two"
    listed = {workflow["id"] for workflow in call("GET /workflows", limit=100)["data"]}
    assert {one, two} <= listed
    assert [workflow["id"] for workflow in call("GET /workflows", name="Té & <tea>")["data"]] == [one]
    assert call("GET /workflows", active=True)["data"] == []
    assert call("POST /workflows/{id}/activate", id=one)["active"] is True
    assert shown(one)["active"] is True
    assert [workflow["id"] for workflow in call("GET /workflows", active=True)["data"]] == [one]
    assert call("POST /workflows/{id}/deactivate", id=one)["active"] is False
    assert call("PUT /workflows/{id}", id=one, body={**body, "name": "One"})["name"] == "One"
    assert shown(one)["name"] == "One"
    tag = call("POST /tags", body={"name": "tea"})["id"]
    assert call("PUT /workflows/{id}/tags", id=one, body=[{"id": tag}])[0]["name"] == "tea"
    assert [workflow["id"] for workflow in call("GET /workflows", tags="tea")["data"]] == [one]
    assert call("GET /executions", limit=5)["data"] == []
    assert call("DELETE /workflows/{id}", id=one)["id"] == one
    ask("delete_workflow", id=two)


def test_refusals_are_in_the_words_of_n8n(documented: Documented, n8n: Server) -> None:
    headers = {"X-N8N-API-KEY": n8n.key}
    missing = documented.refusal(headers, operation(documented, "GET /workflows/{id}"), id="nothing")
    assert (missing.code, missing.context["resourceId"]) == ("NOT_FOUND", "nothing")
    assert "HTTP 404: Not Found" in missing.message
    empty = {"name": "", "nodes": [], "connections": {}, "settings": {"timezone": ""}}
    workflow = documented.call(headers, operation(documented, "POST /workflows"), body={**empty, "name": "x"})["id"]
    refused = documented.refusal(headers, operation(documented, "POST /workflows/{id}/activate"), id=workflow)
    assert refused.code == "UPSTREAM_VALIDATION"
    assert "trigger" in refused.message
    documented.call(headers, operation(documented, "DELETE /workflows/{id}"), id=workflow)
    wrong = documented.refusal({"X-N8N-API-KEY": "wrong"}, operation(documented, "GET /workflows"))
    assert "does not accept the secret of this connection" in wrong.message
