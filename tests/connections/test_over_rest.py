"""Connections over REST, for administrators; and keys that are bound to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.signals import connection_created

from tests.api.rest import Rest, check_form, failure
from tests.connections.test_governing import CANARY, URL
from tests.support.desk import Desk
from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import AuditEntry, Connection, Source

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
    made = Rest(governance.create_key("root", scopes=["admin:*"], connections=[], actor=governance.trusted("test"))[1])
    yield made
    made.close()


def body(**given: Any) -> dict[str, Any]:
    return {"name": "main", "pack": "desk", "url": URL, "secret": CANARY, **given}


def change(rest: Rest, name: str, sent: Any) -> Any:
    return rest.send("PATCH", f"/v1/connections/{name}", json.dumps(sent))


def test_one_is_made_and_never_shows_its_secret(root: Rest) -> None:
    response = root.post("/v1/connections", body(readOnly=True, reason="they asked"))
    made = response.json()

    check_form("ConnectionItem", made)
    assert response.status_code == 201
    assert (made["id"], made["readOnly"], made["enabled"], made["keys"], made["health"]) == (
        "main", True, True, 0, None,
    )  # fmt: skip
    shown = root.get("/v1/connections/main")
    assert shown.json() == made
    told = root.get("/v1/connections")
    check_form("Connections", told.json())
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
    check_form("ConnectionTestResult", tested)
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
        governance.create_key(f"key {number}", connections=names, actor=governance.trusted("test"))[1]
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
    key = governance.create_key("agent", connections=["main"], actor=governance.trusted("test"))[1]
    sent = {"X_Desk_Key": "key-of-bob-1", "X_Forwarded_For": "6.6.6.6", "Cookie": "a=b", "X_Redmine_Switch_User": "x"}
    assert root.call("list_notes", {}, key=key, **sent).status_code == 200
    (asked,) = desk.requests
    assert asked.headers["x-desk-key"] == "key-of-ann-1"
    assert not {"x-forwarded-for", "cookie", "x-redmine-switch-user", "x-api-key", "authorization"} & set(asked.headers)


@pytest.mark.parametrize("number", [2, 20])
def test_a_list_takes_one_query(root: Rest, number: int) -> None:
    for index in range(number):
        governance.create_connection(f"c{index}", "desk", url=URL, secret=CANARY, actor=governance.trusted("test"))
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


# ---- of sources outside


@pytest.fixture
def acme(root: Rest) -> Source:
    location = "https://acme.example/mcp"
    return Source.objects.create(name="acme", prefix="acme", kind=Source.Kind.MCP_HTTP, location=location)


def test_one_of_a_source_outside_has_a_form_and_shows_names_only(root: Rest, acme: Source) -> None:
    secrets = {"X-Key": CANARY, "X-Other": "${file:acme}"}
    made = root.post("/v1/connections", {"name": "main", "pack": "acme", "form": "header", "secrets": secrets})
    assert made.status_code == 201
    check_form("ConnectionItem", made.json())
    shown = root.get("/v1/connections/main")
    assert shown.json() == made.json()
    parts = ("form", "names", "references", "url", "pack")
    assert [shown.json()[part] for part in parts] == [
        "header",
        ["X-Key", "X-Other"],
        ["file:acme"],
        "https://acme.example/mcp",
        "acme",
    ]
    assert shown.json()["fault"] == "file:acme needs TOOLHUB_SECRETS_DIR, which is not set"
    changed = change(root, "main", {"secrets": {"X-Other": None}, "readOnly": True})
    assert (changed.json()["names"], changed.json()["references"], changed.json()["fault"]) == (["X-Key"], [], None)
    told = root.get("/v1/connections")
    assert told.json()["connections"] == [changed.json()]
    tested = root.post("/v1/connections/main/test", {}).json()
    assert tested["healthy"] is False
    text = b"".join(response.content for response in (made, shown, changed, told)).decode() + json.dumps(tested)
    assert CANARY not in text
    assert CANARY not in json.dumps(list(AuditEntry.objects.values()), default=str)


def test_a_bearer_token_is_a_secret_as_of_packs(root: Rest, acme: Source) -> None:
    made = root.post("/v1/connections", {"name": "main", "pack": "acme", "form": "bearer", "secret": CANARY})
    assert made.json()["names"] == ["token"]
    assert change(root, "main", {"secret": f"{CANARY}2"}).status_code == 200


def test_what_a_form_cannot_have_is_refused_without_repeating_it(
    root: Rest, acme: Source, subtests: pytest.Subtests
) -> None:
    for given, path in (
        ({}, "/form"),
        ({"form": "environment"}, "/form"),
        ({"form": "cookie"}, "/form"),
        ({"form": "header", "secrets": {}}, "/secret"),
        ({"form": "header", "secrets": {"Host": CANARY}}, "/secret"),
        ({"form": "header", "secrets": {"X-Key": f"{CANARY}\n"}}, "/secret"),
        ({"form": "header", "secrets": {"X-Key": f"{CANARY}${{SECRET_KEY}}"}}, "/secret"),
        ({"form": "header", "secrets": {"X-Key": [CANARY]}}, "/secrets/X-Key"),
        ({"form": "header", "secrets": {"X-Key": CANARY}, "secret": CANARY}, "/secrets"),
        ({"form": "header", "secrets": {f"X-{number}": CANARY for number in range(21)}}, "/secrets"),
        ({"form": "header", "secrets": {"X-Key": CANARY}, "url": "https://evil.example"}, "/url"),
    ):
        with subtests.test(given=str(given)[:60]):
            response = root.post("/v1/connections", {"name": "main", "pack": "acme", **given})
            told = failure(response, 400, "VALIDATION_ERROR")
            assert told["details"][0]["path"] == path
            assert CANARY not in response.content.decode()
    failure(root.post("/v1/connections", body(secret=None, secrets={"X-Key": CANARY})), 400, "VALIDATION_ERROR")
    failure(root.post("/v1/connections", body(form="header")), 400, "VALIDATION_ERROR")
    assert not Connection.objects.exists()


@pytest.mark.parametrize("number", [2, 20])
def test_sources_outside_take_one_query_for_a_list(root: Rest, acme: Source, number: int) -> None:
    for index in range(number):
        governance.create_connection(
            f"c{index}", "acme", form="header", secret={"X-Key": CANARY}, actor=governance.trusted("test")
        )
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
    assert len([sql for sql in seen if 'FROM "tools_app_source"' in sql]) <= 1


def test_a_key_is_given_connections_after_it_was_made(root: Rest, desk: Desk) -> None:
    for name in ("ann", "bob"):
        root.post("/v1/connections", body(name=name, url=desk.url, secret=f"key-of-{name}-1"))
    key = root.post("/v1/keys", {"name": "agent", "connections": ["ann"]}).json()
    address = f"/v1/keys/{key['id']}"

    def give(*names: str, **given: Any) -> Any:
        return root.send("PATCH", address, json.dumps({"connections": list(names), **given}))

    assert root.call("add_note", {"text": "x", "connection": "bob"}, key=key["key"]).status_code == 403
    changed = give("ann", "bob", "environment", reason="new project")
    check_form("KeyItem", changed.json())
    assert changed.json()["connections"] == ["environment", "ann", "bob"]
    assert root.call("add_note", {"text": "x", "connection": "bob"}, key=key["key"]).status_code == 200
    assert give("bob").json()["connections"] == ["bob"]
    assert root.call("add_note", {"text": "x", "connection": "ann"}, key=key["key"]).status_code == 403
    assert give("bob").status_code == 200
    first, second = AuditEntry.objects.filter(action="key.change").order_by("pk")
    assert (first.subject, first.reason) == ("key:agent", "new project")
    assert first.changes == {"connections": [["ann"], ["environment", "ann", "bob"]]}
    assert second.changes == {"connections": [["environment", "ann", "bob"], ["bob"]]}
    failure(give("none"), 400, "VALIDATION_ERROR")
    failure(root.send("PATCH", address, "{}"), 400, "VALIDATION_ERROR")
    failure(root.send("PATCH", "/v1/keys/999", json.dumps({"connections": []})), 404, "NOT_FOUND")
    root.post(f"{address}/revoke", {})
    failure(give("ann"), 409, "CONFLICT")
    assert AuditEntry.objects.filter(action="key.change").count() == 2


def test_a_restricted_key_gives_no_more_than_it_has(root: Rest) -> None:
    for name in ("ann", "bob"):
        root.post("/v1/connections", body(name=name))
    governance.create_toolset("mine", packs=["desk"], actor=governance.trusted("test"))
    limits: dict[str, Any] = {"toolsets": ["mine"], "actor": governance.trusted("test")}
    made = governance.create_key("restricted", scopes=["admin:*"], connections=["ann"], **limits)[1]
    own = governance.create_key("own", connections=[], **limits)[0]
    other = governance.create_key("other", connections=[], actor=governance.trusted("test"))[0]

    def give(key: Any, *names: str) -> Any:
        return root.send("PATCH", f"/v1/keys/{key.pk}", json.dumps({"connections": names}), key=made)

    assert give(own, "ann").status_code == 200
    for response in (give(own, "bob"), give(own, "environment"), give(other, "ann")):
        failure(response, 403, "AUTHORIZATION_ERROR")
    assert own.connection_names == ["ann"]
    assert other.connection_names == []
