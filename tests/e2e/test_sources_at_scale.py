"""Many sources outside, and bad ones among them: the others work as before, and nothing is started twice."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import crowd
from tests.support.agents import Agent
from tests.support.crowd import TOOLSET
from tests.support.http_agents import HttpAgent
from tests.support.hubs import Answer, Client
from tests.support.processes import Home, Server, key_in
from tests.support.stores import SQLiteStore

SOURCES = 10
AT_ONCE = 8
PATIENCE = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"})
    assert made.run("synctools").returncode == 0
    return made


def call(server: Server, key: str, tool: str, **parameters: object) -> Answer:
    client = Client(server.port, key, PATIENCE)
    try:
        return client.call(tool, 1, **parameters)
    finally:
        client.close()


def listed(server: Server, key: str) -> bytes:
    with HttpAgent(server.url, key) as agent:
        agent.connect()
        return agent.send(agent.message("tools/list", {})).content


def key_of(home: Home) -> str:
    return key_in(home.run("addkey", "agent", *TOOLSET).stdout)


def words(answer: Answer) -> str:
    found = re.search(r"begin\]\n\n(.*)\n\n\[", answer.body["result"][0]["text"])
    assert found is not None, answer
    return found[1]


def test_bad_servers_cost_only_their_own_tools(home: Home, tmp_path: Path) -> None:
    with crowd.servers(tmp_path, SOURCES) as servers:
        crowd.add(home, servers.urls())
        key = key_of(home)
        with home.serving() as server:
            before = listed(server, key)
        assert before.count(b"_echo") >= SOURCES
        servers.become(dict(enumerate(crowd.BAD)))
        # Less than the late one needs.
        with home.serving(TOOLHUB_TIMEOUT_MS="10000") as server:
            assert listed(server, key) == before
            with ThreadPoolExecutor(len(crowd.BAD)) as pool:
                bad = [pool.submit(call, server, key, f"http{n}_echo") for n in range(len(crowd.BAD))]
                for number in range(len(crowd.BAD), SOURCES):
                    for _ in range(5):
                        assert words(call(server, key, f"http{number}_echo", text="here")) == "here"
                codes = [one.result().code for one in bad]
            assert all(codes), codes
            assert "OUTCOME_UNKNOWN" not in codes
            assert listed(server, key) == before
        # What was bad is good again: nothing is remembered against it by the next process.
        servers.become(dict.fromkeys(range(len(crowd.BAD)), crowd.GOOD))
        with home.serving() as server:
            for number in range(SOURCES):
                assert words(call(server, key, f"http{number}_echo", text="here")) == "here"


def test_cold_programs_are_listed_without_them_and_started_few_at_a_time(home: Home, tmp_path: Path) -> None:
    programs = crowd.Programs.of(tmp_path, start_seconds=0.3)
    sources = SOURCES + 2
    crowd.add(home, programs.commands(sources))
    key = key_of(home)
    crowd.ended(home)
    programs.log.write_text("")
    lists = set()
    for _ in range(2):
        with Agent(home, arguments=TOOLSET) as agent:
            agent.connect()
            assert len([tool for tool in agent.tools() if tool["name"].startswith("child")]) == 3 * sources
            lists.add(agent.raw[-1])
    with home.serving() as server:
        lists_over_http = {listed(server, key)}
        assert programs.noted("begun") == [], "a list starts nothing"
        with ThreadPoolExecutor(sources) as pool:
            answers = list(pool.map(lambda n: call(server, key, f"child{n}_count"), range(sources)))
        assert Counter(answer.code for answer in answers) == {"": sources}
        assert len({words(answer).split()[0] for answer in answers}) == sources
        assert len(programs.noted("begun")) == sources
        assert 1 < programs.most_at_once() <= AT_ONCE
        lists_over_http.add(listed(server, key))
    assert len(lists) == len(lists_over_http) == 1


def test_three_processes_share_one_program_and_outlive_its_supervisor(home: Home, tmp_path: Path) -> None:
    programs = crowd.Programs.of(tmp_path)
    crowd.add(home, programs.commands(1))
    key = key_of(home)
    crowd.ended(home)
    programs.log.write_text("")
    with ExitStack() as stack:
        server = stack.enter_context(home.serving())
        agents = [stack.enter_context(Agent(home, arguments=TOOLSET)) for _ in range(2)]
        for agent in agents:
            agent.connect()

        def over_stdio(agent: Agent) -> list[str]:
            return [str(agent.call("child0_count")) for _ in range(3)]

        with ThreadPoolExecutor(3) as pool:
            told = [pool.submit(over_stdio, agent) for agent in agents]
            counted = {int(words(call(server, key, "child0_count")).split()[1]) for _ in range(3)}
            for one in told:
                counted |= {int(match[1]) for text in one.result() if (match := re.search(r"\d+ (\d+)\\n", text))}
        assert counted == set(range(1, 10))
        assert len(programs.noted("begun")) == 1

        writes: list[Answer] = []
        writer = threading.Thread(
            target=lambda: writes.append(call(server, key, "child0_work", text="once", seconds=PATIENCE))
        )
        writer.start()
        crowd.until(lambda: len(programs.noted("working")) == 1)
        pid = crowd.supervisor_of(home)
        os.kill(pid, signal.SIGKILL)
        crowd.until(lambda: not Path(f"/proc/{pid}").exists())
        writer.join(PATIENCE)
        assert writes[0].code == "OUTCOME_UNKNOWN"
        assert writes[0].body["retryable"] is False
        rows = SQLiteStore(home.database).query(
            "SELECT status, code FROM tools_app_call WHERE tool_name = 'child0_work'"
        )
        # Not `interrupted`: the hub lives, and has answered.
        assert rows == [("failed", "OUTCOME_UNKNOWN")]
        # The same processes, with another program.
        assert words(call(server, key, "child0_count")).endswith(" 1")
        for agent in agents:
            assert agent.call("child0_count")["isError"] is False
        assert len(programs.noted("begun")) == 2
        assert len(programs.noted("working")) == 1, "nothing runs twice"
