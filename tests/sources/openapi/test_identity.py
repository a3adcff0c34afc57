"""Operations keep their tools: method and path identify them."""

from __future__ import annotations

from typing import Any

from tests.sources.foreign.skeletons import one, tool
from tests.sources.openapi.documents import document, operation_of, reading, tools
from tools_app.sdk.spec import Kind

READS = {"get": {"operationId": "listPets", "responses": {}}}


def test_method_and_path_identify_a_tool_and_the_operation_id_names_it() -> None:
    (made,) = tools(reading(document({"/pets/{petId}": READS})))
    assert (made.spec.name, made.spec.key) == ("pets_list_pets", "GET /pets/{petId}")
    assert made.spec.runtime["operation"]["path"] == "/pets/{petId}"


def test_a_tool_keeps_its_name_and_approval_when_its_operation_id_changes() -> None:
    (before,) = tools(reading(document({"/pets": READS})))
    renamed = {"get": {**READS["get"], "operationId": "findAllPets"}}
    (after,) = tools(reading(document({"/pets": renamed})), {(Kind.TOOL, "GET /pets"): before.spec.name})
    assert (after.spec.name, after.pin_hash) == (before.spec.name, before.pin_hash)


def test_a_changed_request_is_a_changed_pin() -> None:
    def pin(parameter: dict[str, Any]) -> str:
        operation = {"get": {"parameters": [{"name": "tags", "in": "query", "schema": {"type": "array"}, **parameter}]}}
        return tools(reading(document({"/pets": operation})))[0].pin_hash

    assert len({pin({}), pin({"explode": False}), pin({"style": "pipeDelimited"}), pin({"in": "header"})}) == 4


def test_operations_with_the_same_id_have_different_names() -> None:
    made = tools(reading(document({"/cats": READS, "/dogs": READS})))
    assert [one.spec.key for one in made] == ["GET /cats", "GET /dogs"]
    assert made[0].spec.name == "pets_list_pets"
    assert made[1].spec.name.startswith("pets_list_pets_")


def test_private_members_of_mcp_servers_have_no_meaning() -> None:
    made = one(tool(_key="GET /admin", _operation={"method": "GET", "path": "/admin"}))
    assert made.spec.key == "find_issues"
    assert "operation" not in made.spec.runtime


def test_names_without_an_operation_id_come_from_method_and_path() -> None:
    assert operation_of({}, path="/users/{userId}/repos", method="get").tool["name"] == "get_users_user_id_repos"
    assert operation_of({"operationId": "获取"}, method="get").tool["name"] == "get_pets"
    assert operation_of({"operationId": "getHTTPStatus.v2"}, method="get").tool["name"] == "get_http_status_v2"


def test_what_a_document_says_of_answers_is_recorded_and_not_listed() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answers = {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}
    (made,) = tools(reading(document({"/pets": {"get": {"responses": answers}}})))
    assert made.spec.output_schema is None
    assert '"outputSchema"' in made.raw
