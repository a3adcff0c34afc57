"""The walk of docs/import.md: from the file of Claude Desktop and two documents to sixty tools and fifteen keys."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import mcp_upstream
from tests.support import shop as shops
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent
from tests.support.mcp_upstream import McpUpstream
from tests.support.processes import CHECKOUT, Home

pytestmark = pytest.mark.e2e

MOST_STEPS = 25
PAGE = (CHECKOUT / "docs" / "import.md").read_text().partition("## From a client's file to sixty tools")[2]
# What servers list: names of tools, parameters and hints as these packages have them.
SERVERS: dict[str, Any] = json.loads((CHECKOUT / "tests" / "data" / "desktop_servers.json").read_text())
OVER_HTTP = ("context7", "exa")
TOKEN = "token-of-context7-0815"
CODE = re.compile(r"--approve ([0-9a-f]{12})$", re.MULTILINE)
READ_RESULT = "read_result"


def steps() -> list[str]:
    """The commands of the section. Continued lines, and the lines of a file, belong to the command before them."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    found: list[str] = []
    is_complete = True
    for line in "".join(blocks).splitlines():
        if is_complete:
            found.append(line)
        else:
            found[-1] += f"\n{line}"
        is_complete = line == "END" or not (line.endswith("\\") or "<<'END'" in found[-1])
    return found


def definitions(name: str) -> list[dict[str, Any]]:
    made = []
    for tool in SERVERS[name]["tools"]:
        schema = {"type": "object", "properties": tool["properties"], "required": tool.get("required", [])}
        words = f"{tool['name'].replace('_', ' ').capitalize()}, with {name}."
        hints = {"annotations": tool["annotations"]} if "annotations" in tool else {}
        made.append({"name": tool["name"], "description": words, "inputSchema": schema, **hints})
    return made


@pytest.fixture
def over_http() -> Iterator[dict[str, McpUpstream]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(mcp_upstream.running(definitions(name))) for name in OVER_HTTP}


@pytest.fixture
def services() -> Iterator[tuple[shops.Shop, shops.Shop]]:
    with shops.running() as shop, shops.running() as warehouse:
        shop.key, warehouse.key = "key-of-the-shop-1", "key-of-the-warehouse-2"
        yield shop, warehouse


@pytest.fixture
def person(tmp_path: Path, over_http: dict[str, McpUpstream]) -> Path:
    """The home of a person whose Claude Desktop has twenty servers."""
    entries: dict[str, Any] = {}
    for name in SERVERS:
        if name in over_http:
            entries[name] = {"url": over_http[name].url}
            continue
        state = tmp_path / f"{name}.json"
        state.write_text(json.dumps({"tools": definitions(name)}))
        word, *arguments = mcp_upstream.command(state=str(state), counts=True)
        entries[name] = {"command": word, "args": arguments}
    over_http["context7"].accepts = f"Bearer {TOKEN}".__eq__
    entries["context7"]["headers"] = {"Authorization": "Bearer ${CONTEXT7_KEY}"}
    folder = tmp_path / "person"
    file = folder / ".config" / "Claude" / "claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": entries}, indent=2))
    return folder


