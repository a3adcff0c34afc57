"""A tool as agents' lists show it, and what it costs them to read it."""

from __future__ import annotations

import json

import pytest
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.catalog import catalog, listed
from tools_app.mcp_server.listing import Listings


@pytest.mark.parametrize("version", [LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION])
def test_a_tool_is_listed_as_it_is_declared(hub: Hub, version: str) -> None:
    hub.add(Programmable("clock", title="Clock", tags=["time"], icon="data:image/svg+xml;base64,PHN2Zy8+").tool)
    snapshot = catalog.current()
    sent = Listings().of(snapshot, version).page(None)["tools"]
    assert sent == [listed.as_listed(entry) for entry in snapshot.callable]


def test_the_cost_of_a_tool_is_estimated_from_its_bytes(hub: Hub) -> None:
    snapshot = catalog.current()
    costs = listed.costs(snapshot)
    sent = Listings().of(snapshot, LATEST_MODERN_VERSION)._first_items.json
    size = len(sent) / 3
    assert size * 0.98 <= sum(costs.values()) <= size * 1.02
    wire = json.dumps(listed.as_listed(hub.entry("echo")), ensure_ascii=False, separators=(",", ":"))
    assert costs["echo"] == -(-len(wire.encode()) // 3)


def test_a_tool_that_is_not_recorded_yet_costs_about_the_same(hub: Hub) -> None:
    costs = listed.costs(catalog.current())
    assert costs
    for entry in catalog.current().all:
        assert 0 <= costs[entry.name] - listed.cost_of(entry.spec) <= 20, entry.name  # version and tags


def test_a_tool_costs_something_else_when_it_is_listed_differently(hub: Hub) -> None:
    before = listed.costs(catalog.current())["echo"]
    governance.add_tag("a-tag-that-agents-are-shown", ["echo"], actor=governance.trusted("test"))
    assert listed.costs(catalog.current())["echo"] > before
