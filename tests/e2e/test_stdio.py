"""`toolhub runmcp` as an agent meets it: a real process on a real home, driven over its pipes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION, TextContent

from tests.support import shipped
from tests.support.agents import LEGACY, MODERN, PREFIX, Agent, copy_of
from tests.support.processes import CHECKOUT, Home
from tests.support.tools import eventually

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
CHANGED = "notifications/tools/list_changed"
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

TOOLS = '''
import asyncio, os, subprocess, sys, time
from typing_extensions import TypedDict
from toolhub import Hints, tool

print("printed at import")
os.write(1, b"written at import\\n")
READ = Hints(read_only=True)

class Counted(TypedDict):
    n: int

@tool(hints=READ)
async def count(n: int) -> Counted:
    """Count."""
    return {"n": n}

@tool
async def nap(seconds: float = 30) -> str:
    """Sleep; writes, so that it is on record while it runs."""
    await asyncio.sleep(seconds)
    return "rested"

@tool
def block(seconds: float = 30) -> str:
    """Hold a thread."""
    time.sleep(seconds)
    return "released"

@tool
async def stubborn() -> str:
    """Do not listen to being cancelled."""
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass

@tool(hints=READ)
def noise() -> str:
    """Write to stdout in every way there is, and read from stdin."""
    print("printed in a tool")
    sys.__stdout__.write("written in a tool\\n"); sys.__stdout__.flush()
    os.write(1, b"written to the descriptor\\n")
    subprocess.run(["echo", "written by a child"], check=True)
    return "read: " + repr(sys.stdin.read()) + repr(subprocess.run(["cat"], capture_output=True).stdout)

@tool(hints=READ)
async def large(size: int) -> str:
    """Answer at length."""
    return "x" * size

@tool(hints=READ)
def crash() -> str:
    """Break."""
    raise RuntimeError("what nobody may see")
'''


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with tools to try things with, set up."""
    folder = tmp_path_factory.mktemp("stdio")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "trials.py").write_text(TOOLS)
    made = Home(folder / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    done = made.run("synctools")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def home(template: Home, tmp_path: Path) -> Home:
    return copy_of(template, tmp_path / "home")


@pytest.fixture(scope="module")
def shared(template: Home, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home for tests that leave the hub as it is."""
    return copy_of(template, tmp_path_factory.mktemp("shared") / "home")


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def agent(shared: Home, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """A connected agent, for tests that leave it as it is, too."""
    with Agent(shared, request.param) as connected:
        connected.connect()
        yield connected


def toolset(name: str, names: str) -> str:
    columns = "name, description, packs, categories, tags, names"
    return f"INSERT INTO tools_app_toolset ({columns}) VALUES ('{name}', '', '[]', '[]', '[]', '{names}')"  # noqa: S608


def change(home: Home, *statements: str) -> None:
    """What another program does to the database, in one transaction."""
    with closing(sqlite3.connect(home.database, timeout=5)) as database, database:
        for statement in statements:
            database.execute(statement)


def switch(home: Home, name: str, on: bool) -> None:
    change(home, f"UPDATE tools_app_toolrecord SET enabled = {int(on)} WHERE name = '{name}'")  # noqa: S608


def journal(home: Home, tool: str) -> list[str]:
    with closing(sqlite3.connect(home.database, timeout=5)) as database:
        rows = database.execute("SELECT status FROM tools_app_call WHERE tool_name = ? ORDER BY started_at", [tool])
        return [status for (status,) in rows]


def texts(result: dict[str, Any]) -> list[str]:
    return [part["text"] for part in result["content"]]


# ---- with the SDK's own client


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", MODERN, "auto"])
async def test_serves_the_clients_of_the_sdk(shared: Home, tmp_path: Path, mode: str) -> None:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolhub", "runmcp"],
        env=shared.environment,
        cwd=CHECKOUT.anchor,
    )
    with anyio.fail_after(15):
        async with Client(parameters, mode=mode) as client:
            if mode != MODERN:  # That one asks for nothing beforehand.
                assert client.server_info is not None
                assert client.server_info.name == "toolhub"
            assert client.protocol_version == (LEGACY if mode == "legacy" else MODERN)
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == sorted(tools)
            assert {"echo", "calculate", "count", "noise"} <= tools.keys()
            assert tools["echo"].meta is not None
            assert tools["echo"].meta["toolhub/version"] == "1.1.0"
            answer = await client.call_tool("echo", {"message": "hello"})
            assert answer.content == [TextContent(text='{"message":"hello"}')]
            assert (answer.is_error, answer.structured_content) == (False, None)
            assert (await client.call_tool("count", {"n": 3})).structured_content == {"n": 3}
            wrong = await client.call_tool("calculate", {"operation": "pow", "a": "1"})
            assert wrong.is_error
            assert wrong.meta is not None
            details = wrong.meta["toolhub/error"]["details"]
            assert {problem["path"] for problem in details} == {"/operation", "/a", "/b"}
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("nope", {})
            assert (unknown.value.code, unknown.value.message) == (INVALID_PARAMS, "Unknown tool: nope")
            crashed = await client.call_tool("crash", {})
            assert "nobody may see" not in crashed.model_dump_json()


# ---- what is in an answer


def test_every_answer_has_the_envelope_of_its_era(agent: Agent) -> None:
    hello = agent.result(agent.ask("server/discover")) if agent.era == MODERN else None
    listed = agent.result(agent.ask("tools/list"))
    called = agent.call("echo", message="hi")
    assert called["isError"] is False
    assert called["content"] == [{"type": "text", "text": '{"message":"hi"}'}]
    own = called["_meta"].pop("toolhub/callId")
    assert len(own) == 32
    if hello is None:
        assert listed.keys() == {"tools"}
        assert called.keys() == {"content", "isError", "_meta"}
        return
    assert (hello["ttlMs"], hello["cacheScope"]) == (60_000, "public")
    assert (listed["ttlMs"], listed["cacheScope"]) == (1_000, "private")
    for result in (hello, listed, called):
        assert result["resultType"] == "complete"
        assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "toolhub"
        assert ("icons" in result["_meta"][f"{PREFIX}serverInfo"]) == (result is hello)


def test_a_version_that_is_not_served_is_refused_with_those_that_are(shared: Home) -> None:
    with Agent(shared, MODERN) as agent:
        agent.connect()
        for version, code in (("2099-01-01", UNSUPPORTED_PROTOCOL_VERSION), (None, INVALID_PARAMS)):
            params: dict[str, Any] = {"_meta": {f"{PREFIX}protocolVersion": version, f"{PREFIX}clientCapabilities": {}}}
            line = json.dumps({"jsonrpc": "2.0", "id": "v", "method": "tools/list", "params": params})
            agent.write(line.encode() + b"\n")
            assert agent.answer("v")["error"]["code"] == code
        # Nor is the handshake of the earlier era.
        agent.write(json.dumps({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": HELLO}).encode() + b"\n")
        refused = agent.answer("i")["error"]
        assert (refused["code"], refused["data"]["supported"]) == (UNSUPPORTED_PROTOCOL_VERSION, [MODERN])


# ---- what is switched


@ERAS
def test_tells_of_a_switch_at_once_and_refuses_the_next_call(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        assert agent.connect()["capabilities"]["tools"] == {"listChanged": True}
        if era == MODERN:
            listening = agent.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            assert agent.next()["method"] == "notifications/subscriptions/acknowledged"
        assert "echo" in [tool["name"] for tool in agent.tools()]
        for on in (False, True):
            switch(home, "echo", on)
            begun = time.monotonic()
            refused = agent.call("echo", message="hi")
            assert refused["isError"] is not on
            if not on:
                assert texts(refused)[0] == "Tool is disabled: echo"
                assert refused["_meta"]["toolhub/error"]["code"] == "TOOL_DISABLED"
            told = [message for message in agent.seen if message.get("method") == CHANGED] or [agent.told(CHANGED)]
            assert time.monotonic() - begun < 5, "a second is promised, and this machine may be busy"
            if era == MODERN:
                assert told[0]["params"]["_meta"] == {f"{PREFIX}subscriptionId": listening}
            assert ("echo" in [tool["name"] for tool in agent.tools()]) is on
            agent.seen.clear()
        if era == MODERN:
            agent.stdin.close()
            ended = [message for message in agent.rest() if message.get("id") == listening]
            assert [message["result"]["_meta"][f"{PREFIX}subscriptionId"] for message in ended] == [listening]


@ERAS
def test_an_agent_of_a_toolset_sees_nothing_else_and_gets_no_other_notifications(home: Home, era: str) -> None:
    change(home, toolset("sums", '["calculate"]'))
    with Agent(home, era, arguments=["--toolset", "sums"], TOOLHUB_WATCH_SECONDS="0.02") as agent:
        agent.connect()
        if era == MODERN:
            agent.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            assert agent.next()["method"] == "notifications/subscriptions/acknowledged"
        assert [tool["name"] for tool in agent.tools()] == ["calculate", "read_result"]
        refused = agent.answer(agent.ask_tool("echo", message="hi"))["error"]
        assert (refused["code"], refused["message"]) == (INVALID_PARAMS, "Unknown tool: echo")
        switch(home, "echo", False)
        assert agent.silent(0.3)
        change(home, """UPDATE tools_app_toolset SET names = '["count", "nap"]'""")
        agent.told(CHANGED)
        assert [tool["name"] for tool in agent.tools()] == ["count", "nap", "read_result"]


def test_an_agent_that_only_reads_is_not_shown_what_writes(home: Home) -> None:
    change(home, toolset("mine", '["count", "nap"]'))
    with Agent(home, arguments=["--toolset", "mine", "--read-only"]) as agent:
        agent.connect()
        assert [tool["name"] for tool in agent.tools()] == ["count", "read_result"]
        refused = agent.call("nap")
        assert refused["_meta"]["toolhub/error"]["code"] == "AUTHORIZATION_ERROR"
        assert texts(refused)[0] == "Permission denied: nap can write, and you may not use tools that do"


def test_notifies_once_of_many_changes_and_not_of_invisible_ones(home: Home) -> None:
    with Agent(home, TOOLHUB_WATCH_SECONDS="0.02") as agent:
        agent.connect()
        agent.notify("notifications/initialized")
        before = agent.tools()
        change(home, "UPDATE tools_app_toolrecord SET timeout_ms = 5000", "DELETE FROM tools_app_toolrecord WHERE 0")
        assert agent.silent(0.3)
        flip = "UPDATE tools_app_toolrecord SET enabled = 1 - enabled WHERE pack = 'builtin' AND kind = 'tool'"
        change(home, *[flip] * 5)
        agent.told(CHANGED)
        assert agent.silent(0.3)
        assert len(agent.tools()) == len(before) - len(shipped.of_pack("builtin"))


def test_a_change_before_the_client_says_that_it_is_ready_is_not_lost(home: Home) -> None:
    """It may have listed the tools before it is counted among those that are notified."""
    with Agent(home, TOOLHUB_WATCH_SECONDS="0.02") as agent:
        agent.result(agent.greet())
        switch(home, "echo", False)
        agent.notify("notifications/initialized")
        agent.told(CHANGED)
        assert "echo" not in [tool["name"] for tool in agent.tools()]
        assert agent.silent(0.3)


def test_notifies_only_subscribers(home: Home) -> None:
    with Agent(home, MODERN, TOOLHUB_WATCH_SECONDS="0.02") as agent:
        agent.connect()
        agent.tools()
        switch(home, "echo", False)
        assert agent.silent(0.3)


# ---- one connection, many calls


def test_a_fast_call_overtakes_twenty_slow_ones(agent: Agent) -> None:
    begun = time.monotonic()
    slow = [agent.ask_tool(tool, seconds=0.5) for tool in ("nap", "block") for _ in range(10)]
    fast, listed = agent.ask_tool("echo", message="hi"), agent.ask("tools/list")
    assert {agent.next()["id"], agent.next()["id"]} == {fast, listed}
    assert {agent.next()["id"] for _ in slow} == set(slow)
    assert time.monotonic() - begun < 3, "one after the other would take ten seconds"


def test_an_id_in_progress_is_refused_and_changes_nothing(home: Home) -> None:
    with Agent(home, MODERN) as agent:
        agent.connect()
        first = agent.ask_tool("nap", seconds=0.5)
        agent.write(json.dumps({"jsonrpc": "2.0", "id": first, "method": "tools/list"}).encode() + b"\n")
        refused = agent.next()
        assert (refused["id"], refused["error"]["code"]) == (first, INVALID_REQUEST)
        assert "result" in agent.answer(first)
        agent.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert agent.next()["method"] == "notifications/subscriptions/acknowledged"


@ERAS
def test_a_call_that_is_cancelled_at_once_leaves_nothing(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        if era != MODERN:
            agent.notify("notifications/initialized")
        for _ in range(3):
            lines = agent.line("tools/call", {"name": "nap", "arguments": {"seconds": 5}}, 77)
            agent.write(lines + agent.line("notifications/cancelled", {"requestId": 77}))
            assert agent.silent(0.2)
        agent.write(agent.line("tools/call", {"name": "nap", "arguments": {"seconds": 0}}, 77))
        assert "result" in agent.answer(77)


@ERAS
def test_a_cancelled_call_is_not_answered_and_is_on_record(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        for tool in ("nap", "block"):
            number = agent.ask_tool(tool)
            assert eventually(lambda tool=tool: journal(home, tool) == ["started"])  # type: ignore[misc]
            agent.notify("notifications/cancelled", {"requestId": number, "reason": "changed my mind"})
            assert eventually(lambda tool=tool: journal(home, tool) == ["cancelled"])  # type: ignore[misc]
        agent.call("echo", message="still there")
        assert [message for message in agent.seen if "id" in message][-1]["id"] == number + 1
        assert "may not be recorded" not in agent.errors()


# ---- what does not belong on the wire


def test_only_the_protocol_is_on_stdout(home: Home) -> None:
    with Agent(home) as agent:
        agent.connect()
        agent.tools()
        assert texts(agent.call("noise")) == ["read: ''b''"]
        agent.leave()
        agent.rest()
        shown = agent.errors()
        for noise in (
            "printed at import",
            "written at import",
            "printed in a tool",
            "written in a tool",
            "written to the descriptor",
            "written by a child",
        ):
            assert noise in shown


def test_garbage_before_the_first_request_does_not_decide_the_era(shared: Home) -> None:
    with Agent(shared, MODERN) as agent:
        agent.write(b"nonsense\n" * 20 + b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 20)
        assert agent.connect()["supportedVersions"] == [MODERN]


def test_requests_before_the_handshake_are_refused_and_do_no_harm(shared: Home) -> None:
    with Agent(shared) as agent:
        assert agent.answer(agent.ask("tools/list"))["error"]["code"] == INVALID_PARAMS
        assert agent.answer(agent.ask_tool("echo", message="hi"))["error"]["code"] == INVALID_PARAMS
        agent.notify("notifications/initialized")
        assert "echo" in [tool["name"] for tool in agent.tools()], "that much of a handshake is enough"
        agent.connect()
        assert texts(agent.call("echo", message="hi")) == ['{"message":"hi"}']


# ---- the end


@ERAS
def test_ends_with_its_stdin_despite_running_calls(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        for tool in ("nap", "block"):
            agent.ask_tool(tool)
        assert eventually(lambda: journal(home, "nap") + journal(home, "block") == ["started"] * 2)
        code, seconds = agent.leave()
        assert code == 0
        assert seconds < 2
        assert journal(home, "nap") + journal(home, "block") == ["cancelled"] * 2


def test_ends_at_once_when_nothing_is_running(shared: Home) -> None:
    with Agent(shared) as agent:
        agent.connect()
        code, seconds = agent.leave()
        assert code == 0
        assert seconds < 0.5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_on_a_signal_despite_running_calls(home: Home, number: signal.Signals) -> None:
    with Agent(home) as agent:
        agent.connect()
        for tool in ("nap", "block", "stubborn"):
            agent.ask_tool(tool)
        assert eventually(
            lambda: [*journal(home, "nap"), *journal(home, "block"), *journal(home, "stubborn")] == ["started"] * 3
        )
        code, seconds = agent.signalled(number)
        assert code == 0
        assert seconds < 2
        assert journal(home, "nap") + journal(home, "block") == ["cancelled"] * 2
        assert "Traceback" not in agent.errors()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who waits for a lock")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_can_be_ended_during_setup(tmp_path: Path, number: signal.Signals) -> None:
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with Agent(Home(tmp_path)) as agent:
            waits = re.compile(rf"-> FLOCK .* {agent.process.pid} ")
            assert eventually(lambda: waits.search(Path("/proc/locks").read_text()) is not None, 5)
            code, seconds = agent.signalled(number)
            assert (code, agent.errors()) == (0, "")
            assert seconds < 2


def test_answers_what_was_asked_before_the_end(shared: Home) -> None:
    with Agent(shared) as agent:
        lines = agent.line("initialize", HELLO, 1) + agent.line("notifications/initialized")
        lines += agent.line("tools/list", {}, 2) + agent.line(
            "tools/call", {"name": "nap", "arguments": {"seconds": 0.05}}, 3
        )
        agent.write(lines.strip())
        assert agent.leave()[0] == 0
        assert {message["id"]: "result" in message for message in agent.rest()} == {1: True, 2: True, 3: True}


def test_works_between_files_and_without_any_input(shared: Home, tmp_path: Path) -> None:
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    questions.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}))
    command = [sys.executable, "-m", "toolhub", "runmcp"]
    for source, found in ((questions, [1]), (Path(os.devnull), [])):
        with source.open("rb") as stdin, answers.open("wb") as stdout:
            done = subprocess.run(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=shared.environment,
                cwd=CHECKOUT.anchor,
                timeout=10,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["id"] for line in answers.read_bytes().splitlines()] == found


def test_a_client_that_does_not_read_costs_little_and_can_still_leave(shared: Home) -> None:
    with Agent(shared, reading=False) as agent:
        agent.write(agent.line("initialize", HELLO, 1) + agent.line("notifications/initialized"))
        agent.stdout.readline()
        before = resident(agent)
        line = agent.line("tools/call", {"name": "large", "arguments": {"size": 70_000}}, 2)
        os.set_blocking(agent.stdin.fileno(), False)
        sent = 0
        while select.select([], [agent.stdin], [], 0.5)[1]:
            sent += os.write(agent.stdin.fileno(), line)
        assert 1_000_000 < sent < 10_000_000, "so much is read ahead, and no more"
        assert resident(agent) < before + 200_000_000
        code, seconds = agent.leave()
        assert code == 0
        assert seconds < 2


def resident(agent: Agent) -> int:
    pages = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# ---- the beginning


def test_sets_up_an_empty_home_by_itself(tmp_path: Path) -> None:
    with Agent(Home(tmp_path / "home")) as agent:
        assert "result" in agent.answer(agent.ask("initialize", HELLO), 60)
        agent.notify("notifications/initialized")
        assert [tool["name"] for tool in agent.tools()] == shipped.listed()


# ---- seen by operators


@ERAS
def test_an_agent_is_on_record_while_it_is_connected(home: Home, era: str) -> None:
    def there() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(home.database, timeout=5)) as database:
            columns = "a.door, a.era, a.protocol, a.client, a.calls, a.toolset, p.kind"
            join = "tools_app_agent a JOIN tools_app_process p ON p.id = a.process_id"
            return database.execute(f"SELECT {columns} FROM {join}").fetchall()  # noqa: S608

    change(home, toolset("talking", '["echo"]'))
    with Agent(home, era, arguments=["--toolset", "talking"]) as agent:
        agent.connect()
        agent.call("echo", message="hi")
        assert eventually(lambda: bool(there()), 5)
        [(door, kind, protocol, client, calls, limited, command)] = there()
        assert (door, kind, protocol) == ("stdio", "modern" if era == MODERN else "handshake", era)
        assert (client, calls, limited, command) == ("test", 1, "talking", "runmcp")
        agent.leave()
    assert there() == []