def arguments_for(tool: dict[str, Any]) -> dict[str, Any]:
    """The least that its schema accepts."""
    examples = {"string": "a", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    schema = tool["inputSchema"]
    kinds = {name: schema["properties"][name].get("type", "string") for name in schema.get("required", [])}
    return {name: examples[kind if isinstance(kind, str) else kind[0]] for name, kind in kinds.items()}


def test_the_walk(
    tmp_path: Path, person: Path, over_http: dict[str, McpUpstream], services: tuple[shops.Shop, shops.Shop]
) -> None:
    first, *commands = steps()
    assert first == "toolhub serve"
    assert 1 + len(commands) <= MOST_STEPS
    assert len(SERVERS) == 20
    shop, warehouse = services
    home = Home(tmp_path / "home", {"HOME": str(person), "TOOLHUB_KEY_RATE_CALLS": "0"})
    (tmp_path / "shop.key").write_text(f"{shop.key}\n")
    (tmp_path / "warehouse.key").write_text(f"{warehouse.key}\n")
    names = {"SHOP": shop.url, "WAREHOUSE": warehouse.url, "CONTEXT7_KEY": TOKEN}
    environment = {
        **home.environment, **names, "PATH": f"{Path(sys.executable).parent}:{home.environment['PATH']}"
    }  # fmt: skip
    with home.serving() as server:
        code, printed = "", ""
        for command in commands:
            assert ("CODE" in command) == ("--approve" in command)
            done = subprocess.run(
                ["/bin/sh", "-eu", "-c", command.replace("CODE", code)],
                env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert "20 added" in done.stdout or "import" not in command, done.stdout
            printed += done.stdout
            code = match[1] if (match := CODE.search(done.stdout)) else code
        assert TOKEN not in printed
        assert shop.key not in printed
        lines = (tmp_path / "keys-created.csv").read_text().splitlines()
        keys = {row["name"]: row["key"] for row in csv.DictReader(lines)}
        # A new hub has a key of its own.
        described = [one for one in json.loads(home.run("listkeys", "--json").stdout) if one["name"] in keys]
        check_keys(keys, described)
        check_calls(server.url, keys, over_http, services)


def check_keys(keys: dict[str, str], described: list[dict[str, Any]]) -> None:
    assert len(keys) == len(described) == 15
    assert all(one["toolsets"] and one["rateLimit"] for one in described)
    by_name = {one["name"]: one for one in described}
    assert by_name["report"]["rateLimit"] == {"max": 3, "seconds": 60}
    assert (by_name["report"]["mayWrite"], by_name["anna"]["mayWrite"]) == (False, True)
    assert by_name["henry"]["toolsets"] == ["data", "research"]
    assert by_name["shop-bot"]["connections"] == ["shop-main", "warehouse-main"]
    assert by_name["chris"]["expiresAt"]
    assert by_name["anna"]["expiresAt"] is None


def check_calls(
    url: str, keys: dict[str, str], over_http: dict[str, McpUpstream], services: tuple[shops.Shop, shops.Shop]
) -> None:
    shop, warehouse = services
    with HttpAgent(url, keys["root-agent"], MODERN) as agent:
        agent.connect()
        tools = {tool["name"]: tool for tool in agent.ask("tools/list")["tools"] if tool["name"] != READ_RESULT}
        assert len(tools) == 60
        for name, tool in tools.items():
            if not name.startswith(("shop_", "warehouse_")):
                answer = agent.call(name, **arguments_for(tool))
                assert not answer.get("isError"), (name, answer)
        for service in ("shop", "warehouse"):
            body = {"sku": "tea", "count": 2}
            assert agent.call(f"{service}_create_order", body=body)["structuredContent"]["id"] == "1"
            assert agent.call(f"{service}_get_order", orderId="1")["structuredContent"]["sku"] == "tea"
            assert len(agent.call(f"{service}_list_orders")["structuredContent"]["orders"]) == 1
            assert not agent.call(f"{service}_cancel_order", orderId="1").get("isError")
        assert agent.call("warehouse_get_stock", sku="tea")["structuredContent"]["count"] == 3
        assert shop.orders == warehouse.orders == {}
        # One process serves all calls of a source: its four tools, and this one again.
        again = agent.call("elastic_list_indices", **arguments_for(tools["elastic_list_indices"]))
        assert '"call": 5' in again["content"][0]["text"], again
    assert over_http["context7"].executions.total() == 2
    assert all("authorization" not in headers for _, headers in over_http["exa"].requests)

    check_reach(url, keys, set(tools))
    answers = [
        httpx.post(
            f"{url}/v1/tools/dbhub_search_objects/call", json={"object_type": "table"},
            headers={"X-API-Key": keys["report"]}, trust_env=False, timeout=30,
        )
        for _ in range(4)
    ]  # fmt: skip
    assert [answer.status_code for answer in answers][-1] == 429, [answer.text for answer in answers]


def check_reach(url: str, keys: dict[str, str], approved: set[str]) -> None:
    """Each key sees the approved tools of its sources, and nothing else."""
    rows = {row["name"]: row for row in csv.DictReader(re.split("(?<='END'\n)|(?=END\n)", PAGE)[1].splitlines())}
    toolsets = {
        words[3]: {name for option, name in pairwise(words) if option == "--source"}
        for words in map(str.split, steps())
        if words[1:3] == ["toolset", "add"]
    }
    assert len(toolsets) == 5
    for number, (name, row) in enumerate(rows.items()):
        sources = set().union(*(toolsets[toolset] for toolset in row["toolset"].split()))
        within = {tool for tool in approved if tool.partition("_")[0] in sources}
        assert within
        with HttpAgent(url, keys[name], (LEGACY, MODERN)[number % 2]) as agent:
            agent.connect()
            seen = set(agent.names()) - {READ_RESULT}
            if row["read-only"]:
                # What claims nothing could do anything.
                assert seen < within
            else:
                assert seen == within
            for hidden in ("github_create_issue", *sorted(approved - within)[:2]):
                refused = agent.send(agent.message("tools/call", {"name": hidden, "arguments": {}}))
                assert '"isError":true' in refused.text or '"error"' in refused.text, refused.text
