"""MCP over HTTP as clients meet it: a real `toolhub serve`, clients of both eras, changes made by other processes."""

from __future__ import annotations

import itertools
import json
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextContent

from tests.support import shipped
from tests.support.agents import LEGACY, MODERN, PREFIX
from tests.support.http_agents import HELLO, HttpAgent, answer
from tests.support.processes import Home, Server, key_in
from tests.support.tools import eventually

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
CHANGED = "notifications/tools/list_changed"
NUMBERS = itertools.count()
LISTEN = {"notifications": {"toolsListChanged": True}}

TOOLS = '''
import asyncio
from toolhub import Hints, tool

@tool(hints=Hints(read_only=True), category="trials")
async def nap(seconds: float = 30) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "rested"

@tool(category="trials")
def write() -> str:
    """Write."""
    return "written"
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder: Path = tmp_path_factory.mktemp("mcp_http")
    (folder / "tools").mkdir()
    (folder / "tools" / "trials.py").write_text(TOOLS)
    made = Home(
        folder / "home",
        {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), "TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"},
    )
    assert made.run("synctools").returncode == 0
    change(made, *toolset("trials"))
    change(made, *toolset("secret"))
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return new_key(home)


def new_key(home: Home, *options: str) -> str:
    made = home.run("addkey", f"agent-{next(NUMBERS)}", *options)
    assert made.returncode == 0, made.stderr
    return key_in(made.stdout)


def toolset(name: str) -> tuple[str, list[str]]:
    columns = "name, description, packs, categories, tags, names, read_only"
    return (
        f"INSERT INTO tools_app_toolset ({columns}) VALUES (?, '', '[]', '[\"trials\"]', '[]', '[]', 0)",  # noqa: S608
        [name],
    )


def change(home: Home, query: str, values: list[Any] | None = None) -> None:
    with closing(sqlite3.connect(home.database, isolation_level=None, timeout=10)) as database:
        database.execute(query, values or [])


def rows(home: Home, query: str, values: list[Any]) -> list[Any]:
    with closing(sqlite3.connect(home.database, isolation_level=None, timeout=10)) as database:
        return database.execute(query, values).fetchall()


def switch(home: Home, name: str, *, on: bool) -> None:
    change(home, "UPDATE tools_app_toolrecord SET enabled = ? WHERE name = ?", [on, name])


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
async def test_the_official_client_lists_calls_and_sees_errors(server: Server, key: str, mode: str) -> None:
    with anyio.fail_after(20):
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode, cache=None) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == shipped.listed("nap", "write")
            result = await client.call_tool("echo", {"message": "hi"})
            assert [part.text for part in result.content if isinstance(part, TextContent)] == ['{"message":"hi"}']
            assert result.is_error is False
            failed = await client.call_tool("echo", {"message": 3})
            assert failed.is_error
            with pytest.raises(MCPError, match="Unknown tool: nothing") as caught:
                await client.call_tool("nothing", {})
            assert caught.value.code == INVALID_PARAMS


@ERAS
def test_says_what_it_is_and_that_it_tells_of_changes(server: Server, key: str, era: str) -> None:
    with HttpAgent(server.url, key, era) as agent:
        result = agent.connect()
        assert result["capabilities"]["tools"]["listChanged"] is True
        assert (agent.session is None) == (era == MODERN)
        if era == MODERN:
            assert result["resultType"] == "complete"
            assert MODERN in result["supportedVersions"]
            assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
            listed = agent.ask("tools/list")
            assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_speaks_every_version_of_the_handshake_era(server: Server, key: str, version: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent:
        agreed = answer(agent.send(agent.message("initialize", {**HELLO, "protocolVersion": version})))
        assert agreed["result"]["protocolVersion"] == version


@ERAS
def test_an_idempotency_key_works_as_everywhere(server: Server, key: str, era: str) -> None:
    with HttpAgent(server.url, key, era) as agent:
        agent.connect()
        once = {"name": "write", "arguments": {}, "_meta": {"toolhub/idempotencyKey": f"k-{era}"}}
        first, second = agent.ask("tools/call", once), agent.ask("tools/call", once)
        assert second["_meta"]["toolhub/answeredBy"] == "replay"
        assert second["_meta"]["toolhub/callId"] == first["_meta"]["toolhub/callId"]


def test_a_client_of_the_handshake_era_is_notified_of_changes(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent:
        agent.connect()
        with agent.stream(None) as told:
            switch(home, "echo", on=False)
            begun = time.monotonic()
            assert next(told)["method"] == CHANGED
            assert time.monotonic() - begun < 5
            switch(home, "echo", on=True)
            assert next(told)["method"] == CHANGED


def test_a_client_of_the_modern_era_is_notified_of_changes(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key) as agent:
        listening = agent.message("subscriptions/listen", LISTEN)
        with agent.stream(listening) as told:
            assert next(told)["method"] == "notifications/subscriptions/acknowledged"
            switch(home, "echo", on=False)
            changed = next(told)
            assert changed["method"] == CHANGED
            assert changed["params"]["_meta"] == {f"{PREFIX}subscriptionId": listening["id"]}
            switch(home, "echo", on=True)
            assert next(told)["method"] == CHANGED


@ERAS
def test_changes_outside_the_reach_of_a_key_are_not_notified(home: Home, server: Server, era: str) -> None:
    with HttpAgent(server.url, new_key(home, "--toolset", "trials"), era) as agent:
        agent.connect()
        assert agent.names() == ["nap", "read_result", "write"]
        with agent.stream(agent.message("subscriptions/listen", LISTEN) if era == MODERN else None) as told:
            if era == MODERN:
                next(told)
            switch(home, "echo", on=False)
            time.sleep(1)
            switch(home, "echo", on=True)
            time.sleep(1)
            switch(home, "write", on=False)
            assert next(told)["method"] == CHANGED
            assert agent.names() == ["nap", "read_result"], (
                "what was told is the change of `write`, and not those of `echo` before"
            )
            switch(home, "write", on=True)
            assert next(told)["method"] == CHANGED


@ERAS
def test_the_address_of_a_toolset_narrows(home: Home, server: Server, key: str, era: str) -> None:
    with HttpAgent(server.url, key, era, "/mcp/trials") as agent:
        agent.connect()
        assert agent.names() == ["nap", "read_result", "write"]
        refused = answer(agent.send(agent.message("tools/call", {"name": "echo", "arguments": {"message": "hi"}})))
        assert refused["error"]["message"] == "Unknown tool: echo"
    with HttpAgent(server.url, new_key(home, "--read-only"), era, "/mcp/trials/") as agent:
        agent.connect()
        assert agent.names() == ["nap", "read_result"]


def test_a_toolset_outside_the_key_is_as_unknown_as_one_that_is_not(home: Home, server: Server) -> None:
    limited = new_key(home, "--toolset", "trials")
    bodies = []
    for path in ("/mcp/secret", "/mcp/nothing", "/mcp/trials/more", "/mcp/%00"):
        with HttpAgent(server.url, limited, MODERN, path) as agent:
            response = agent.send(agent.message("tools/list"))
            assert response.status_code == 404
            bodies.append(response.json())
    assert bodies[0]["error"]["message"] == "There is nothing at this address"
    assert all(body == bodies[0] for body in bodies)


def test_without_a_key_nothing_is_revealed(server: Server, key: str) -> None:
    for agent in (HttpAgent(server.url, None), HttpAgent(server.url, "thub_wrong"), HttpAgent(server.url, key[:-1])):
        with agent:
            for response in (
                agent.send(agent.message("server/discover")),
                agent.send_raw(b"{"),
                agent.http.get("/mcp"),
                agent.http.delete("/mcp/trials"),
            ):
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                body = response.json()
                assert body["id"] is None
                assert body["error"]["data"]["code"] == "AUTHENTICATION_ERROR"


def test_a_key_can_come_in_either_header_but_not_two_keys(server: Server, key: str) -> None:
    with HttpAgent(server.url, None) as agent:
        assert agent.send(agent.message("tools/list"), x_api_key=key).status_code == 200
        assert agent.send(agent.message("tools/list"), x_api_key=key, authorization=f"Bearer {key}").status_code == 200
        both = agent.send(agent.message("tools/list"), x_api_key=key, authorization="Bearer thub_other")
        assert both.status_code == 401


@ERAS
def test_a_revoked_key_is_refused_at_once_and_its_streams_end(home: Home, server: Server, era: str) -> None:
    with HttpAgent(server.url, new_key(home), era) as agent:
        agent.connect()
        with agent.stream(agent.message("subscriptions/listen", LISTEN) if era == MODERN else None) as told:
            agent.call("echo", message="hi")
            newest = "(SELECT max(id) FROM tools_app_apikey)"
            change(home, f"UPDATE tools_app_apikey SET revoked_at = '2026-01-01' WHERE id = {newest}")  # noqa: S608
            refused = agent.send(agent.message("tools/call", {"name": "echo", "arguments": {"message": "hi"}}))
            assert refused.status_code == 401
            switch(home, "echo", on=False)
            switch(home, "echo", on=True)
            assert CHANGED not in [message.get("method") for message in told]


@ERAS
def test_requests_count_against_the_limit_of_their_key(home: Home, era: str) -> None:
    limited = new_key(home, "--rate", "5/3600")
    with home.serving() as server, HttpAgent(server.url, limited, era) as agent:
        statuses = [agent.send(agent.message("initialize", HELLO)).status_code for _ in range(7)]
        assert statuses[5:] == [429, 429]
        assert 429 not in statuses[:5]
        refused = agent.send(agent.message("tools/list"))
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["data"]["code"] == "RATE_LIMIT_EXCEEDED"
        rest = agent.http.get("/v1/tools")
        assert rest.status_code == 429, "both doors count together"


def test_strangers_are_not_let_to_guess_without_end(home: Home, key: str) -> None:
    with home.serving(TOOLHUB_ANONYMOUS_RATE_CALLS="5") as server:
        with HttpAgent(server.url, "thub_wrong") as guesser:
            statuses = [guesser.send(guesser.message("tools/list")).status_code for _ in range(8)]
            assert statuses[:3] == [401] * 3, "the start of the server has asked for its health"
            assert statuses[-1] == 429
        with HttpAgent(server.url, key) as agent:
            assert "echo" in agent.names(), "who has a key is not kept out by those who have none"


def test_a_session_is_refused_for_other_callers(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as owner, HttpAgent(server.url, new_key(home), LEGACY) as thief:
        owner.connect()
        thief.session = owner.session
        foreign = [
            thief.send(thief.message("tools/list")),
            thief.http.get("/mcp", headers=thief.headers({})),
            thief.http.delete("/mcp", headers=thief.headers({})),
        ]
        thief.session = "0" * 32
        unknown = thief.send(thief.message("tools/list"))
        assert [response.status_code for response in (*foreign, unknown)] == [404] * 4
        assert {response.text for response in (*foreign, unknown)} == {unknown.text}
        owner.path = "/mcp/trials"
        assert owner.send(owner.message("tools/list")).status_code == 404
        owner.path = "/mcp"
        assert owner.names() == shipped.listed("nap", "write")
        assert owner.http.delete("/mcp", headers=owner.headers({})).status_code == 200
        assert owner.send(owner.message("tools/list")).status_code == 404


def test_hanging_up_cancels_a_call_of_the_modern_era(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key) as agent:
        message = agent.message("tools/call", {"name": "nap", "arguments": {"seconds": 25}})
        with pytest.raises(Exception, match="timed out"):
            agent.http.post("/mcp", content=json.dumps(message), headers=agent.headers(message), timeout=1)
    query = "SELECT status FROM tools_app_call WHERE tool_name = 'nap' ORDER BY started_at DESC LIMIT 1"
    assert eventually(lambda: rows(home, query, []) == [("cancelled",)], 10)


def test_a_call_of_the_handshake_era_is_cancelled_by_saying_so(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent, HttpAgent(server.url, key, LEGACY) as other:
        agent.connect()
        other.session = agent.session
        message = agent.message("tools/call", {"name": "nap", "arguments": {"seconds": 25}}, "n1")
        ended: list[dict[str, Any]] = []
        calling = threading.Thread(target=lambda: ended.append(answer(agent.send(message))))
        calling.start()
        running = "SELECT count(*) FROM tools_app_call WHERE tool_name = 'nap' AND status = 'cancelled'"
        before = rows(home, running, [])[0][0]
        time.sleep(1)
        other.send(other.message("notifications/cancelled", {"requestId": "n1"}))
        calling.join(10)
        assert "error" in ended[0]
        assert eventually(lambda: rows(home, running, [])[0][0] == before + 1, 10)


def test_an_id_that_is_under_way_is_not_taken_twice(server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent, HttpAgent(server.url, key, LEGACY) as other:
        agent.connect()
        other.session = agent.session
        message = agent.message("tools/call", {"name": "nap", "arguments": {"seconds": 3}}, 8)
        ended: list[dict[str, Any]] = []
        calling = threading.Thread(target=lambda: ended.append(answer(agent.send(message))))
        calling.start()
        time.sleep(1)
        again = other.send(other.message("tools/call", {"name": "echo", "arguments": {"message": "hi"}}, "8"))
        assert again.status_code == 400
        assert again.json()["id"] is None
        calling.join(20)
        assert ended[0]["result"]["content"][0]["text"] == "rested"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_in_time_with_streams_open(home: Home, key: str, number: int) -> None:
    with home.serving() as server, HttpAgent(server.url, key, LEGACY) as old, HttpAgent(server.url, key) as new:
        old.connect()
        listening = new.message("subscriptions/listen", LISTEN)
        with old.stream(None) as told, new.stream(listening) as also_told:
            next(also_told)
            begun = time.monotonic()
            code = server.end(number)
            assert time.monotonic() - begun < 8, "less than the time for calls to end in"
            assert code in (0, 130)
            assert list(told) == []
            last = list(also_told)[-1]
            assert last["id"] == listening["id"]
            assert "result" in last
        assert "Traceback" not in "".join(server.errors)


@ERAS
def test_an_open_session_loses_what_another_process_takes_from_its_key(home: Home, server: Server, era: str) -> None:
    name = f"shrinking-{era}"  # names of revoked keys are not free
    made = home.run("addkey", name)
    with HttpAgent(server.url, key_in(made.stdout), era) as agent:
        agent.connect()
        assert "echo" in agent.names()
        with agent.stream(agent.message("subscriptions/listen", LISTEN) if era == MODERN else None) as told:
            if era == MODERN:
                next(told)
            home.run("changekey", name, "--toolset", "trials", "--access", "read")
            assert "echo" not in agent.names()
            refused = agent.send(agent.message("tools/call", {"name": "echo", "arguments": {"message": "an echo"}}))
            assert "an echo" not in refused.text
            # It loses prompts and resources as well: in any order.
            assert any(note["method"] == CHANGED for note in told)
            home.run("changekey", name, "--address", "192.0.2.0/24")
            assert agent.send(agent.message("tools/list", {})).status_code == 401
    home.run("revokekey", name)


def test_several_workers_serve_both_eras_without_sessions(home: Home, key: str) -> None:
    with home.serving("--workers", "2") as server:
        for _ in range(6):
            with HttpAgent(server.url, key, LEGACY) as agent:
                assert agent.connect()["capabilities"]["tools"]["listChanged"] is False
                assert agent.session is None
                assert "echo" in agent.names()
                assert agent.call("echo", message="hi")["isError"] is False
                agent.session = "left over from before"
                assert "echo" in agent.names()
                assert agent.http.get("/mcp", headers={"accept": "text/event-stream"}).status_code == 405
        with HttpAgent(server.url, key) as agent, agent.stream(agent.message("subscriptions/listen", LISTEN)) as told:
            next(told)
            switch(home, "echo", on=False)
            assert next(told)["method"] == CHANGED
            switch(home, "echo", on=True)
            assert next(told)["method"] == CHANGED


def test_sessions_are_few_and_end_when_unused(home: Home, key: str) -> None:
    other_key = new_key(home)
    with home.serving(TOOLHUB_MCP_SESSIONS="3", TOOLHUB_MCP_IDLE_SECONDS="4") as server:
        agents = [HttpAgent(server.url, key, LEGACY) for _ in range(3)]
        with agents[0], agents[1], agents[2], HttpAgent(server.url, other_key, LEGACY) as other:
            for agent in agents:
                agent.connect()
            agents[0].names()
            other.connect()
            assert agents[1].send(agents[1].message("tools/list")).status_code == 404, "unused longest"
            for agent in (agents[0], agents[2], other):
                agent.names()
            time.sleep(6)
            for agent in (agents[0], agents[2], other):
                assert agent.send(agent.message("tools/list")).status_code == 404
