"""What many tools cost: the start of a process, lists, searches and calls, and a sync beside calls of another process.

    python benchmarks/catalog.py [--tools 10000] [--new-tools 2000] [--postgres postgres://…] [--sync-only] [--json]

The tools are a generated pack of a hub of its own. A hub with the shipped packs alone is measured in the same run.
Whole processes over stdio; the client reads and parses what it gets. Compare within one run only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.agents import Agent
from tests.support.installed import environment_with, installed, many_tools
from tests.support.processes import Home
from tests.support.stores import PostgresStore, SQLiteStore, Store, created

UNLIMITED = {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0", "LOG_LEVEL": "error"}
# The longest: otherwise the process itself looks for changes before a call does.
WATCH_SECONDS = "60"
PATIENCE = 300.0

# Milliseconds (bytes, where the name says so) by what was measured.
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--new-tools", type=int, default=2_000)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--postgres", metavar="URL", help="also with databases on this server, which are made for it")
    parser.add_argument("--sync-only", action="store_true", help="only the sync beside calls")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    stores = {"SQLite": None} | ({"PostgreSQL": options.postgres} if options.postgres else {})
    results: dict[str, Any] = {"load": os.getloadavg()}
    for database, server in stores.items():
        with tempfile.TemporaryDirectory() as folder:
            small, large = {}, {}
            if not options.sync_only:
                small = catalog_of(Path(folder) / "small", 0, server, options.starts)
                large = catalog_of(Path(folder) / "large", options.tools, server, options.starts)
            waits = sync_beside_calls(Path(folder) / "sync", options.new_tools, server)
        results[database] = {"0": small, str(options.tools): large, f"sync of {options.new_tools}": waits}
        if not options.json:
            load = os.getloadavg()[0]
            print(f"\n{database}, load {load:.1f}: ms with the shipped packs, ms with {options.tools:,} tools more")
            for name, value in large.items():
                print(f"{name:60}{small.get(name, 0):12,.1f}{value:12,.1f}")
            print(f"\n{database}: `echo` of another process while {options.new_tools:,} new tools are synced")
            for name, value in waits.items():
                print(f"{name:60}{value:12,.1f}")
    if options.json:
        print(json.dumps(results, indent=1))


# ---- a catalog


def catalog_of(folder: Path, tools: int, server: str | None, starts: int) -> Figures:
    figures: Figures = {}
    with hub(folder, tools, server) as (home, store):
        for run in ("first", "unchanged"):
            figures[f"synctools, {run}"] = milliseconds(lambda: run_command(home, "synctools"))
        initialized, listed = [], []
        for _ in range(starts):
            with Agent(home) as agent:
                agent.connect(PATIENCE)
                initialized.append(1000 * (time.monotonic() - agent.begun))
                agent.result(agent.ask("tools/list"), PATIENCE)
                listed.append(1000 * (time.monotonic() - agent.begun))
        figures["runmcp, to initialize"] = statistics.median(initialized)
        figures["runmcp, to the first page of the list"] = statistics.median(listed)
        with Agent(home, TOOLHUB_WATCH_SECONDS=WATCH_SECONDS) as agent:
            agent.connect(PATIENCE)
            figures["first page, p50"] = p50(lambda: agent.result(agent.ask("tools/list"), PATIENCE), 20)
            figures["whole list, p50"] = p50(lambda: whole_list(agent), 5)
            figures["whole list, bytes"] = len(json.dumps(whole_list(agent)))
            figures |= calls_after_changes(agent, home, store)
        with Agent(home, TOOLHUB_LIST_MODE="search", TOOLHUB_WATCH_SECONDS=WATCH_SECONDS) as agent:
            agent.connect(PATIENCE)
            figures["search mode: list, p50"] = p50(lambda: agent.result(agent.ask("tools/list"), PATIENCE), 20)
            figures["search mode: first search"] = milliseconds(lambda: search(agent, "echo a message"))
            figures["search mode: search, p50"] = p50(lambda: search(agent, "compare invoices of branch 77"), 20)
            figures["memory, megabytes"] = resident_megabytes(agent.process.pid)
    return figures


def calls_after_changes(agent: Agent, home: Home, store: Store) -> Figures:
    """A change is noticed by the next call: what it costs that call."""
    run_command(home, "addkey", "changing")
    changes = {
        "nothing changed": "",
        "a key was revoked or made": "UPDATE tools_app_apikey SET revoked_at = {time} WHERE name = 'changing'",
        "a tool was switched": "UPDATE tools_app_toolrecord SET enabled = NOT enabled WHERE name = 'calculate'",
    }
    figures = {}
    for change, statement in changes.items():
        samples = []
        for number in range(6):
            if statement:
                store.query(statement.format(time=f"'2026-01-0{number + 1}'" if number % 2 else "NULL"))
            samples.append(milliseconds(lambda: echo(agent)))
        # The first one also compiles the schema.
        figures[f"a call after {change}, p50"] = statistics.median(samples[1:])
    return figures


# ---- a sync beside calls


def sync_beside_calls(folder: Path, tools: int, server: str | None) -> Figures:
    """The caller has none of the new tools; both processes write to the same database."""
    with hub(folder, 0, server) as (home, _):
        run_command(home, "synctools")
        (folder / "new").mkdir()
        pack = installed(folder / "new", "many_pack", many_tools(tools))
        with Agent(home) as agent:
            agent.connect(PATIENCE)
            before = [milliseconds(lambda: echo(agent)) for _ in range(300)]
            command = [sys.executable, "-m", "toolhub", "synctools"]
            environment = {**home.environment, **pack.environment}
            begin = time.monotonic()
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sync:
                during = []
                while sync.poll() is None:
                    during.append(milliseconds(lambda: echo(agent)))
                    time.sleep(0.002)
                seconds = time.monotonic() - begin
                output, errors = sync.communicate()
            if sync.returncode:
                raise RuntimeError(errors.decode())
            assert f"{tools} new".encode() in output, output
    return {
        "before: p50": statistics.median(before),
        "before: longest": max(before),
        "during: p50": statistics.median(during),
        "during: longest": max(during),
        "during: number of calls": len(during),
        "the sync itself": 1000 * seconds,
    }


# ---- hubs, requests and figures


@contextlib.contextmanager
def hub(folder: Path, tools: int, server: str | None) -> Iterator[tuple[Home, Store]]:
    """A hub with the shipped packs and this many tools more; not synced yet."""
    folder.mkdir()
    if tools:
        environment = installed(folder / "pack", "many_pack", many_tools(tools)).environment
    else:
        environment = environment_with(folder / "pack", [])
    with contextlib.ExitStack() as stack:
        store: Store = SQLiteStore(folder / "home" / "toolhub.sqlite3")
        if server is not None:
            store = stack.enter_context(created(server))
            assert isinstance(store, PostgresStore)
            environment |= store.environment
        yield Home(folder / "home", {**UNLIMITED, **environment}), store


def run_command(home: Home, *arguments: str) -> None:
    command = [sys.executable, "-m", "toolhub", *arguments]
    subprocess.run(command, env=home.environment, check=True, capture_output=True)


def whole_list(agent: Agent) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    while not tools or "nextCursor" in page:
        parameters = {"cursor": page["nextCursor"]} if page else {}
        page = agent.result(agent.ask("tools/list", parameters), PATIENCE)
        tools += page["tools"]
        agent.seen.clear()
        agent.raw.clear()
    return tools


def echo(agent: Agent) -> None:
    message = secrets.token_hex(4)
    result = agent.result(agent.ask_tool("echo", message=message), PATIENCE)
    if result.get("isError"):
        raise RuntimeError(result)


def search(agent: Agent, query: str) -> None:
    result = agent.result(agent.ask_tool("search_tools", query=query), PATIENCE)
    if result.get("isError"):
        raise RuntimeError(result)


def milliseconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def p50(work: Callable[[], Any], times: int) -> float:
    work()
    return statistics.median(milliseconds(work) for _ in range(times))


def resident_megabytes(process_id: int) -> float:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
