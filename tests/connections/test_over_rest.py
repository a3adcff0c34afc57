"""Connections over REST, for administrators; and keys that are bound to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.signals import connection_created

from tests.api.rest import Rest, failure
from tests.connections.test_governing import CANARY, URL
from tests.support.desk import Desk
from tests.support.tools import Hub
from tools_app import governance
from tools_app.api.connections import ConnectionItem, Connections, Finding
from tools_app.models import AuditEntry, Connection

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "Upper"}, "/name"),
    ({"url": ""}, "/url"),
    ({"url": 5}, "/url"),
    ({"url": "http://desk.example.org"}, "/url"),
    ({"pack": "builtin"}, "/pack"),
    ({"secret": ""}, "/secret"),
    ({"secret": f"{CANARY}\n"}, "/secret"),
    ({"secret": [CANARY]}, "/secret"),
    ({"timeoutMs": 1}, "/timeoutMs"),
    ({"readOnly": "yes"}, "/readOnly"),
    ({"healthy": True}, "/healthy"),
]


@pytest.fixture
def root(notes: Hub) -> Iterator[Rest]:
    made = Rest(governance.create_key("root", scopes=["admin:*"], connections=[], actor="test")[1])
    yield made
    made.close()


def body(**given: Any) -> dict[str, Any]:
    return {"name": "main", "pack": "desk", "url": URL, "secret": CANARY, **given}


def change(rest: Rest, name: str, sent: Any) -> Any:
    return rest.send("PATCH", f"/v1/connections/{name}", json.dumps(sent))


def test_one_is_made_and_never_shows_its_secret(root: Rest) -> None:
    response = root.post("/v1/connections", body(readOnly=True, reason="they asked"))
    made = response.json()

    ConnectionItem.model_validate(made, extra="forbid")
    assert response.status_code == 201
    assert (made["id"], made["readOnly"], made["enabled"], made["keys"], made["health"]) == (
        "main", True, True, 0, None,
    )  # fmt: skip
    shown = root.get("/v1/connections/main")
    assert shown.json() == made
    told = root.get("/v1/connections")
    Connections.model_validate(told.json(), extra="forbid")
    assert told.json() == {"connections": [made], "total": 1}
    assert CANARY not in (response.content + shown.content + told.content).decode()
    entry = AuditEntry.objects.get(action="connection.create")
    assert (entry.actor, entry.reason) == ("key:root", "they asked")


@pytest.mark.usefixtures("from_environment")
def test_that_of_the_environment_is_shown_and_cannot_be_changed(root: Rest, desk: Desk) -> None:
    shown = root.get("/v1/connections/environment:desk")
    assert shown.json()["source"] == "environment"
    assert shown.json()["url"] == f"{desk.url}/api/v1"
    assert "key-of-env" not in shown.content.decode()
    assert root.get("/v1/connections").json()["connections"] == [shown.json()]
    for refused in (
        change(root, "environment:desk", {"readOnly": True}),
        root.send("DELETE", "/v1/connections/environment:desk"),
    ):
        failure(refused, 409, "CONFLICT")
    assert root.post("/v1/connections/environment:desk/test", {}).json()["healthy"] is True


def test_a_change_takes_what_is_named_and_leaves_the_rest(root: Rest, desk: Desk) -> None:
    root.post("/v1/connections", body(url=desk.url, secret="key-of-ann-1"))
    told = change(root, "main", {"readOnly": True, "timeoutMs": 2000}).json()
    assert (told["readOnly"], told["timeoutMs"], told["url"]) == (True, 2000, desk.url)
    tested = root.post("/v1/connections/main/test", {}).json()
    Finding.model_validate(tested, extra="forbid")
    assert tested["healthy"] is True
    assert root.get("/v1/connections/main").json()["health"]["healthy"] is True
    wrong = change(root, "main", {"secret": "key-of-nobody"}).json()
    assert wrong["health"] is None
    tested = root.post("/v1/connections/main/test", {}).json()
    assert (tested["found"], tested["nextStep"]) == (
        "Wrong key: Desk does not accept it (401).",
        "Set the secret again.",
    )
    told = failure(change(root, "main", {"url": "https://elsewhere.example.org"}), 400, "VALIDATION_ERROR")
    assert told["details"][0]["path"] == "/secret"
    assert root.send("DELETE", "/v1/connections/main?reason=done").status_code == 204
    assert not Connection.objects.exists()
    assert AuditEntry.objects.get(action="connection.delete").reason == "done"


def test_refuses_everything_else_without_repeating_the_secret(root: Rest, subtests: pytest.Subtests) -> None:
    for given, path in WRONG:
        with subtests.test(given=str(given)[:60]):
            response = root.post("/v1/connections", body(**given))
            told = failure(response, 400, "VALIDATION_ERROR")
            assert told["details"][0]["path"] == path
            assert CANARY not in response.content.decode()
    assert not Connection.objects.exists()
    failure(root.post("/v1/connections", body()) and root.post("/v1/connections", body()), 409, "CONFLICT")


@pytest.mark.parametrize(
    "name", ["none", "Upper", "%00", "x" * 500, "environment", "environment:none", "environment:", "a:b"]
)
def test_an_unknown_one_is_not_found(root: Rest, name: str) -> None:
    for response in (root.get(f"/v1/connections/{name}"), root.post(f"/v1/connections/{name}/test", {})):
        failure(response, 404, "NOT_FOUND")


def test_a_key_is_bound_to_what_it_names(root: Rest, desk: Desk) -> None:
    for name in ("ann", "bob"):
        root.post("/v1/connections", body(name=name, url=desk.url, secret=f"key-of-{name}-1"))
    keys = {
        names: root.post("/v1/keys", {"name": f"key {names}", "connections": list(names)}).json()
        for names in ((), ("ann",), ("ann", "bob"))
    }
    default = root.post("/v1/keys", {"name": "default"}).json()
    assert default["connections"] == ["environment"]
    assert [key["connections"] for key in keys.values()] == [[], ["ann"], ["ann", "bob"]]
    failure(root.post("/v1/keys", {"name": "other", "connections": ["none"]}), 400, "VALIDATION_ERROR")

    def call(key: Any, **arguments: str) -> Any:
        return root.call("add_note", {"text": "x", **arguments}, key=key["key"])

    failure(call(keys[()]), 403, "TOOL_DISABLED")
    failure(call(default), 403, "TOOL_DISABLED")
    assert call(keys[("ann",)]).status_code == 200
    failure(call(keys[("ann",)], connection="bob"), 403, "AUTHORIZATION_ERROR")
    failure(call(keys[("ann", "bob")]), 400, "VALIDATION_ERROR")
    assert call(keys[("ann", "bob")], connection="bob").status_code == 200
    assert desk.notes == {"ann": ["x"], "bob": ["x"], "env": []}
    calls = root.get("/v1/calls?connection=bob").json()["calls"]
    assert [(one["tool"], one["connection"]) for one in calls] == [("add_note", "bob")]


def test_each_key_is_shown_what_it_can_send(root: Rest, desk: Desk) -> None:
    for name in ("ann", "bob"):
        root.post("/v1/connections", body(name=name, url=desk.url, secret=f"key-of-{name}-1"))
    one, two = (
        governance.create_key(f"key {number}", connections=names, actor="test")[1]
        for number, names in enumerate((["ann"], ["ann", "bob"]))
    )

    def shown(key: str) -> tuple[list[str], list[str], str]:
        tool = root.get("/v1/tools/add_note", key=key).json()
        described = root.get("/v1/tools/openapi.json", key=key).json()["components"]["schemas"]["add_note.arguments"]
        assert described["properties"].keys() == tool["inputSchema"]["properties"].keys()
        return [part["name"] for part in tool["parameters"]], tool["inputSchema"]["required"], tool["definitionHash"]

    assert shown(one)[:2] == (["text"], ["text"])
    assert shown(two)[:2] == (["text", "connection"], ["text", "connection"])
    assert shown(one)[2] == shown(two)[2]


def test_nothing_that_a_client_sends_reaches_the_upstream_by_itself(root: Rest, desk: Desk) -> None:
    root.post("/v1/connections", body(url=desk.url, secret="key-of-ann-1"))
    key = governance.create_key("agent", connections=["main"], actor="test")[1]
    sent = {"X_Desk_Key": "key-of-bob-1", "X_Forwarded_For": "6.6.6.6", "Cookie": "a=b", "X_Redmine_Switch_User": "x"}
    assert root.call("list_notes", {}, key=key, **sent).status_code == 200
    (asked,) = desk.requests
    assert asked.headers["x-desk-key"] == "key-of-ann-1"
    assert not {"x-forwarded-for", "cookie", "x-redmine-switch-user", "x-api-key", "authorization"} & set(asked.headers)


@pytest.mark.parametrize("number", [2, 20])
def test_a_list_takes_one_query(root: Rest, number: int) -> None:
    for index in range(number):
        governance.create_connection(f"c{index}", "desk", url=URL, secret=CANARY, actor="test")
    seen: list[str] = []

    def record(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    def listen(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(record)

    connection_created.connect(listen)
    try:
        root.get("/v1/connections")
        seen.clear()
        assert root.get("/v1/connections").json()["total"] == number
    finally:
        connection_created.disconnect(listen)
    assert len([sql for sql in seen if "tools_app_connection" in sql]) == 1
