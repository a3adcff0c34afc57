"""Connections in real processes: what one changes counts in the others, and no secret is left lying about."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import stores
from tests.support.agents import Agent
from tests.support.desk import TOOLS, Desk
from tests.support.processes import Home, Server, key_in
from tests.support.stores import Store
from tools_app.models import triggers

CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "home").mkdir(mode=0o700)
    with stores.fresh(tmp_path / "home") as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, store: Store) -> Home:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "desk.py").write_text(TOOLS.read_text())
    return Home(tmp_path / "home", {**store.environment, "TOOLHUB_TOOLS_DIR": str(tools), "LOG_LEVEL": "trace"})


@contextlib.contextmanager
def administrator(home: Home, server: Server) -> Iterator[httpx.Client]:
    made = home.run("addkey", "root", "--scope", "admin:*")
    with httpx.Client(
        base_url=server.url, headers={"X-API-Key": key_in(made.stdout)}, trust_env=False, timeout=30
    ) as client:
        yield client


def tools_of(agent: Agent) -> dict[str, list[str]]:
    return {tool["name"]: list(tool["inputSchema"]["properties"]) for tool in agent.tools() if "note" in tool["name"]}


def test_a_change_counts_in_every_process_and_its_secret_stays_where_it_is(
    home: Home, store: Store, desk: Desk, tmp_path: Path
) -> None:
    def made(name: str, **given: Any) -> dict[str, Any]:
        return {"name": name, "pack": "desk", "url": desk.url, "secret": f"key-of-{name}-1", **given}

    with home.serving() as server, administrator(home, server) as root:
        root.post("/v1/connections", json=made("ann")).raise_for_status()
        refused = home.run("runmcp", "--connection", "nobody")
        assert refused.stderr.strip().endswith("there is no connection 'nobody'; there are: ann, environment")
        with Agent(home, arguments=["--connection", "ann"]) as agent, Agent(home) as other:
            agent.connect()
            other.connect()
            assert tools_of(agent) == {"add_note": ["text"], "count_notes": [], "list_notes": []}
            assert tools_of(other) == {}
            assert agent.call("add_note", text="from the agent").get("isError") is False

            root.patch("/v1/connections/ann", json={"readOnly": True}).raise_for_status()
            agent.told(CHANGED)
            assert set(tools_of(agent)) == {"count_notes", "list_notes"}
            failed = agent.call("add_note", text="too late")
            assert failed["isError"] is True
            assert failed["_meta"]["toolhub/error"]["context"] == {"reason": "the connection ann is read-only"}
            assert agent.call("list_notes")["content"][0]["text"] == '{"notes":["from the agent"]}'

            # A new one is nothing to those who have others.
            root.post("/v1/connections", json=made("bob")).raise_for_status()
            assert set(tools_of(agent)) == {"count_notes", "list_notes"}
            root.patch("/v1/connections/ann", json={"secret": "key-of-bob-1"}).raise_for_status()
            assert agent.call("list_notes")["content"][0]["text"] == '{"notes":[]}'
            assert other.silent(0.1)
            told = [agent.errors(), other.errors(), *server.output, *server.errors]
    assert desk.notes == {"ann": ["from the agent"], "bob": [], "env": []}

    (tmp_path / "key").write_text("key-of-env-1")
    own = {"DESK_URL": desk.url, "DESK_KEY_FILE": str(tmp_path / "key")}
    printed = home.run("connect", "generic", "--connection", "bob", "--print", **own)
    assert printed.returncode == 0, printed.stderr
    written = next(iter(json.loads(printed.stdout)["mcpServers"].values()))
    assert written["args"][-2:] == ["--connection", "bob"]
    assert own.items() <= written["env"].items()

    done = home.run("calltool", "add_note", '{"text": "from the shell"}', "--connection", "bob")
    assert (done.returncode, desk.notes["bob"]) == (0, ["from the shell"])
    refused = home.run("calltool", "list_notes")
    assert refused.returncode == 3
    assert "--connection" in refused.stderr

    for text in [*told, done.stdout, done.stderr, *dumped(store, home.path)]:
        for secret in ("key-of-ann-1", "key-of-bob-1"):
            assert secret not in text


def dumped(store: Store, home: Path) -> Iterator[str]:
    """Everything that the database holds, and every file of the home."""
    tables = [
        *triggers.WATCHED,
        "tools_app_call",
        "tools_app_auditentry",
        "tools_app_errorlog",
        "tools_app_idempotencykey",
    ]
    for table in tables:
        for row in store.query(f"SELECT * FROM {table}"):  # noqa: S608
            yield str([bytes(value) if isinstance(value, memoryview) else value for value in row])
    for file in home.rglob("*"):
        if file.is_file():
            yield file.read_bytes().decode("latin-1")
