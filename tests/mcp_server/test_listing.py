"""What clients see of the tools: in order, in pages, in their era's form, and prepared once."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tests.support.agents import LEGACY, MODERN
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.answers import with_outline
from tools_app.catalog import catalog, listed
from tools_app.catalog.lean import lean, selectable
from tools_app.mcp_server.listing import Listing, Listings
from tools_app.models import ToolRecord
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.hints import Hints

ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN, "2024-11-05"])


def listing(*names: str) -> Listing:
    return Listing({"name": name} for name in names)


def names(page: dict[str, Any]) -> list[str]:
    return [one["name"] for one in page["tools"]]


def pages(listed: Listing, size: int) -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = listed.page(cursor, size)
        found.append(names(page))
        if (cursor := page.get("nextCursor")) is None:
            return found


def test_pages_hold_every_tool_once_and_in_order() -> None:
    listed = listing("a", "b", "c", "d", "e")
    assert pages(listed, 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert pages(listed, 5) == [["a", "b", "c", "d", "e"]]
    assert pages(listed, 6) == [["a", "b", "c", "d", "e"]]
    assert pages(listing(), 5) == [[]]


def test_pages_stay_right_when_tools_come_and_go_between_them() -> None:
    cursor = listing("a", "b", "c", "d").page(None, 2)["nextCursor"]
    assert names(listing("a", "c", "d").page(cursor, 2)) == ["c", "d"]
    assert names(listing("a", "b", "bb", "c").page(cursor, 2)) == ["bb", "c"]
    assert names(listing("a").page(cursor, 2)) == []


def test_an_empty_cursor_is_the_beginning() -> None:
    assert names(listing("a", "b").page("", 1)) == ["a"]


@pytest.mark.parametrize("cursor", ["!", "a", "//79", "né", "YQ", "YQ==="])
def test_a_cursor_that_is_none_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(MCPError) as caught:
        listing("a").page(cursor)
    assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, "Invalid cursor")


@ERAS
def test_shows_everything_an_agent_needs(hub: Hub, version: str) -> None:
    @tool(
        name="forecast", title="Forecast", category="weather", tags=("sky",), version="2.1", hints=Hints(read_only=True)
    )
    def forecast(city: str, days: int = 3) -> str:
        """Tell the weather of a city."""
        return ""

    hub.add(forecast)
    shown = {one["name"]: one for one in Listings().of(catalog.current(), version).page(None)["tools"]}["forecast"]
    assert (shown["title"], shown["description"]) == ("Forecast", "Tell the weather of a city.")
    assert shown["inputSchema"] == lean(forecast.input_schema, outside=False)
    assert "outputSchema" not in shown, "an answer that is no object has no schema that all clients take"
    assert shown["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }
    assert shown["_meta"] == {"toolhub/version": "2.1", "toolhub/category": "weather", "toolhub/tags": ["sky"]}


@ERAS
def test_shows_the_output_schema_of_an_object(hub: Hub, version: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    hub.add(Programmable("counted", output_schema=schema).tool)
    shown = {one["name"]: one for one in Listings().of(catalog.current(), version).page(None)["tools"]}["counted"]
    assert shown["outputSchema"] == with_outline(selectable(schema), is_brief=True), "an outline may come instead"


@ERAS
def test_shows_the_picture_of_a_tool(hub: Hub, version: str) -> None:
    @tool(name="pictured", icon="https://cdn.test/a.png")
    def pictured() -> str:
        """Be seen."""
        return ""

    hub.add(pictured)
    shown = {one["name"]: one for one in Listings().of(catalog.current(), version).page(None)["tools"]}
    assert shown["pictured"]["icons"] == [{"src": "https://cdn.test/a.png"}]
    assert "icons" not in shown["echo"]


@ERAS
def test_lists_by_name_what_can_be_called(hub: Hub, version: str) -> None:
    hub.add(Programmable("zebra").tool, Programmable("ant").tool, Programmable("mule").tool)
    governance.set_enabled(["mule"], False, actor=governance.trusted("test"))
    assert names(Listings().of(catalog.current(), version).page(None)) == [
        "ant",
        "calculate",
        "echo",
        "read_result",
        "zebra",
    ]


def test_prepares_a_tool_once_however_often_it_is_listed(hub: Hub) -> None:
    listings = Listings()
    first = listings.of(catalog.current(), LEGACY)
    assert listings.of(catalog.current(), LEGACY) is first
    before = {one["name"]: one for one in first.page(None)["tools"]}
    governance.set_enabled(["calculate"], False, actor=governance.trusted("test"))
    after = listings.of(catalog.current(), LEGACY).page(None)["tools"]
    assert [one["name"] for one in after] == ["echo", "read_result"]
    assert after[0] is before["echo"]


@ERAS
def test_hints_that_operators_correct_are_listed(hub: Hub, version: str) -> None:
    listings = Listings()

    def reads_only() -> bool:
        tools = listings.of(catalog.current(), version).page(None)["tools"]
        return next(one["annotations"]["readOnlyHint"] is True for one in tools if one["name"] == "echo")

    before = listed.digest(catalog.current())
    assert reads_only()
    ToolRecord.objects.filter(name="echo").update(hint_read_only=False)
    assert not reads_only()
    assert listed.digest(catalog.current()) != before


@ERAS
def test_a_tool_that_the_sdk_refuses_is_left_out_alone_and_named_in_the_log_once(
    hub: Hub, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FunctionTool):
        def definition(self) -> dict[str, Any]:
            return super().definition() | {"inputSchema": {"type": "string"}}

    hub.add(Broken(lambda: 1, name="broken", description="Broken."), Programmable("whole").tool)
    snapshot = catalog.current()
    listings = Listings()
    with caplog.at_level(logging.ERROR, "tools_app.mcp"):
        assert names(listings.of(snapshot, version).page(None)) == ["calculate", "echo", "read_result", "whole"]
        governance.set_enabled(["calculate"], False, actor=governance.trusted("test"))
        assert names(listings.of(catalog.current(), version).page(None)) == ["echo", "read_result", "whole"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "tool 'broken' is left out of the list for clients"
    ]


def test_claude_code_is_told_how_large_answers_can_be(hub: Hub) -> None:
    """It stores longer answers in a file, which agents seldom read. Other clients are told nothing that they ignore."""
    view = catalog.current()
    listings = Listings()
    for version in (LEGACY, MODERN):
        sized = {one["name"]: one["_meta"] for one in listings.of(view, version, "claude-code").page(None)["tools"]}
        plain = {one["name"]: one["_meta"] for one in listings.of(view, version, "cursor").page(None)["tools"]}
        assert {meta.pop("anthropic/maxResultSizeChars") for meta in sized.values()} == {75_000}
        assert sized == plain
