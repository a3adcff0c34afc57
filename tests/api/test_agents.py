"""Which agents are connected, over REST."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.admin.conftest import agent, process
from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form
from tools_app import governance


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["tools:manage"])
    return rest


def test_agents_of_living_processes_are_listed(root: Rest) -> None:
    alive = process(kind="runmcp", pid=7)
    agent(alive, called_at=timezone.now(), calls=3, toolset="pages, sums")
    agent(process(pid=8, lease_until=timezone.now() - timedelta(seconds=1)), client="gone")
    page = root.get("/v1/agents").json()
    check_form("AgentPage", page)
    [one] = page["agents"]
    assert (one["client"], one["version"], one["calls"]) == ("claude-code", "2.0", 3)
    assert one["toolsets"] == ["pages", "sums"]
    assert one["process"] == {"id": alive.pk, "kind": "runmcp", "host": "hub-1", "pid": 7}
    assert one["lastCallAt"]


def test_agents_are_narrowed_down_and_come_page_by_page(root: Rest) -> None:
    at = process()
    for number in range(3):
        agent(at, caller_id=f"key:{number}", door="http" if number else "stdio")
    first = root.get("/v1/agents?limit=2").json()
    rest = root.get(f"/v1/agents?limit=2&cursor={first['nextCursor']}").json()
    assert [len(first["agents"]), len(rest["agents"])] == [2, 1]
    assert len(root.get("/v1/agents?door=http").json()["agents"]) == 2
    assert len(root.get("/v1/agents?caller=key:1").json()["agents"]) == 1


def test_a_key_of_a_toolset_sees_the_agents_of_that(rest: Rest, make_key: MakeKey) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"))
    at = process()
    agent(at, client="mine", toolset="sums")
    agent(at, client="also mine", toolset="pages, sums, words")
    agent(at, client="another", toolset="sums2, more-sums")
    agent(at, client="all")
    rest.key = make_key("bound", scopes=["tools:manage"], toolsets=["sums"])
    seen = {one["client"]: one["toolsets"] for one in rest.get("/v1/agents").json()["agents"]}
    assert seen == {"mine": ["sums"], "also mine": ["sums"]}
