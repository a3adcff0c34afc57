"""An answer that is too large for an agent, through every channel: the same outline, read in full by other processes,
but not by other callers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.processes import Home, Server, key_in

TOOLS = '''
from pydantic import BaseModel
from toolhub import Hints, tool

class Row(BaseModel):
    id: int
    text: str

class Rows(BaseModel):
    total: int
    rows: list[Row]

@tool(hints=Hints(read_only=True))
def rows(count: int) -> Rows:
    """List rows."""
    return Rows(total=count, rows=[Row(id=number, text=f"row {number}") for number in range(count)])
'''
COUNT = 5_000
EXPECTED = [{"id": number, "text": f"row {number}"} for number in range(COUNT)]

# Takes a tool and its arguments; gives the answer, or the code of the error.
Door = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    directory: Path = tmp_path_factory.mktemp("large")
    (directory / "tools").mkdir()
    (directory / "tools" / "large.py").write_text(TOOLS)
    made = Home(directory / "home", {"TOOLHUB_TOOLS_DIR": str(directory / "tools")})
    # An agent would wait for the first start, which makes a database, longer than its patience lasts here.
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as server:
        yield server


def new_key(home: Home, name: str) -> str:
    return key_in(home.run("addkey", name).stdout)


@contextmanager
def rest(server: Server, key: str) -> Iterator[Door]:
    with httpx.Client(headers={"X-API-Key": key}, trust_env=False, timeout=30) as client:

        def call(name: str, **arguments: Any) -> Any:
            body = client.post(f"{server.url}/v1/tools/{name}/call", json=arguments).json()
            return body["result"] if body["success"] else body["code"]

        yield call


@contextmanager
def http(server: Server, key: str, era: str) -> Iterator[Door]:
    with HttpAgent(server.url, key, era) as agent:
        agent.connect()
        yield lambda name, **arguments: told(
            answer(agent.send(agent.message("tools/call", {"name": name, "arguments": arguments})))["result"]
        )


@contextmanager
def stdio(home: Home) -> Iterator[Door]:
    with Agent(home) as agent:
        agent.connect()
        yield lambda name, **arguments: told(agent.call(name, **arguments))
        agent.leave()


def command(home: Home) -> Door:
    def call(name: str, **arguments: Any) -> Any:
        done = home.run("calltool", name, json.dumps(arguments))
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    return call


def told(result: dict[str, Any]) -> Any:
    if result["isError"]:
        return result["_meta"]["toolhub/error"]["code"]
    return json.loads(result["content"][0]["text"])


def without_id(outline: dict[str, Any]) -> str:
    bare = re.sub(outline["outline"]["id"], "…", json.dumps(outline))
    return re.sub(r'"expiresAt": "[^"]+"', "", bare)


def read(call: Door, outline: dict[str, Any]) -> list[Any]:
    """All rows, by following what each page says is the next call."""
    found, example = [], outline["_guidance"]["example"]
    while example is not None:
        page = call(example["name"], **example["arguments"])
        assert len(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()) <= 75_000
        found += page["items"]
        example = page.get("_guidance", {}).get("example")
    return found


def test_every_door_gives_the_same_outline_and_reads_what_another_kept(home: Home, server: Server) -> None:
    key = new_key(home, "reader")
    with rest(server, key) as by_rest, http(server, key, LEGACY) as legacy, http(server, key, MODERN) as modern:
        outlines = [call("rows", count=COUNT) for call in (by_rest, legacy, modern)]
        assert read(modern, outlines[0]) == read(legacy, outlines[2]) == read(by_rest, outlines[1]) == EXPECTED
    with stdio(home) as agent:
        outlines += [agent("rows", count=COUNT), command(home)("rows", count=COUNT)]
        assert read(agent, outlines[4]) == EXPECTED, "kept by one process, and read by another"
        page = command(home)("read_result", id=outlines[3]["outline"]["id"], pointer=f"/rows/{COUNT - 1}")
        assert page["items"] == EXPECTED[-1]
    assert len({without_id(outline) for outline in outlines}) == 1


def test_other_callers_cannot_read_it_through_any_channel(home: Home, server: Server) -> None:
    with rest(server, new_key(home, "owner")) as owner:
        kept = owner("rows", count=COUNT)["outline"]["id"]
    other = new_key(home, "other")
    with rest(server, other) as by_rest, http(server, other, LEGACY) as legacy, http(server, other, MODERN) as modern:
        for call in (by_rest, legacy, modern):
            assert call("read_result", id=kept) == call("read_result", id="0" * 32) == "ANSWER_NOT_FOUND"
    with stdio(home) as agent:
        assert agent("read_result", id=kept) == "ANSWER_NOT_FOUND"
    assert f"Answer not found: {kept}" in command(home)("read_result", id=kept)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_what_clients_check_answers_against_takes_the_outline(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        listed = next(tool for tool in agent.tools() if tool["name"] == "rows")["outputSchema"]
        check = jsonschema_rs.validator_for(listed)
        small, large = agent.call("rows", count=1), agent.call("rows", count=COUNT)
        assert small["structuredContent"] == {"total": 1, "rows": EXPECTED[:1]}
        assert "outline" in large["structuredContent"]
        assert json.loads(large["content"][0]["text"]) == large["structuredContent"]
        assert check.is_valid(small["structuredContent"])
        assert check.is_valid(large["structuredContent"])
        assert not check.is_valid({"rows": "none"})
        agent.leave()


def test_a_caller_can_ask_for_less(home: Home, server: Server) -> None:
    key = new_key(home, "modest")
    headers = {"X-API-Key": key}
    with httpx.Client(headers=headers, trust_env=False, base_url=server.url, timeout=30) as client:
        whole = client.post("/v1/tools/rows/call", json={"count": 200}).json()["result"]
        short = client.post("/v1/tools/rows/call?answerTokens=1000", json={"count": 200}).json()["result"]
        body = {"name": "rows", "parameters": {"count": 200}, "options": {"answerTokens": 1000}}
        again = client.post("/v1/tools/call", json=body).json()["result"]
        refused = client.post("/v1/tools/rows/call?answerTokens=999", json={"count": 200})
    assert len(whole["rows"]) == 200
    assert short["outline"]["id"] == again["outline"]["id"]
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    with HttpAgent(server.url, key, MODERN) as agent:
        agent.connect()
        message = agent.message("tools/call", {"name": "rows", "arguments": {"count": 200}})
        message["params"].setdefault("_meta", {})["toolhub/answerTokens"] = 1_000
        assert "outline" in told(answer(agent.send(message))["result"])
    done = home.run("calltool", "rows", '{"count": 200}', "--answer-tokens", "1000")
    assert "outline" in json.loads(done.stdout)
