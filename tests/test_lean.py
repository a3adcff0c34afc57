"""What agents read of a tool's schema, and that it means the same as all of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import pytest
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, Field

from tests.support.tools import Hub, Programmable
from tests.test_contract import shipped
from tools_app import governance
from tools_app.catalog import catalog, listed
from tools_app.catalog.lean import lean
from tools_app.mcp_server.listing import Listings
from tools_app.sdk.decorator import tool
from tools_app.sdk.reach import Detail, Reach
from tools_app.sdk.schemas import parts_of
from tools_app.text.budget import size_of

NEGATED = {"not": {"maxLength": 3, "additionalProperties": False}}
DATA = {"const": {"maxLength": 3}, "examples": [{"default": ""}]}
OPERATOR = governance.trusted("test")


def of_property(part: dict[str, Any], *, outside: bool = False) -> Any:
    schema = {"type": "object", "properties": {"max_results": part}}
    return lean(schema, outside=outside)["properties"]["max_results"]


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ({"type": "string", "maxLength": 255, "minLength": 1, "pattern": r"\S"}, {"type": "string"}),
        ({"type": "string", "minLength": 8, "pattern": "^a+$"}, {"type": "string", "minLength": 8, "pattern": "^a+$"}),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 2**31}, {"type": "integer"}),
        ({"type": "integer", "minimum": 5, "maximum": 100}, {"type": "integer", "minimum": 5, "maximum": 100}),
        ({"type": "number", "minimum": 0}, {"type": "number", "minimum": 0}),
        ({"type": "boolean", "default": False}, {"type": "boolean"}),
        ({"type": "boolean", "default": True}, {"type": "boolean", "default": True}),
        ({"enum": ["xml", "json"], "default": "xml"}, {"enum": ["xml", "json"]}),
        ({"enum": ["xml", "json"], "default": "json"}, {"enum": ["xml", "json"], "default": "json"}),
        ({"type": "array", "items": {"maxLength": 9}, "maxItems": 100}, {"type": "array", "items": {}}),
        ({"type": "array", "maxItems": 8}, {"type": "array", "maxItems": 8}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"additionalProperties": {"type": "string"}}, {"additionalProperties": {"type": "string"}}),
        ({"title": "Max Results", "type": "integer"}, {"type": "integer"}),
        ({"title": "Most hits", "type": "integer"}, {"title": "Most hits", "type": "integer"}),
        (NEGATED, NEGATED),
        (DATA, DATA),
    ],
)  # fmt: skip
def test_a_schema_loses_what_tells_an_agent_nothing(full: dict[str, Any], short: dict[str, Any]) -> None:
    assert of_property(full) == short


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ({"type": "integer", "minimum": -(2**53 - 1), "maximum": 2**53 - 1}, {"type": "integer"}),
        ({"additionalProperties": {}, "required": [], "minLength": 0, "$comment": "?"}, {}),
        ({"title": "Max Results"}, {}),
        ({"additionalProperties": False, "maxLength": 9}, {"additionalProperties": False, "maxLength": 9}),
        ({"pattern": r"\S", "default": "", "maximum": 2**31}, {"pattern": r"\S", "default": "", "maximum": 2**31}),
    ],
)
def test_of_other_servers_only_what_means_nothing_is_left_out(full: dict[str, Any], short: dict[str, Any]) -> None:
    assert of_property(full, outside=True) == short


def test_what_is_called_like_a_keyword_stays() -> None:
    schema = {
        "type": "object",
        "properties": {"default": {"type": "string"}, "maxLength": {"type": "integer"}, "title": {"type": "string"}},
        "required": ["default"],
    }
    assert lean(schema, outside=False) == schema


def test_every_shipped_schema_is_shorter_and_accepts_what_the_full_one_accepts() -> None:
    for one in shipped():
        full = one.spec.input_schema
        untouched = copy.deepcopy(full)
        short = lean(full, outside=False)
        assert full == untouched, one.name
        assert size_of(short) <= size_of(full)
        assert lean(short, outside=False) == short, one.name
        check = jsonschema_rs.validator_for(short)
        for example in one.examples:
            assert check.is_valid(dict(example.parameters)), one.name
        names = [part.body.get("description") for part in parts_of(full)]
        assert [part.body.get("description") for part in parts_of(short)] == names, one.name


class Length(BaseModel):
    length: int


def bounded_tool() -> Any:
    @tool(category="test", tags=("a", "b"))
    def bounded(text: Annotated[str, Field(max_length=3)], flag: bool = False) -> Length:
        """Measure a text."""
        return Length(length=len(text))

    return bounded


def test_agents_read_the_short_form_and_the_full_one_is_hashed_and_checked(hub: Hub) -> None:
    hub.add(bounded_tool())
    entry = hub.entry("bounded")
    properties = listed.as_listed(entry)["inputSchema"]["properties"]
    assert properties == {"text": {"type": "string"}, "flag": {"type": "boolean"}}
    assert entry.spec.body["inputSchema"]["properties"]["text"]["maxLength"] == 3
    (problem,) = entry.spec.checker.problems({"text": "four"})
    assert problem.message == "Invalid value for parameter text: expected at most 3 characters"


def test_the_hub_and_a_toolset_decide_how_much_is_listed(hub: Hub, settings: Any) -> None:
    hub.add(bounded_tool())
    for detail in Detail:
        governance.create_toolset(detail.value, actor=OPERATOR, names=["bounded"], detail=detail.value)
    snapshot = catalog.current()
    wires = {}
    for detail in Detail:
        view = snapshot.within(detail.value)
        wires[detail] = next(wire for wire in _sent(view) if wire["name"] == "bounded")
        settings.TOOLHUB_LIST_DETAIL = detail.value
        assert listed.as_listed(snapshot.find("bounded")) == wires[detail]  # type: ignore[arg-type]
    assert wires[Detail.FULL]["inputSchema"] == hub.entry("bounded").spec.input_schema
    assert wires[Detail.LEAN]["inputSchema"] == wires[Detail.MINIMAL]["inputSchema"]
    assert "outputSchema" in wires[Detail.LEAN]
    assert "outputSchema" not in wires[Detail.MINIMAL]
    assert wires[Detail.LEAN]["_meta"] == wires[Detail.FULL]["_meta"]
    assert "_meta" not in wires[Detail.MINIMAL] or not wires[Detail.MINIMAL]["_meta"]
    sizes = [size_of(wires[detail]) for detail in Detail]
    assert sizes == sorted(sizes, reverse=True)


def test_a_tool_that_reads_files_is_listed_where_there_is_a_directory(hub: Hub, settings: Any, tmp_path: Path) -> None:
    settings.TOOLHUB_FILE_ROOT = ""
    hub.add(Programmable("filed", needs_files=True).tool)
    assert "filed" not in {entry.name for entry in listed.listed(catalog.current())}
    assert hub.entry("filed").callable, "a call says what to set"
    settings.TOOLHUB_FILE_ROOT = str(tmp_path)
    hub.add(Programmable("other").tool)
    assert "filed" in {entry.name for entry in listed.listed(catalog.current())}


def test_of_several_toolsets_the_first_that_says_how_much_decides(hub: Hub) -> None:
    for name, detail in (("a", ""), ("b", "full"), ("c", "minimal")):
        governance.create_toolset(name, actor=OPERATOR, names=["echo"], detail=detail)
    view = catalog.current()._view(Reach(frozenset({"a", "b", "c"})))
    entry = view.find("echo")
    assert entry is not None
    assert entry.detail is Detail.FULL


def test_a_list_changes_with_its_detail(hub: Hub) -> None:
    governance.create_toolset("some", actor=OPERATOR, names=["calculate"])
    before, cost = _digest_and_cost()
    governance.change_toolset("some", actor=OPERATOR, detail="full")
    after, more = _digest_and_cost()
    assert after != before
    assert more > cost
    view = catalog.current().within("some")
    assert listed.costs_by_detail(view)[Detail.FULL] == more
    assert listed.costs_by_detail(view)[Detail.LEAN] == cost


def _digest_and_cost() -> tuple[str, int]:
    view = catalog.current().within("some")
    return listed.digest(view), listed.cost_of_list(view)


def _sent(view: Any) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = Listings().of(view, LATEST_MODERN_VERSION).page(None)["tools"]
    return tools
