"""n8n on loopback: workflows and executions in memory, recorded executions, and n8n's own words, of either line.

What it answers was recorded from n8n 2.41.1 and 1.123.81; `tests/real/n8n` runs the same tests against those.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from tests.packs.n8n.tables import Tables, Wrong
from tests.support.faultd import Faultd, Seen, Wire

RECORDED: Final = Path(__file__).parent
KEY: Final = "key-of-the-fake-n8n"
READER: Final = "key-that-only-reads"
_MOST: Final = 250
_READ_ONLY: Final = ("id", "active", "createdAt", "updatedAt", "tags", "triggerCount")
_KEYS: Final = {"name", "nodes", "connections", "settings", "staticData"}
_SETTINGS: Final = frozenset(
    {
        *("timezone", "executionOrder", "errorWorkflow", "executionTimeout", "callerPolicy", "callerIds"),
        *("saveExecutionProgress", "saveManualExecutions", "saveDataErrorExecution", "saveDataSuccessExecution"),
        *("timeSavedPerExecution", "availableInMCP"),
    }
)
_SETTINGS_2: Final = _SETTINGS | {
    *("timeSavedMode", "binaryMode", "redactionPolicy", "customTelemetryTags", "credentialResolverId")
}
_NODE: Final = frozenset(
    {
        *("id", "name", "type", "typeVersion", "position", "parameters", "credentials", "webhookId"),
        *("disabled", "notes", "notesInFlow", "executeOnce", "alwaysOutputData", "retryOnFail", "maxTries"),
        *("waitBetweenTries", "continueOnFail", "onError", "createdAt", "updatedAt"),
    }
)
# What n8n 1 puts where they are not said, also where a workflow has them already.
_DEFAULTS: Final = {"callerPolicy": "workflowsFromSameOwner", "availableInMCP": False}
_LISTED: Final = (
    *("id", "finished", "mode", "retryOf", "retrySuccessId", "status"),
    *("startedAt", "stoppedAt", "workflowId", "waitTill"),
)


class Refuses(Exception):
    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body


def recorded(name: str, line: str = "2") -> dict[str, Any]:
    """An answer as it was recorded."""
    told: dict[str, Any] = json.loads((RECORDED / f"v{line}" / f"{name}.json").read_text())
    return told


def recorded_executions(line: str = "2") -> dict[str, dict[str, Any]]:
    paths = sorted((RECORDED / f"v{line}").glob("execution_*.json"))
    return {path.stem.removeprefix("execution_"): recorded(path.stem, line) for path in paths}


class N8n:
    """`url` is what people would enter as its address, with a path of its own before the API's."""

    def __init__(self, line: str = "2") -> None:
        self.line = line
        self.workflows: dict[str, dict[str, Any]] = {}
        self.executions: dict[str, dict[str, Any]] = {}
        self.delay = 0.0
        # What the next requests are answered, whatever they are.
        self.failing: tuple[int, bytes, str] | None = None
        # What the next deletions end with, and whether they were made all the same.
        self.failing_deletes: list[tuple[int, bool]] = []
        self.failing_puts: list[int] = []
        # What somebody else does to a workflow just before it is changed.
        self.between: Callable[[], object] | None = None
        # What somebody else does to it just after it was saved, where that then fails.
        self.afterwards: Callable[[], object] | None = None
        # What n8n 2 says of a change that it saves and, for want of a scope, does not make active.
        self.failing_publish: dict[str, Any] | None = None
        self._refusals = recorded("refusals", line)
        # The tags and credentials that there are.
        self.tags: list[dict[str, str]] = []
        self.data = Tables()
        # Folders by project, of an n8n whose license has them.
        self.folders: dict[str, list[dict[str, Any]]] = {}
        self.versions: dict[str, dict[str, Any]] = {}
        self.credentials: list[dict[str, str]] = []
        # How executions that a trigger starts end, and what it is answered; so often, n8n does not listen yet.
        self.ends = "success"
        self.answers: Any = {"done": True}
        self.deaf = 0
        # The key may delete workflows, and not read them.
        self.unreadable = False
        # So many changes are made whose answers do not arrive.
        self.lost_answers = 0
        # n8n 2 takes a moment to switch one off after it has said that it has.
        self._unpublishing: set[str] = set()
        self._ids = itertools.count(1)
        self._times = itertools.count(1)
        self._server = Faultd()
        self._server.answer("n8n", self._answer)

    @property
    def url(self) -> str:
        return f"{self._server.url}/n8n"

    @property
    def requests(self) -> list[Seen]:
        return self._server.requests

    def asked(self) -> list[str]:
        return [f"{seen.method} {seen.target.removeprefix('/n8n/api/v1')}" for seen in self.requests]

    def hold(self, name: str) -> str:
        """Take in a recorded execution; its id."""
        told = recorded(f"execution_{name}", self.line)
        self.executions[told["id"]] = told
        return str(told["id"])

    def add(self, workflow: Mapping[str, Any]) -> str:
        """Take in a workflow; its id."""
        made = self._made(dict(workflow))
        made |= {key: value for key, value in workflow.items() if key != "id"}
        return str(made["id"])

    def fail(self, status: int, body: Any = None, kind: str = "application/json") -> None:
        text = body if isinstance(body, str) else json.dumps(body or {"message": "Something is wrong"})
        self.failing = (status, text.encode(), kind)

    # ---- answering

    async def _answer(self, wire: Wire) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        try:
            status, body = 200, self._of(wire.seen)
        except Refuses as refused:
            status, body = refused.status, refused.body
        if self.lost_answers and wire.seen.method == "PUT":
            self.lost_answers -= 1
            wire.reset()
        elif self.failing is not None and self.failing[0] < 0:
            wire.reset()
        elif self.failing is not None:
            status, content, kind = self.failing
            await wire.answer(content, status=f"{status} As it was told", kind=kind)
        else:
            await wire.answer(json.dumps(body).encode(), status=f"{status} OK" if status == 200 else f"{status} No")

    def _of(self, seen: Seen) -> Any:  # noqa: C901 - one line for each thing that n8n is asked for
        parts = urlsplit(seen.target)
        asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if parts.path.startswith(("/n8n/webhook/", "/n8n/form/")):
            return self._trigger(seen.method, parts.path.removeprefix("/n8n/"))
        key = seen.headers.get("x-n8n-api-key")
        if key not in (KEY, READER):
            raise self._no("auth_bad_key" if key else "auth_no_key")
        path = parts.path.removeprefix("/n8n/api/v1/").split("/")
        if key == READER and seen.method != "GET" and self.line == "2":
            raise self._no("auth_scope_missing")
        body = json.loads(seen.body) if seen.body else {}
        match seen.method, *path:
            case "GET", "workflows":
                return self._list_workflows(asked)
            case "GET", "workflows", _ if self.unreadable:
                raise self._no("auth_scope_missing")
            case "GET", "workflows", one:
                return self._workflow(one, "workflow_not_found")
            case "POST", "workflows":
                return self._made(self._checked(body))
            case "PUT", "workflows", one:
                return self._put(one, body)
            case "DELETE", "workflows", one:
                return self._delete(one)
            case "POST", "workflows", one, ("activate" | "deactivate") as verb:
                return self._switch(one, on=verb == "activate")
            case "GET", "tags":
                return {"data": self.tags, "nextCursor": None}
            case "PUT", "workflows", one, "tags":
                return self._tag(one, list(body))
            case "GET", "credentials":
                if self.line == "1":
                    raise self._no("credentials")
                return {"data": self.credentials, "nextCursor": None}
            case "GET", "workflows", one, "history":
                return self._history(one)
            case "GET", "workflows", one, version:
                return self._version(one, version)
            case "GET", "executions":
                return self._list_executions(asked)
            case "GET", "executions", one:
                self._known(asked, {"includeData"})
                told = self._execution(one, whole=asked.get("includeData") == "true")
                return _redacted(told) if asked.get("redactExecutionData") == "true" else told
            case "DELETE", "executions", one:
                self._execution(one, whole=False)
                return {"id": int(self.executions.pop(one)["id"])}
            case "GET", "variables":
                raise self._no("license")
            case "GET", "projects":
                raise self._no("license", **{"feat:variables": "feat:projectRole:admin"})
            case "GET", "projects", one, "folders" if self.line == "2":
                return self._folders(one, asked)
            case method, "data-tables", *rest if self.line == "2":
                try:
                    return self.data.answer(method, rest, asked, body)
                except Wrong as wrong:
                    raise Refuses(wrong.status, {"message": str(wrong)}) from None
            case "POST", "executions", one, "retry":
                return self._retry(one, body)
            case "POST", "executions", one, "stop":
                return self._stop(one)
        raise self._no("no_route")

    def _folders(self, project: str, asked: dict[str, str]) -> Any:
        if not self.folders:
            raise self._no("license", **{"feat:variables": "feat:folders"})
        if project not in self.folders:
            raise Refuses(404, {"message": "Not Found"})
        skip, take = int(asked["skip"]), int(asked["take"])
        return {"count": len(self.folders[project]), "data": self.folders[project][skip : skip + take]}

    def _no(self, name: str, **changed: str) -> Refuses:
        told = self._refusals[name]
        body = json.loads(json.dumps(told["body"]))
        for old, new in changed.items():
            body["message"] = body["message"].replace(old, new)
        return Refuses(told["status"], body)

    # ---- workflows

    def _list_workflows(self, asked: dict[str, str]) -> Any:
        self._known(asked, {"active", "tags", "name", "projectId", "excludePinnedData", "limit", "cursor"})
        found = list(self.workflows.values())
        if "active" in asked:
            found = [each for each in found if each["active"] is (asked["active"] == "true")]
        if "name" in asked:
            found = [each for each in found if asked["name"].lower() in each["name"].lower()]
        if "tags" in asked:
            wanted = set(asked["tags"].split(","))
            found = [each for each in found if wanted <= {tag["name"] for tag in each["tags"]}]
        at = json.loads(base64.b64decode(asked["cursor"])) if "cursor" in asked else {}
        offset, limit = at.get("offset", 0), at.get("limit", int(asked.get("limit", 100)))
        more = offset + limit < len(found)
        cursor = base64.b64encode(json.dumps({"limit": limit, "offset": offset + limit}).encode()).decode()
        return {"data": found[offset : offset + limit], "nextCursor": cursor if more else None}

    def _workflow(self, one: str, otherwise: str) -> dict[str, Any]:
        if one not in self.workflows:
            raise self._no(otherwise)
        return self.workflows[one]

    def _checked(self, body: dict[str, Any]) -> dict[str, Any]:
        for key in ("name", "nodes", "connections", "settings"):
            if key not in body:
                raise self._no(f"workflow_create_without_{key}")
        for key in _READ_ONLY:
            if key in body:
                raise self._no("workflow_create_with_id", id=key)
        if body.keys() - _KEYS - ({"pinData", "nodeGroups"} if self.line == "2" else set()):
            raise self._no("workflow_create_with_foo")
        if body["settings"].keys() - (_SETTINGS_2 if self.line == "2" else _SETTINGS):
            raise self._no("workflow_create_settings_unknown")
        for number, node in enumerate(body["nodes"]):
            if unknown := node.keys() - _NODE:
                said = {
                    "2": f"Unrecognized key(s) in object: '{min(unknown)}'",
                    "1": "must NOT have additional properties",
                }
                raise Refuses(400, {"message": f"request/body/nodes/{number} {said[self.line]}"})
        if self.line == "2":
            self._check_structure(body)
        return body

    def _check_structure(self, body: dict[str, Any]) -> None:
        names = [node.get("name") for node in body["nodes"]]
        if len(set(names)) < len(names):
            raise self._no("workflow_create_duplicate_node", Start=names[-1])
        _check_targets(body["connections"], set(names))

    def _made(self, body: dict[str, Any]) -> dict[str, Any]:
        made = recorded("workflow_create", self.line)
        settings = {**made["settings"], **body["settings"]}
        made |= body | {"settings": settings, "id": f"wf{next(self._ids):04d}"}
        made["tags"] = list(body.get("tags", []))
        made["versionId"] = str(uuid.uuid4())
        self.workflows[made["id"]] = made
        self._remember(made)
        return made

    def _put(self, one: str, body: dict[str, Any]) -> dict[str, Any]:
        workflow = self._workflow(one, "workflow_update_not_found")
        if self.failing_puts:
            raise Refuses(self.failing_puts.pop(0), {"message": "Forbidden"})
        if self.between is not None:
            self.between()
        body = self._checked(body)
        settings = {**workflow["settings"], **(_DEFAULTS if self.line == "1" else {}), **body["settings"]}
        counts = self.line == "1" or (body["nodes"], settings) != (workflow["nodes"], workflow["settings"])
        workflow["versionCounter"] += counts
        # n8n 2 has no new version for a new name or other settings; their time is new in any case.
        parts = ("nodes", "connections") if self.line == "2" else ("name", "nodes", "connections", "settings")
        if any(body[part] != workflow[part] for part in parts):
            workflow["versionId"] = str(uuid.uuid4())
        workflow.update(body, settings=settings, updatedAt=f"2026-11-18T12:00:{next(self._times) % 60:02}.000Z")
        self._remember(workflow)
        if workflow["active"]:
            self._publish(workflow)
        return workflow

    def _history(self, one: str) -> Any:
        if self.line == "1":
            # It takes this for a version.
            raise self._no("executions_unknown_parameter", foo="limit")
        self._workflow(one, "workflow_not_found")
        kept = ("versionId", "workflowId", "authors", "name", "description", "createdAt", "updatedAt")
        versions = [version for version in reversed(self.versions.values()) if version["workflowId"] == one]
        return {"data": [{key: version[key] for key in kept} for version in versions], "nextCursor": None}

    def _version(self, one: str, version: str) -> dict[str, Any]:
        found = self.versions.get(version)
        if found is None or found["workflowId"] != one:
            raise Refuses(404, {"message": "Version not found"})
        return found

    def _remember(self, workflow: Mapping[str, Any]) -> None:
        """In the history, where a version has neither the name nor the settings of the workflow."""
        parts = {
            key: json.loads(json.dumps(workflow[key])) for key in ("versionId", "nodes", "connections", "updatedAt")
        }
        told = {"workflowId": workflow["id"], "authors": "Tool Hub", "name": None, "description": None}
        self.versions[workflow["versionId"]] = parts | told | {"createdAt": workflow["updatedAt"]}

    def _tag(self, one: str, wanted: list[Any]) -> list[dict[str, str]]:
        """Neither version nor time of the workflow change by that."""
        workflow = self._workflow(one, "workflow_not_found")
        tags = [tag for tag in self.tags if tag["id"] in {each["id"] for each in wanted}]
        if len(tags) < len(wanted):
            raise Refuses(404, {"message": "Some tags not found"})
        workflow["tags"] = tags
        return tags

    def _publish(self, workflow: dict[str, Any]) -> None:
        """What has been saved becomes active; or it does not, and stays as it was saved."""
        if self.afterwards is not None:
            self.afterwards()
        if self.failing_publish is not None:
            raise Refuses(403, self.failing_publish)
        try:
            self._free(workflow)
        except Refuses:
            workflow["active"] = self.line == "2"
            raise

    def _delete(self, one: str) -> dict[str, Any]:
        workflow = self._workflow(one, "workflow_delete_again")
        if self.failing_deletes:
            status, done = self.failing_deletes.pop(0)
            if done:
                del self.workflows[one]
            raise Refuses(status, {"message": "Internal server error"})
        if workflow["active"] and self.line == "2":
            raise self._no("workflow_delete_active")
        if one in self._unpublishing:
            self._unpublishing.remove(one)
            raise self._no("workflow_delete_unpublishing")
        return self.workflows.pop(one)

    def _switch(self, one: str, *, on: bool) -> dict[str, Any]:
        workflow = self._workflow(one, "workflow_activate_not_found")
        kinds = {str(node.get("type")) for node in workflow["nodes"]}
        if on and "n8n-nodes-base.doesNotExist" in kinds:
            raise self._no("workflow_activate_unknown_node")
        if on and not any("rigger" in kind or kind.endswith("webhook") for kind in kinds - {_MANUAL}):
            raise self._no("workflow_activate_no_trigger", **{"tmp 2": workflow["name"], "aMzQyDWqyAyYS5yh": one})
        if on:
            self._free(workflow)
        if workflow["active"] and not on and self.line == "2":
            self._unpublishing.add(one)
        workflow["active"] = on
        return workflow

    def _free(self, workflow: dict[str, Any]) -> None:
        """No other server listens on its port."""
        paths = {_path(node) for node in workflow["nodes"]} - {None}
        for other in self.workflows.values():
            if other is not workflow and other["active"] and paths & {_path(node) for node in other["nodes"]}:
                raise self._no("workflow_activate_conflict", Start="Webhook")

    # ---- executions

    def _trigger(self, method: str, path: str) -> Any:
        """A request to an active workflow, whose execution is then in the list."""
        kind, _, place = path.partition("/")
        asked = (method, place.removesuffix("/chat"))
        for workflow in self.workflows.values():
            for node in workflow["nodes"]:
                if workflow["active"] and not self.deaf and _listens(node, kind) == asked:
                    return self._run(workflow)
        self.deaf -= bool(self.deaf)
        raise Refuses(404, {"code": 404, "message": f'The requested webhook "{method} {place}" is not registered.'})

    def _run(self, workflow: dict[str, Any]) -> Any:
        one = str(max(map(int, self.executions), default=0) + 1)
        told = recorded("execution_chain", self.line)
        self.executions[one] = told | {"id": one, "workflowId": workflow["id"], "status": self.ends, "mode": "webhook"}
        if self.ends == "error":
            raise Refuses(500, {"code": 0, "message": "Error in workflow"})
        if isinstance(self.answers, Refuses):
            raise self.answers
        return self.answers

    def _list_executions(self, asked: dict[str, str]) -> Any:
        self._known(asked, {"workflowId", "status", "projectId", "includeData", "limit", "cursor"})
        status = asked.get("status")
        if self.line == "1" and status == "crashed":
            raise self._no("executions_status_crashed")
        if asked.get("cursor") == "garbage":
            raise self._no("executions_bad_cursor")
        hidden = {"running"} if self.line == "2" else {"running", "waiting"}
        found = sorted(self.executions.values(), key=lambda each: -int(each["id"]))
        # n8n 1 counts crashed ones as failed.
        wanted = {status, "crashed"} if self.line == "1" and status == "error" else {status}
        found = [each for each in found if (each["status"] in wanted if status else each["status"] not in hidden)]
        if self.line == "1" and status == "waiting":
            found = []
        if "workflowId" in asked:
            found = [each for each in found if each["workflowId"] == asked["workflowId"]]
        at = json.loads(base64.b64decode(asked["cursor"])) if "cursor" in asked else {}
        limit = at.get("limit", int(asked.get("limit", 100)))
        found = [each for each in found if int(each["id"]) < int(at.get("lastId", 10**9))]
        page = [{key: each.get(key) for key in _LISTED} for each in found[:limit]]
        cursor = base64.b64encode(json.dumps({"lastId": page[-1]["id"], "limit": limit}).encode()) if page else b""
        return {"data": page, "nextCursor": cursor.decode() if len(found) > limit else None}

    def _execution(self, one: str, *, whole: bool) -> dict[str, Any]:
        if not one.isdecimal():
            raise self._no("execution_bad_id")
        if one not in self.executions:
            raise self._no("execution_not_found")
        told = self.executions[one]
        return told if whole else {key: told.get(key) for key in _LISTED}

    def _retry(self, one: str, body: dict[str, Any]) -> dict[str, Any]:
        """It fails again, unless the node that failed is another one in the workflow as it is now."""
        told = self._execution(one, whole=True)
        if told["status"] == "success":
            raise self._no("execution_retry_successful")
        again = told | {"id": str(max(map(int, self.executions)) + 1), "mode": "retry", "retryOf": one}
        now = self.workflows.get(told["workflowId"], told["workflowData"]) if body.get("loadWorkflow") else {}
        last = told["data"]["resultData"].get("lastNodeExecuted")
        was = [node["parameters"] for node in told["workflowData"]["nodes"] if node["name"] == last]
        if now and was != [node["parameters"] for node in now["nodes"] if node["name"] == last]:
            again |= {"status": "success", "finished": True}
        self.executions[again["id"]] = again
        return again

    def _stop(self, one: str) -> dict[str, Any]:
        if self.line == "1":
            raise self._no("execution_stop_not_found")
        if one not in self.executions:
            raise self._no("execution_stop_not_found")
        told = self.executions[one]
        if told["status"] not in ("running", "waiting"):
            raise self._no("execution_stop_finished")
        told["status"] = "canceled"
        return {"mode": told["mode"], "startedAt": told["startedAt"], "finished": False, "status": "canceled"}

    def _known(self, asked: dict[str, str], known: set[str]) -> None:
        if self.line == "1" and (unknown := asked.keys() - known):
            raise self._no("executions_unknown_parameter", foo=min(unknown))
        if self.line == "1" and int(asked.get("limit", 100)) > _MOST:
            raise self._no("executions_limit_251")

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)


