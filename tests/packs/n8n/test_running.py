"""Running workflows through their triggers: what n8n is sent, how long the hub waits, and what cannot be run."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n, Refuses
from tests.packs.n8n.script import MANUAL, code, to, webhook
from tools_app.packs.n8n import triggers

FORM: dict[str, Any] = {
    "id": "f",
    "name": "Form",
    "type": "n8n-nodes-base.formTrigger",
    "typeVersion": 2.2,
    "position": [0, 0],
    "webhookId": "the-form",
    "parameters": {
        "formTitle": "Order",
        "formFields": {"values": [{"fieldLabel": "Name"}, {"fieldLabel": "Größe"}]},
        "options": {},
    },
}
CHAT: dict[str, Any] = {
    "id": "t",
    "name": "Chat",
    "type": "@n8n/n8n-nodes-langchain.chatTrigger",
    "typeVersion": 1.1,
    "position": [0, 0],
    "webhookId": "the-chat",
    "parameters": {"public": True, "options": {}},
}


def active(n8n: N8n, *nodes: dict[str, Any]) -> str:
    links = {node["name"]: to("Add") for node in nodes}
    parts = {"name": "to run", "nodes": [*nodes, code("Add", "")], "connections": links, "settings": {}}
    return n8n.add(parts | {"active": True})


def triggered(n8n: N8n) -> Any:
    """The one request to a trigger."""
    (seen,) = [seen for seen in n8n.requests if "/api/v1/" not in seen.target]
    return seen


class TestATrigger:
    def test_a_webhook_is_called_and_its_execution_awaited(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("orders/new"))
        n8n.hold("error_code")
        data = ask("run_workflow", id=one, data={"order": 7})
        assert data["response"] == {"status": 200, "body": {"done": True}}
        assert (data["workflowId"], data["status"]) == (one, "success")
        assert n8n.executions[data["id"]]["workflowId"] == one
        assert data["_guidance"]["example"] == f"get_execution(id: '{data['id']}')"
        seen = triggered(n8n)
        assert (seen.method, seen.target, json.loads(seen.body)) == ("POST", "/n8n/webhook/orders/new", {"order": 7})
        assert "x-n8n-api-key" not in seen.headers, "the key is for the API, and workflows store their headers"

    def test_a_get_has_its_data_in_the_query(self, ask: Ask, n8n: N8n) -> None:
        hook = webhook("look")
        hook["parameters"]["httpMethod"] = "GET"
        ask("run_workflow", id=active(n8n, hook), data={"order": 7, "name": "a b"})
        assert triggered(n8n).target == "/n8n/webhook/look?order=7&name=a%20b"

    def test_a_form_is_sent_as_its_page_sends_it(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, FORM)
        assert ask("run_workflow", id=one, data={"Größe": 7, "Name": "x"})["status"] == "success"
        seen = triggered(n8n)
        assert seen.target == "/n8n/form/the-form"
        assert seen.headers["content-type"].startswith("multipart/form-data; boundary=")
        text = seen.body.decode()
        assert 'name="field-1"\r\n\r\n7\r\n' in text
        assert 'name="field-0"\r\n\r\nx\r\n' in text
        error = ask.error("run_workflow", id=one, data={"Colour": "x"})
        assert (error.message, error.next_step) == (
            "data: the form 'Form' has no field 'Colour'",
            "Its fields: 'Name', 'Größe'.",
        )

    def test_a_chat_gets_a_message(self, ask: Ask, n8n: N8n) -> None:
        ask("run_workflow", id=active(n8n, CHAT), data={"chatInput": "hello"})
        seen = triggered(n8n)
        assert seen.target == "/n8n/webhook/the-chat/chat"
        body = json.loads(seen.body)
        assert (body["action"], body["chatInput"]) == ("sendMessage", "hello")

    def test_one_of_several_is_named(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("a"), CHAT)
        error = ask.error("run_workflow", id=one)
        assert (error.message, error.next_step) == (
            "trigger: there are several triggers",
            "Name one of 'Webhook', 'Chat'.",
        )
        assert ask("run_workflow", id=one, trigger="Chat", data={"chatInput": "x"})["status"] == "success"
        assert ask.error("run_workflow", id=one, trigger="Add").message == "trigger: there is no trigger 'Add'"


class TestTheOutcome:
    def test_a_failed_execution_is_named_to_be_explained(self, ask: Ask, n8n: N8n) -> None:
        n8n.ends = "error"
        data = ask("run_workflow", id=active(n8n, webhook("a")))
        assert data["status"] == "error"
        assert data["response"] == {"status": 500, "body": "Error in workflow"}
        assert data["_guidance"]["example"] == f"explain_execution(id: '{data['id']}')"

    def test_one_that_still_runs_is_awaited_as_long_as_asked(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("a"))
        n8n.ends = "running"
        data = ask("run_workflow", id=one, wait=1)
        assert (data["status"], data["response"]["status"]) == ("running", 200)
        first = data["id"]
        timer = threading.Timer(0.5, lambda: n8n.executions["2"].update(status="success"))
        timer.start()
        try:
            data = ask("run_workflow", id=one, wait=30)
        finally:
            timer.join()
        assert (data["id"], data["status"]) == ("2", "success")
        assert first == "1", "older executions are not those of this call"

    @pytest.mark.parametrize("line", ["2"])
    def test_executions_of_others_at_the_same_time_are_reported(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("a"))
        run = n8n._run
        n8n._run = lambda workflow: run(workflow) and run(workflow)  # type: ignore[method-assign]
        data = ask("run_workflow", id=one)
        assert (data["id"], data["warnings"]) == (
            "1",
            ["1 more began at the same time; this may not be the one."],
        )

    @pytest.mark.parametrize("line", ["2"])
    def test_an_execution_that_is_not_saved_is_not_awaited_for_long(
        self, ask: Ask, n8n: N8n, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(triggers, "_LISTED_WITHIN", 0.1)
        one = active(n8n, webhook("a"))
        n8n._run = lambda workflow: {"done": True}  # type: ignore[method-assign]
        data = ask("run_workflow", id=one)
        assert (data["id"], data["response"]["status"]) == (None, 200)
        assert data["warnings"][0].startswith("n8n lists no execution of this call.")

    @pytest.mark.parametrize("line", ["2"])
    def test_a_webhook_that_is_not_there_yet_is_called_again(self, ask: Ask, n8n: N8n) -> None:
        n8n.deaf = 1
        assert ask("run_workflow", id=active(n8n, webhook("a")))["status"] == "success"
        assert len(n8n.executions) == 1

    def test_a_workflow_that_answers_404_runs_once(self, ask: Ask, n8n: N8n) -> None:
        n8n.answers = Refuses(404, {"message": "no such order"})
        data = ask("run_workflow", id=active(n8n, webhook("a")))
        assert data["response"] == {"status": 404, "body": "no such order"}
        assert len(n8n.executions) == 1


class TestWhatCannotBeRun:
    def test_a_workflow_without_such_a_trigger(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(
            {"name": "by hand", "nodes": [MANUAL, webhook("a") | {"disabled": True}], "connections": {}, "settings": {}}
        )
        error = ask.error("run_workflow", id=one)
        assert error.message == (
            f"Workflow '{one}' has no webhook, form or chat trigger (it has: 'Start'), and n8n's API starts no other"
        )
        assert (error.code, error.retryable) == ("CONFLICT", False)
        assert "retry_execution" in error.next_step

    def test_one_that_is_not_active(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("a"))
        n8n.workflows[one]["active"] = False
        error = ask.error("run_workflow", id=one)
        assert error.message == f"Workflow '{one}' is not active: n8n starts it only in its editor"
        assert error.next_step.startswith(f"activate_workflow(id: '{one}')")

    @pytest.mark.parametrize(
        ("node", "reason"),
        [
            (
                webhook("a") | {"parameters": {"path": "a", "authentication": "headerAuth"}},
                "'Webhook' cannot be called: it requires authentication, which this connection does not have",
            ),
            (
                webhook("a") | {"parameters": {"path": "users/:id"}},
                "'Webhook' cannot be called: it has the path 'users/:id', whose parts are not fixed",
            ),
            (CHAT | {"parameters": {}}, "'Chat' cannot be called: it is not public"),
        ],
    )
    @pytest.mark.parametrize("line", ["2"])
    def test_a_trigger_that_wants_more(self, ask: Ask, n8n: N8n, node: dict[str, Any], reason: str) -> None:
        error = ask.error("run_workflow", id=active(n8n, node))
        assert error.message == f"The trigger {reason}"
        assert n8n.executions == {}

    @pytest.mark.parametrize("line", ["2"])
    def test_a_path_that_leads_elsewhere(self, ask: Ask, n8n: N8n) -> None:
        one = active(n8n, webhook("../api/v1/workflows"))
        assert ask.error("run_workflow", id=one).code == "VALIDATION_ERROR"
        assert all("/api/v1/" in seen.target for seen in n8n.requests)

    def test_a_read_only_connection(self, ask: Ask, n8n: N8n, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("N8N_READ_ONLY", "true")
        assert ask.error("run_workflow", id=active(n8n, webhook("a"))).code == "TOOL_DISABLED"
        assert n8n.executions == {}
