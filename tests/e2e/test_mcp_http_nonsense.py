"""`/mcp` and what no honest client sends: it is refused in JSON, breaks nothing, and leaves nothing behind."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typing_extensions import TypeIs

from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent, answer
from tests.support.nonsense import STORED, Nasty, Nonsense, answered_as
from tests.support.processes import Home, Server, key_in

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    unlimited = {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"}
    made = Home(tmp_path_factory.mktemp("nonsense") / "home", unlimited)
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def agent(home: Home, server: Server, request: pytest.FixtureRequest) -> Iterator[HttpAgent]:
    with HttpAgent(server.url, key_in(home.run("addkey", request.param).stdout), request.param) as made:
        made.connect()
        yield made


def sent(agent: HttpAgent, body: bytes) -> httpx.Response:
    """Send a body with the headers that go with it, as far as there are such."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    told: dict[str, str] = {}
    if isinstance(message, dict):
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        told = {key: text for key, text in (("mcp_method", message.get("method")), ("mcp_name", name)) if _fits(text)}
    return agent.send_raw(body, **({} if agent.era == LEGACY else told))


def _fits(text: object) -> TypeIs[str]:
    return isinstance(text, str) and text.isascii() and text.isprintable() and text == text.strip()


@pytest.mark.parametrize("nasty", STORED, ids=lambda nasty: nasty.what)
def test_a_body_that_is_no_message_is_refused(agent: HttpAgent, nasty: Nasty) -> None:
    refused = sent(agent, nasty.line)
    assert refused.status_code == 400
    error = refused.json()
    assert (error["id"], error["error"]["code"]) == (nasty.request_id, nasty.code)


@pytest.mark.parametrize("count", [500, pytest.param(5_000, marks=pytest.mark.mcp)])
def test_every_body_gets_its_answer(agent: HttpAgent, server: Server, count: int) -> None:
    before = resident(server)
    for body in Nonsense(agent.era, seed=count).lines(count):
        response = sent(agent, body)
        assert response.status_code < 500, body
        if response.status_code == 202:
            assert answered_as(body) is None
            continue
        message = answer(response)
        assert ("result" in message) != ("error" in message)
        if response.status_code == 200:
            assert json.dumps(message["id"]) == answered_as(body)
    assert "echo" in agent.names()
    assert resident(server) < before + 50 * MIB
    assert "Traceback" not in "".join(server.errors)


def resident(server: Server) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
