"""One conversation with n8n, whichever it is: what it leads to was recorded, and the fake must say the same.

`transcript` has every answer, with what differs from one time to the next replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.packs.n8n.conftest import Ask

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}Z|\+00:00)")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HANDLE: Final = re.compile(r"\b[0-9a-f]{32}\b")
MANUAL: Final = {
    "id": "a",
    "name": "Start",
    "type": "n8n-nodes-base.manualTrigger",
    "typeVersion": 1,
    "position": [0, 0],
    "parameters": {},
}


def webhook(path: str) -> dict[str, Any]:
    parameters = {"httpMethod": "POST", "path": path, "responseMode": "lastNode", "options": {}}
    there = {"id": "w", "name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2}
    return {**there, "position": [0, 0], "parameters": parameters, "webhookId": path}


def code(name: str, script: str) -> dict[str, Any]:
    there = {"id": f"c-{name}", "name": name, "type": "n8n-nodes-base.code", "typeVersion": 2}
    return {**there, "position": [240, 0], "parameters": {"jsCode": script}}


def to(node: str) -> dict[str, Any]:
    return {"main": [[{"node": node, "type": "main", "index": 0}]]}


class Script:
    """The conversation, and what came of it."""

    def __init__(
        self,
        ask: Ask,
        folder: Path,
        settled: Callable[[str], None] = lambda path: None,
        rested: Callable[[], None] = lambda: None,
    ) -> None:
        """`folder` is the one whose files may be read.

        `settled` waits until a webhook is there: n8n 2 says that it has activated a workflow a moment before.

        `rested` waits until n8n 2 has switched one off for good: meanwhile it may fail to delete it, with a 500.
        """
        self._ask = ask
        self._folder = folder
        self._rested = rested
        self._settled = settled
        self._names: dict[str, str] = {}
        self.transcript: list[Any] = []

    def run(self) -> list[Any]:
        made = self.did("create_workflow", name="script", nodes=[MANUAL], connections={}, settings={})
        one = made["id"]
        self._names[one] = "<one>"
        self.did("get_workflow", id=one)
        self.did("get_workflow", id=one, raw=True)
        self.did("update_workflow", id=one, name="script, renamed", settings={"timezone": "UTC"})
        self.did("update_workflow", id=one, settings={"executionOrder": "v1", "noSuchSetting": 1}, active=True)
        self.did("get_workflow", id=one, raw=True)
        self.did("activate_workflow", id=one)
        nodes = [webhook("toolhub-script"), code("Add", "return $input.all();")]
        self.did("update_workflow", id=one, nodes=nodes, connections={"Webhook": to("Add")})
        self.did("update_workflow", id=one, nodes=nodes, connections={"Webhook": to("Add")}, confirmRemoved=["Start"])
        self.did("get_workflow_connections", id=one, raw=True)
        self.did("get_workflow_node", workflowId=one, nodeId="Add")
        self.did("get_workflow_node", workflowId=one, nodeId="Nope")
        self._edits(one)
        self.did("activate_workflow", id=one)
        self._settled("toolhub-script")
        other = self.did("create_workflow", name="script, too", nodes=nodes, connections={}, settings={})["id"]
        self._names[other] = "<other>"
        self.did("activate_workflow", id=other)
        self.did("list_workflows", name="script, too")
        self.did("list_workflows", name="script", active=True, raw=True)
        self.did("list_executions", workflowId=one)
        self.did("list_executions", workflowId=one, status="waiting")
        self.did("list_executions", cursor="garbage")
        self.did("update_workflow", id=one, nodes=[{"name": "Webhook"}, {"name": "Add", "parameters": {}}])
        self.did("update_workflow", id=one, nodes=[{"name": "Webhook"}, {"id": "c-Add", "name": "Sum"}], raw=True)
        self._files(one)
        self._half(nodes)
        self.did("deactivate_workflow", id=one)
        self._rested()
        self.did("delete_workflow", id=one)
        self.did("delete_workflow", id=other)
        third = self.did("create_workflow", name="script, on", nodes=nodes, connections={}, settings={})["id"]
        self.did("activate_workflow", id=third)
        self.did("delete_workflow", id=third)
        self.did("deactivate_workflow", id=third)
        self._rested()
        self.did("delete_workflow", id=third)
        for name in ("get_workflow", "activate_workflow", "deactivate_workflow", "delete_workflow"):
            self.did(name, id=one)
        self.did("update_workflow", id=one, name="gone")
        for name in ("get_execution", "explain_execution", "retry_execution", "stop_execution", "delete_execution"):
            self.did(name, id="99999")
        self.did("get_execution", id="abc")
        for kind in ("variables", "projects", "dataTables"):
            self.did("list_n8n_resources", kind=kind)
        self.did("list_executions", workflowName="nobody has this")
        return self.transcript

    def _edits(self, one: str) -> None:
        """Edits, and their opposites: the workflow is then as it was."""
        log = {"type": "n8n-nodes-base.noOp", "typeVersion": 1, "notes": "nothing"}
        there = [
            {"op": "replace_text", "node": "Add", "old": "$input", "new": "$('Webhook')"},
            {"op": "rename_node", "node": "Webhook", "name": "Hook"},
            {"op": "update_node", "node": "Hook", "fields": {"parameters.options.rawBody": True}},
            {"op": "add_node", "node": "Log", "fields": log},
            {"op": "disconnect", "node": "Hook", "to": "Add"},
            {"op": "connect", "node": "Hook", "to": "Log"},
            {"op": "connect", "node": "Log", "to": "Add"},
            {"op": "disable_node", "node": "Log"},
            {"op": "set_settings", "settings": {"executionTimeout": 60}},
        ]
        back = [
            {"op": "remove_node", "node": "Log"},
            {"op": "connect", "node": "Hook", "to": "Add"},
            {"op": "rename_node", "node": "Hook", "name": "Webhook"},
            {"op": "update_node", "node": "Webhook", "fields": {"parameters.options.rawBody": None}},
            {"op": "replace_text", "node": "Add", "old": "$('Webhook')", "new": "$input"},
        ]
        self.did("edit_workflow", id=one, operations=there, preview=True)
        self.did("edit_workflow", id=one, operations=there)
        self.did("validate_workflow", id=one)
        self.did("edit_workflow", id=one, operations=there)
        self.did("edit_workflow", id=one, operations=back, version="older")
        self.did("edit_workflow", id=one, operations=[{"op": "set_tags", "tags": ["nobody has this"]}])
        self.did("list_workflow_versions", id=one, limit=3)
        self.did("list_workflow_versions", id="nothing")
        self.did("update_workflow", id=one, restore="75958426-9376-4eac-b0ae-4d01ea188cdb")
        self.did("edit_workflow", id=one, operations=back)
        self.did("edit_workflow", id="nothing", operations=back)
        self.did("get_workflow", id=one, raw=True)

    def _files(self, one: str) -> None:
        exported = {"name": "from a file", "nodes": [MANUAL], "connections": {}, "settings": {"executionOrder": "v1"}}
        for name, told in {
            "new.json": exported | {"id": "x", "active": True, "tags": [{"name": "a"}], "pinData": {"Start": [{}]}},
            "other.json": exported | {"name": "from another", "settings": {"timezone": "UTC"}},
            "wrong.json": exported | {"nodes": {}},
        }.items():
            (self._folder / name).write_text(json.dumps(told))
        made = self.did("create_workflow_from_file", filePath="new.json", raw=True)["id"]
        self.did("create_workflow_from_file", filePath="wrong.json")
        self.did("create_workflow_from_file", filePath="none.json")
        self.did("replace_workflow_from_file", id=made, filePath="other.json")
        self.did("get_workflow", id=made, raw=True)
        self.did("delete_workflow", id=made)
        self.did("replace_workflow_from_file", id=made, filePath="other.json")

    def _half(self, taken: list[dict[str, Any]]) -> None:
        """An active workflow is changed so that it cannot be active: n8n saves that all the same."""
        nodes = [webhook("toolhub-script-too"), *taken[1:]]
        links = {"Webhook": to("Add")}
        one = self.did("create_workflow", name="script, half", nodes=nodes, connections=links, settings={})["id"]
        self.did("activate_workflow", id=one)
        self._settled("toolhub-script-too")
        self.did("update_workflow", id=one, nodes=taken)
        self.did("get_workflow", id=one, raw=True)
        self.did("deactivate_workflow", id=one)
        self._rested()
        self.did("delete_workflow", id=one)

    def did(self, name: str, /, **arguments: Any) -> Any:
        from tools_app.sdk.errors import ToolError

        shown = {"tool": name, "arguments": arguments}
        try:
            answer = self._ask(name, **arguments)
        except ToolError as error:
            ours = ("errorId", "retryAfter", "untrusted")  # which n8n does not say
            told = {key: value for key, value in error.as_dict().items() if key not in ours}
            self.transcript.append(self._plain(shown | {"failed": told}))
            return None
        self.transcript.append(self._plain(shown | {"answered": answer}))
        if name.startswith("create_workflow"):
            self._names[str(answer["id"])] = f"<{len(self._names)}>"
            self.transcript[-1] = self._plain(self.transcript[-1])
        return answer

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._plain(key): self._plain(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if not isinstance(value, str):
            return value
        for known, name in self._names.items():
            value = value.replace(known, name)
        return _HANDLE.sub("<handle>", _UUID.sub("<uuid>", _TIME.sub("<time>", value)))
