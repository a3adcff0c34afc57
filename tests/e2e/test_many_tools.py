"""A hub with thousands of tools: a key rebuilds no catalog, and a sync does not hold up the calls of others."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.agents import Agent
from tests.support.installed import home_with, installed, many_tools
from tests.support.processes import Home
from tests.support.stores import SQLiteStore

TOOLS = 2_000
TIMES = 5
# What is aimed at is 0.1 s, which `benchmarks/catalog.py` measures; a busy machine takes longer for one commit.
LONGEST_WAIT = 1.0
# Less than it takes to build a catalog of these tools, and more than to read the keys.
REBUILD_SECONDS = 0.02
UNLIMITED = {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"}


def seconds_of_echo(agent: Agent) -> float:
    begin = time.perf_counter()
    assert agent.call("echo", message="hi")["isError"] is False
    return time.perf_counter() - begin


def test_a_key_that_is_made_or_revoked_rebuilds_no_catalog(tmp_path: Path) -> None:
    home = home_with(installed(tmp_path / "installed", "many_pack", many_tools(TOOLS)), tmp_path / "home")
    assert home.run("addkey", "changing").returncode == 0
    store = SQLiteStore(home.database)
    # The process looks for changes so seldom that the next call is what notices one.
    with Agent(home, TOOLHUB_WATCH_SECONDS="60") as agent:
        agent.connect()
        seconds_of_echo(agent)

        unchanged = min(seconds_of_echo(agent) for _ in range(TIMES))
        after_key = []
        for _ in range(TIMES):
            for revoked_at in ("'2026-01-02'", "NULL"):
                store.query(f"UPDATE tools_app_apikey SET revoked_at = {revoked_at} WHERE name = 'changing'")  # noqa: S608
                after_key.append(seconds_of_echo(agent))
    assert min(after_key) < unchanged + REBUILD_SECONDS, (min(after_key), unchanged)


def test_a_sync_of_many_new_tools_does_not_hold_up_calls(tmp_path: Path) -> None:
    """The caller is another process with another configuration, on the same database."""
    home = Home(tmp_path / "home", dict(UNLIMITED))
    assert home.run("synctools").returncode == 0
    pack = installed(tmp_path / "installed", "many_pack", many_tools(TOOLS))
    with Agent(home) as agent:
        agent.connect()
        seconds_of_echo(agent)
        sync = home.start("synctools", **pack.environment)
        waits = []
        while sync.poll() is None:
            waits.append(seconds_of_echo(agent))
            time.sleep(0.002)
        output, errors = sync.communicate()
    assert sync.returncode == 0, errors
    assert f"{TOOLS} new" in output
    assert max(waits) < LONGEST_WAIT
    ((recorded,),) = SQLiteStore(home.database).query(
        "SELECT count(*) FROM tools_app_toolrecord WHERE pack = 'many' AND retired_at IS NULL"
    )
    assert recorded == TOOLS