_MANUAL: Final = "n8n-nodes-base.manualTrigger"


def _check_targets(connections: Mapping[str, Any], names: set[Any]) -> None:
    for source, kind, ways in ((source, *entry) for source, kinds in connections.items() for entry in kinds.items()):
        for way, ends in enumerate(ways):
            for number, end in enumerate(ends or ()):
                if end["node"] not in names:
                    where = f"connections.{source}.{kind}[{way}][{number}].node (unknown_connection_target)"
                    said = f'Connection target "{end["node"]}" does not reference an existing node'
                    raise Refuses(400, {"message": f"Workflow structure is invalid. {where}: {said}"})


def _listens(node: Mapping[str, Any], kind: str) -> tuple[str, str] | None:
    """The method and path that a trigger listens to."""
    parameters, name = node["parameters"], str(node["type"]).rpartition(".")[2]
    if name == "webhook" and kind == "webhook":
        return parameters.get("httpMethod", "GET"), parameters["path"]
    if (name, kind) in (("chatTrigger", "webhook"), ("formTrigger", "form")):
        return "POST", node["webhookId"]
    return None


def _path(node: Mapping[str, Any]) -> Any:
    return node["parameters"].get("path") if str(node.get("type")).endswith("webhook") else None


def _redacted(told: dict[str, Any]) -> dict[str, Any]:
    """As n8n 2 leaves out what is in items and what errors say."""
    less: dict[str, Any] = json.loads(json.dumps(told))
    less["data"]["redactionInfo"] = {"isRedacted": True, "reason": "user_requested", "canReveal": True}
    for runs in less["data"]["resultData"]["runData"].values():
        for run in runs:
            if "error" in run:
                run["redactedError"] = {"type": run.pop("error").get("name", "Error")}
            for ways in run.get("data", {}).values():
                ways[:] = [[{"json": {}, "redaction": {"redacted": True}} for _ in items or ()] for items in ways]
    return less
