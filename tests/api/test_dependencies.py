"""Which tools need which others, over REST; and what callers are told of tools that are on their way out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest
from tests.support.tools import Hub
from tools_app import governance
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["admin:*"])
    return rest


def made(name: str, *needs: str, **declared: Any) -> Any:
    def run() -> str:
        """Do something."""
        return name

    return tool(name=name, dependencies=needs, hints=Hints(read_only=True), **declared)(run)


def test_the_graph_names_needs_users_and_circles(hub: Hub, root: Rest) -> None:
    hub.add(made("base"), made("top", "base ^2", "nice?"), made("one", "two"), made("two", "one"))
    graph = root.get("/v1/dependencies").json()
    assert {node["name"]: (node["needs"], node["neededBy"]) for node in graph["tools"]} == {
        "base": ([], ["top"]),
        "top": (
            [
                {"name": "base", "range": "^2", "optional": False, "met": False},
                {"name": "nice", "optional": True, "met": False},
            ],
            [],
        ),
        "one": ([{"name": "two", "optional": False, "met": False}], ["two"]),
        "two": ([{"name": "one", "optional": False, "met": False}], ["one"]),
    }
    assert graph["cycles"] == [["one", "two", "one"]]


def test_switching_off_says_what_else_ends(hub: Hub, root: Rest) -> None:
    hub.add(made("base"), made("top", "base"))
    told = root.send("PATCH", "/v1/tools/base", json.dumps({"enabled": False})).json()
    assert told["warnings"] == ["top cannot be called without base"]
    assert "warnings" not in root.send("PATCH", "/v1/tools/base", json.dumps({"enabled": True})).json()


def test_a_deprecated_tool_says_so_wherever_it_is_met(hub: Hub, root: Rest) -> None:
    hub.add(made("old", deprecated="use new_one"), made("other"))
    shown = root.get("/v1/tools/old").json()
    assert shown["deprecated"] == "use new_one"
    assert shown["description"].endswith("Deprecated: use new_one")
    called = root.post("/v1/tools/call", {"name": "old", "parameters": {}})
    assert called.headers["X-Tool-Deprecated"] == "true"
    assert "X-Tool-Deprecated" not in root.post("/v1/tools/call", {"name": "other", "parameters": {}}).headers


def test_a_deprecated_tool_says_so_under_each_of_its_names(hub: Hub, rest: Rest, make_key: MakeKey) -> None:
    hub.add(made("old", deprecated="use new_one"))
    governance.create_toolset(
        "desk", actor=governance.trusted("test"), names=["old"], overrides={"old": {"name": "ours"}}
    )
    rest.key = make_key("desk", toolsets=["desk"])
    called = rest.post("/v1/tools/call", {"name": "ours", "parameters": {}})
    assert called.headers["X-Tool-Deprecated"] == "true"
