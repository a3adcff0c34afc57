"""examples/toolhub-postgres, installed as outsiders install it: the entry point is all that the hub knows of it."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.agents import Agent
from tests.support.processes import CHECKOUT, Home, key_in
from tests.support.tools import eventually

pytestmark = pytest.mark.e2e

SERVER = os.environ.get("TOOLHUB_TEST_POSTGRES_URL", "").replace("postgres://", "postgresql://", 1)
NAMES = {"query", "explain", "list_tables", "describe_table"}
ENDLESS = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT count(*) FROM r"
SQL = {"sql": "SELECT $1::int * 2 AS doubled", "parameters": ["21"]}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python in which pip has built and installed the folder. All else it has from this environment."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join([*site.getsitepackages(), str(CHECKOUT)]))
    source = shutil.copytree(CHECKOUT / "examples" / "toolhub-postgres", folder / "source")
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    # Without an index: what it requires is there.
    command += ["--no-index", "--no-deps", "--no-build-isolation", str(source)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(source)
    return str(interpreter)


@pytest.fixture
def home(python: str, tmp_path: Path) -> Home:
    if not SERVER:
        pytest.skip("TOOLHUB_TEST_POSTGRES_URL names no PostgreSQL")
    return Home(tmp_path / "home", {"POSTGRES_URL": SERVER}, python, patience=120)


def statements() -> int:
    """How many statements of agents run on the server."""
    with psycopg.connect(SERVER) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'toolhub' AND state = 'active' AND query LIKE 'FETCH%\"rows\"%'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_an_installed_pack_is_served_and_governed_like_any_other(home: Home) -> None:
    where = home.python("import toolhub_postgres; print(toolhub_postgres.__file__)").stdout
    assert "site-packages" in where, where
    with (
        home.serving() as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client,
    ):
        client.headers["X-API-Key"] = key_in(home.run("addkey", "agent").stdout)
        listed = client.get("/v1/tools", params={"limit": 100}).raise_for_status().json()
        assert {tool["name"] for tool in listed["tools"]} >= NAMES

        called = client.post("/v1/tools/call", json={"name": "query", "parameters": SQL}).raise_for_status().json()
        result = called["result"]
        assert (json.loads(result) if isinstance(result, str) else result) == {
            "columns": [{"name": "doubled", "type": "integer"}],
            "rows": [[42]],
        }
        assert called["untrusted"] is True

        refused = client.post("/v1/tools/call", json={"name": "query", "parameters": {"sql": "DROP TABLE x"}})
        assert (refused.status_code, refused.json()["code"]) == (422, "UPSTREAM_VALIDATION")
        assert 'syntax error at or near "DROP"' in refused.json()["error"]

        with Agent(home) as agent:
            agent.connect()
            assert {tool["name"] for tool in agent.tools()} >= NAMES
            answer = agent.call("query", **SQL)
            assert json.loads(answer["content"][0]["text"])["rows"] == [[42]]
            assert not answer.get("isError")

            endless = agent.ask_tool("query", sql=ENDLESS)
            assert eventually(lambda: statements() == 1)
            agent.notify("notifications/cancelled", {"requestId": endless})
            # Long before the deadline of the call.
            assert eventually(lambda: statements() == 0, 15)

        operator = {"X-API-Key": key_in(home.run("addkey", "operator", "--scope", "admin:*").stdout)}
        for is_enabled, status in ((False, 403), (True, 200)):
            client.patch("/v1/tools/query", json={"enabled": is_enabled}, headers=operator).raise_for_status()
            called = client.post("/v1/tools/call", json={"name": "query", "parameters": SQL})
            assert called.status_code == status

        calls = client.get("/v1/calls", params={"tool": "query"}, headers=operator).raise_for_status().json()["calls"]
        assert Counter((call["door"], call["code"], call["status"]) for call in calls) == {
            ("mcp", None, "succeeded"): 1,
            ("mcp", None, "cancelled"): 1,
            ("rest", None, "succeeded"): 2,
            ("rest", "UPSTREAM_VALIDATION", "refused"): 1,
            ("rest", "TOOL_DISABLED", "refused"): 1,
        }
    # An operator is told that this role may do more than read.
    assert [line for line in server.errors if "POSTGRES_URL should name a role that can only read" in line]

    assert home.run("checktools", "query", "explain", "list_tables", "describe_table").returncode == 0
