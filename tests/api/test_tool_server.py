"""The hub as an OpenAPI tool server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, failure
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.sdk.decorator import tool
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints


@dataclass
class Node:
    name: str
    children: list[Node]


@dataclass
class Counted:
    nodes: int


@tool(
    category="trees",
    hints=Hints(read_only=True),
    examples=[Example("A leaf", {"root": {"name": "leaf", "children": []}})],
)
def count_nodes(root: Annotated[Node, "The root of the tree"]) -> Counted:
    """Count the nodes of a tree."""

    def count(node: Node) -> int:
        return 1 + sum(map(count, node.children))

    return Counted(count(root))


def described(rest: Rest, key: str = "own") -> dict[str, Any]:
    response = rest.get("/v1/tools/openapi.json", key=key)
    assert response.status_code == 200, response.content
    document: dict[str, Any] = response.json()
    return document


def ids(document: dict[str, Any]) -> list[str]:
    return [path["post"]["operationId"] for path in document["paths"].values()]


def errors(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    found = jsonschema_rs.validator_for({**schema, "components": document["components"]}, offline=True)
    return [error.message for error in found.iter_errors(value)]


def test_every_callable_tool_is_an_operation_of_its_own(rest: Rest, hub: Hub) -> None:
    hub.add(count_nodes)

    document = described(rest)

    assert (document["openapi"], ids(document)) == ("3.1.0", ["calculate", "count_nodes", "echo", "read_result"])
    operation = document["paths"]["/v1/tools/count_nodes/call"]["post"]
    assert (operation["description"], operation["tags"]) == ("Count the nodes of a tree.", ["trees"])
    assert operation["requestBody"]["required"] is True
    for response in operation["responses"].values():
        if "$ref" in response:
            assert response["$ref"].rpartition("/")[2] in document["components"]["responses"]


def test_what_an_operation_asks_for_is_what_the_tool_takes_and_gives(rest: Rest, hub: Hub) -> None:
    hub.add(count_nodes)
    document = described(rest)
    operation = document["paths"]["/v1/tools/count_nodes/call"]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}

    assert errors(document, body["schema"], {"root": tree}) == []
    assert errors(document, body["schema"], body["examples"]["example1"]["value"]) == []
    assert errors(document, body["schema"], {"root": {"name": "a", "children": [{"name": 1, "children": []}]}})
    called = rest.post("/v1/tools/count_nodes/call", {"root": tree}).json()
    assert called["result"] == {"nodes": 2}
    assert errors(document, answer, called) == []
    assert errors(document, answer, {**called, "result": {"nodes": "two"}})


def test_is_one_by_the_rules_of_openapi(rest: Rest, hub: Hub) -> None:
    hub.add(count_nodes)

    OpenAPIV31SpecValidator(described(rest)).validate()


def test_every_reference_leads_somewhere(rest: Rest, hub: Hub) -> None:
    hub.add(count_nodes)
    document = described(rest)
    text = json.dumps(document)

    assert '"#/$defs' not in text
    for target in {part.partition('"')[0] for part in text.split('"$ref": "')[1:]}:
        found: Any = document
        for step in target.removeprefix("#/").split("/"):
            found = found[step]


def test_holds_what_the_key_can_call_and_nothing_else(
    rest: Rest, programmable: Programmable, hub: Hub, make_key: MakeKey
) -> None:
    hub.add(Programmable("writes", hints=Hints()).tool)
    governance.create_toolset("few", names=["echo", "writes"], actor=governance.trusted("test"))
    bound, reads = make_key("bound", toolsets=["few"]), make_key("reads", may_write=False)

    assert ids(described(rest)) == ["calculate", "echo", "programmable", "read_result", "writes"]
    assert ids(described(rest, key=bound)) == ["echo", "read_result", "writes"]
    assert ids(described(rest, key=reads)) == ["calculate", "echo", "programmable", "read_result"]
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    assert ids(described(rest, key=bound)) == ["read_result", "writes"]
    assert "echo" not in rest.get("/v1/tools/openapi.json", key=bound).content.decode()


def test_says_that_nothing_has_changed(rest: Rest, hub: Hub) -> None:
    tag = rest.get("/v1/tools/openapi.json").headers["ETag"]

    assert rest.get("/v1/tools/openapi.json", If_None_Match=tag).status_code == 304
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    assert rest.get("/v1/tools/openapi.json", If_None_Match=tag).status_code == 200


@pytest.mark.parametrize("missing", ["tools:list", "tools:execute"])
def test_is_for_callers_with_the_execute_scope(rest: Rest, make_key: MakeKey, missing: str) -> None:
    scopes = [scope for scope in ("tools:list", "tools:execute") if scope != missing]

    told = failure(rest.get("/v1/tools/openapi.json", key=make_key("some", scopes=scopes)), 403, "AUTHORIZATION_ERROR")

    assert told["context"] == {"requiredScope": missing}
