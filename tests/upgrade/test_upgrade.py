"""`toolhub serve` finds the hub of an earlier version: nothing is lost, and what callers have begun continues."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.agents import Agent
from tests.support.processes import CHECKOUT, Server, free_port
from tests.support.stores import POSTGRES, SQLiteStore, Store
from tests.support.updates import FAILED, failing_app, schema_of
from tests.upgrade import contents, filling
from tests.upgrade.base import Unavailable, base_commit, require_commit
from tests.upgrade.filling import OldHub, ask, call, listed, pay

MANY: Final = pytest.param(100_000, marks=pytest.mark.upgrade)
FEW: Final = pytest.param(300, marks=pytest.mark.e2e)

only_many = pytest.mark.parametrize("calls", [MANY], indirect=True)


@pytest.mark.parametrize("calls", [FEW, MANY], indirect=True)
def test_serve_upgrades_a_hub_and_loses_nothing(hub: OldHub, calls: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents.contents_of(hub.store)
    assert [table for table in contents.EXPECTED_TABLES if not before.tables.get(table)] == []
    assert len(before.tables["tools_app_call"]) >= calls
    plain, bytes_before = filling.plain_secrets(hub.old), hub.store.size()
    with Agent(hub.old) as old_agent:
        old_agent.connect()
        tools = old_agent.tools()
        begun = time.monotonic()
        with hub.new.serving() as server:
            seconds, bytes_after = time.monotonic() - begun, hub.store.size()
            after = contents.contents_of(hub.store)
            differences = [
                *contents.lost(before, after),
                # The demo invents a definition of its own.
                *sorted(set(contents.wrong_hashes(after)) - set(contents.wrong_hashes(before))),
                *figures_that_differ(hub.store),
            ]
            assert differences == []
            assert filling.plain_secrets(hub.new) == plain
            assert "unchanged" in hub.new.run("synctools").stdout
            agents_see_the_same(hub, old_agent, tools)
            callers_continue(hub, server)
    begun = time.monotonic()
    with hub.new.serving():
        again = time.monotonic() - begun
    with capsys.disabled():
        rows = sum(map(len, before.tables.values()))
        print(
            f"\nupgrade of {rows:,} rows with {len(before.tables['tools_app_call']):,} calls on "
            f"{'PostgreSQL' if POSTGRES else 'SQLite'}: ready after {seconds:.1f} s (a start without an upgrade: "
            f"{again:.1f} s), {bytes_before / 1e6:.0f} MB before, {bytes_after / 1e6:.0f} MB after"
        )


def agents_see_the_same(hub: OldHub, old_agent: Agent, tools: list[dict[str, Any]]) -> None:
    with Agent(hub.new) as agent:
        agent.connect()
        # Shipped tools of this version have other texts, and lists are lean (decision 78).
        assert names_of(agent.tools()) == names_of(tools)
    # A process of the last release keeps working: it is not restarted at the same moment.
    assert names_of(old_agent.tools()) == names_of(tools)
    assert not old_agent.call("echo", message="hi").get("isError")


def names_of(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools]


def callers_continue(hub: OldHub, server: Server) -> None:
    begun, paid = hub.begun, hub.paid()
    assert listed(server, begun.narrow) == begun.reached
    assert call(server, begun.narrow, "pay", amount=1)["code"] == "TOOL_NOT_FOUND"
    assert call(server, begun.revoked, "echo", message="hi")["code"] == "AUTHENTICATION_ERROR"
    for key, reply in begun.replies.items():
        again = pay(server, begun.agent, int(key.split()[1]), key=key)
        assert (again["callId"], again["result"]) == (reply["callId"], reply["result"])
    assert hub.paid() == paid
    ask(server, begun.boss, "POST", f"/v1/approvals/{begun.pending}/approve", {"reason": "after the upgrade"})
    for amount, approval in ((100, begun.approved), (200, begun.pending)):
        assert pay(server, begun.agent, amount, approval=approval)["success"]
        assert not pay(server, begun.agent, amount, approval=approval)["success"], "an approval was used twice"
    assert hub.paid() == [*paid, "100", "200"]
    connections = ask(server, begun.boss, "GET", "/v1/connections")["connections"]
    assert [one["fault"] for one in connections] == [None] * 3
    held_tools_wait(server, begun.boss)


def held_tools_wait(server: Server, boss: str) -> None:
    """Until an operator approves them."""
    waiting = ask(server, boss, "GET", "/v1/definitions?state=waiting")["definitions"]
    assert sorted(one["tool"] for one in waiting) == ["count", "reverse"]
    for name in ("count", "reverse"):
        assert not call(server, boss, name, text="abc")["success"]
    for one in waiting:
        ask(server, boss, "POST", f"/v1/definitions/{one['id']}/approve", {})
    assert [call(server, boss, name, text="abc")["result"] for name in ("count", "reverse")] == [3, "cba"]


def figures_that_differ(store: Store) -> list[str]:
    """Figures of hours and days that do not come to the calls that are on record."""
    counted = store.counted()
    return [f"{name}: {sorted(counted[name] ^ counted['calls'])[:5]}" for name in ("hours", "days")
            if counted[name] != counted["calls"]]  # fmt: skip


@only_many
def test_a_failed_update_leaves_everything_as_it_was(hub: OldHub, tmp_path: Path) -> None:
    before, schema = contents.everything_in(hub.store), schema_of(hub.store)
    done = hub.new.run("serve", "--port", str(free_port()), **failing_app(tmp_path / "app"))
    assert done.returncode != 0
    assert FAILED in done.stderr
    assert contents.everything_in(hub.store) == before
    assert schema_of(hub.store) == schema
    old_version_serves(hub)


@only_many
def test_the_earlier_version_is_refused_and_the_copy_of_before_brings_it_back(hub: OldHub) -> None:
    before = contents.everything_in(hub.store)
    with hub.new.serving():
        pass
    for command in (("serve", "--port", str(free_port())), ("listkeys",)):
        done = hub.old.run(*command)
        assert done.returncode == 2
        assert "created by a later version of ToolHub" in done.stderr
    if isinstance(hub.store, SQLiteStore):
        (copy,) = (hub.old.path / "backups").glob("toolhub-*.sqlite3")
        copy.rename(hub.store.path)
        assert contents.everything_in(hub.store) == before
        old_version_serves(hub)


def old_version_serves(hub: OldHub) -> None:
    with hub.old.serving() as server:
        assert call(server, hub.begun.agent, "echo", message="hi")["success"]


def test_the_base_to_upgrade_from_is_a_commit_before_this_one() -> None:
    assert len(base_commit()) == 40
    try:
        require_commit()
    except Unavailable as error:
        pytest.skip(str(error))
    ancestor = ["git", "merge-base", "--is-ancestor", base_commit(), "HEAD"]
    assert subprocess.run(ancestor, cwd=CHECKOUT, check=False).returncode == 0
