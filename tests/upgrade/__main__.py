"""Upgrade the demo's hub from another checkout of ToolHub to this one, and compare what is in its database.

    python -m tests.upgrade [OLD] [--postgres postgres://…]

OLD is a checkout of an earlier version; by default, the commit that the file BASE names, which is extracted from the
repository. It runs with its own packages: those in its .venv, or else installed from its lock file, for which pip needs
a package index. The old code fills a hub with two weeks of calls, keys, toolsets, approvals, connections and changes,
and serves an agent that stays connected. Then this checkout migrates the database. Every row and column of before must
be there, unchanged; hashes must fit their definitions; agents are shown the same tools; an approval and an idempotency
key of before still hold.
Exits with 1 if there are differences.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.agents import Agent
from tests.support.processes import CHECKOUT, Home, Server, key_in
from tests.support.stores import PostgresStore, SQLiteStore, Store, created

FILL = """
import subprocess, sys
from toolhub.demo import upstreams
with upstreams.running() as (n8n, redmine):
    command = [sys.executable, "-m", "toolhub.demo.filling", n8n, redmine]
    raise SystemExit(subprocess.run(command, input=sys.argv[1], text=True).returncode)
"""
# Counts its calls in a file.
PAY = """
from toolhub import Hints, tool

@tool(category="test", hints=Hints(read_only=False, idempotent=False, open_world=False))
def pay(amount: int) -> dict[str, int]:
    \"\"\"Pay.\"\"\"
    with open({path!r}, "a") as file:
        file.write(f"{{amount}}\\n")
    return {{"paid": amount}}
"""
# State of running processes, and Django's own bookkeeping.
IGNORED_TABLES = {
    *("tools_app_revision", "tools_app_process", "tools_app_agent"),
    *("django_migrations", "django_session", "sqlite_sequence"),
}
# Permissions of models that no longer exist are taken from the hub's groups.
CONDITIONS = {
    "auth_group_permissions": "permission_id NOT IN (SELECT id FROM auth_permission WHERE codename = 'view_callsum')"
}
# What a sync by the new code may write anew: where the source is, when that was noticed, what was checked.
IGNORED_COLUMNS = {
    "tools_app_toolrecord": {"place", "updated_at"},
    "tools_app_definition": {"findings"},
    "tools_app_apikey": {"last_used_at", "last_used_from"},
}
# Without rows in these, the comparison would show little.
EXPECTED_TABLES = {
    f"tools_app_{name}"
    for name in ("toolrecord", "definition", "apikey", "toolset", "approval", "connection", "call", "auditentry")
} | {"auth_user", "auth_group"}
SHOWN = 5

Row = dict[str, Any]


@dataclass
class Requests:
    """Calls that an agent began with the earlier version, and continues with this one."""

    payments: Path
    boss: str = ""
    agent: str = ""
    approval: str = ""
    reply: dict[str, Any] = field(default_factory=dict)

    def begin(self, home: Home) -> None:
        """Have one call approved that is not made yet, and make one with an idempotency key."""
        self.boss = key_in(home.run("addkey", "upgraded-boss", "--scope", "admin:*").stdout)
        scopes = ("--scope", "tools:list", "--scope", "tools:execute")
        self.agent = key_in(home.run("addkey", "upgraded-agent", *scopes).stdout)
        with home.serving() as hub, _client(hub, self.boss) as boss, _client(hub, self.agent) as agent:
            self.reply = _pay(agent, 1, {"Idempotency-Key": "before-the-upgrade"})
            boss.patch("/v1/tools/pay", json={"ask": True}).raise_for_status()
            self.approval = _pay(agent, 2)["context"]["approvalId"]
            boss.post(f"/v1/approvals/{self.approval}/approve", json={}).raise_for_status()

    def differences(self, hub: Server) -> Iterator[str]:
        with _client(hub, self.agent) as agent:
            again = _pay(agent, 1, {"Idempotency-Key": "before-the-upgrade"})
            if (again["callId"], again["result"]) != (self.reply["callId"], self.reply["result"]):
                yield f"a call with an idempotency key of before: {self.reply} → {again}"
            approved = _pay(agent, 2, {"Toolhub-Approval": self.approval})
            if not approved.get("success"):
                yield f"a call that was approved before: {approved}"
            if self.payments.read_text().split() != ["1", "2"]:
                yield f"payments are {self.payments.read_text().split()}, not 1 and 2"


def _client(hub: Server, key: str) -> httpx.Client:
    return httpx.Client(base_url=hub.url, headers={"X-API-Key": key}, trust_env=False, timeout=30)


def _pay(client: httpx.Client, amount: int, headers: dict[str, str] | None = None) -> dict[str, Any]:
    body = {"name": "pay", "parameters": {"amount": amount}}
    answer: dict[str, Any] = client.post("/v1/tools/call", json=body, headers=headers).json()
    return answer


@dataclass
class Contents:
    """The rows of every table by primary key."""

    tables: dict[str, dict[Any, Row]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?", help="a checkout of the earlier version; default: that of BASE")
    parser.add_argument("--postgres", metavar="URL", help="also on this server, in a database made for it")
    options = parser.parse_args()
    found = 0
    for name in ("SQLite", *(["PostgreSQL"] if options.postgres else [])):
        with tempfile.TemporaryDirectory(prefix="toolhub-upgrade-") as folder:
            old = options.old.resolve() if options.old else base_version(Path(folder) / "base")
            differences = upgrade(Path(folder), old, options.postgres, name)
        print(f"{name}: {len(differences)} differences")
        for difference in differences:
            print(f"  {difference}")
        found += len(differences)
    raise SystemExit(1 if found else 0)


def base_version(folder: Path) -> Path:
    """The files of the oldest version from which an upgrade has to work."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", base_commit()], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def interpreter_of(old: Path, folder: Path) -> str:
    """A Python with the packages of that version."""
    if (own := old / ".venv" / "bin" / "python").exists():
        return str(own)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes")
    subprocess.run([python, "-m", "pip", "install", *options, "-r", str(old / "requirements.lock")], check=True)
    return python


def base_commit() -> str:
    return Path(__file__).with_name("BASE").read_text().strip()


def upgrade(folder: Path, old: Path, server: str | None, name: str) -> list[str]:
    # A copy: the path of a tool's file is recorded.
    shutil.copytree(old / "toolhub" / "demo" / "tools", folder / "tools")
    requests = Requests(folder / "payments")
    (folder / "tools" / "paying.py").write_text(PAY.format(path=str(requests.payments)))
    with contextlib.ExitStack() as stack:
        store: Store = SQLiteStore(folder / "home" / "toolhub.sqlite3")
        environment = {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), "LOG_LEVEL": "error"}
        if name == "PostgreSQL":
            assert server is not None
            store = stack.enter_context(created(server))
            environment |= store.environment
        old_home = Home(folder / "home", {**environment, "PYTHONPATH": str(old)}, interpreter_of(old, folder))
        new_home = Home(folder / "home", {**environment, "PYTHONPATH": str(CHECKOUT)})
        fill(old_home)
        requests.begin(old_home)
        old_agent = stack.enter_context(Agent(old_home))
        old_agent.connect()
        old_tools = old_agent.tools()
        before = contents_of(store)
        print(f"{name}: {sum(map(len, before.tables.values())):,} rows in {len(before.tables)} tables", flush=True)
        differences = [f"{table}: nothing to compare" for table in EXPECTED_TABLES if not before.tables.get(table)]
        for command in (["migrate"], ["synctools"]):
            done = new_home.run(*command)
            if done.returncode:
                return [*differences, f"{' '.join(command)}: {done.stderr}"]
            print(f"{name}: {' '.join(command)}: {(done.stdout.strip() or 'done').splitlines()[-1]}", flush=True)
        after = contents_of(store)
        differences += lost(before, after)
        # The demo invents a definition of its own.
        differences += sorted(set(wrong_hashes(after)) - set(wrong_hashes(before)))
        differences += use(old_agent, new_home, old_tools, requests)
    return differences


def fill(home: Home) -> None:
    command = [home.interpreter, "-c", FILL, secrets.token_urlsafe(12)]
    done = subprocess.run(command, env=home.environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the earlier version cannot fill its demo:\n{done.stderr}")
    print(done.stdout.strip(), flush=True)


def use(old_agent: Agent, new_home: Home, old_tools: list[dict[str, Any]], requests: Requests) -> list[str]:
    """What callers notice."""
    differences: list[str] = []
    with Agent(new_home) as agent:
        agent.connect()
        differences += different_tools("the list of a new agent", old_tools, agent.tools())
    # A process of the last release keeps working: it is not restarted at the same moment.
    differences += different_tools("the list of the agent that stayed connected", old_tools, old_agent.tools())
    result = old_agent.call("echo", message="hi")
    if result.get("isError"):
        differences.append(f"a call of the agent that stayed connected: {result}")
    with new_home.serving() as hub, _client(hub, requests.boss) as boss:
        differences += requests.differences(hub)
        connections = boss.get("/v1/connections").raise_for_status().json()["connections"]
        # A secret that cannot be decrypted is a fault, too.
        differences += [f"connection {one['name']}: {one['fault']}" for one in connections if one["fault"]]
    return differences


def different_tools(what: str, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    # As text: the order of keys is part of what an agent reads.
    old, new = ({tool["name"]: json.dumps(tool) for tool in tools} for tools in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"{what}: {name}: {old.get(name, 'nothing')} → {new.get(name, 'nothing')}"
    if list(old) != list(new) and old == new:
        yield f"{what}: another order"


# ---- the database


def contents_of(store: Store) -> Contents:
    contents = Contents()
    for table in tables_of(store):
        columns = columns_of(store, table)
        selected = ", ".join(f'"{column}"' for column in columns)
        condition = CONDITIONS.get(table, "1 = 1")
        rows = store.query(f'SELECT {selected} FROM "{table}" WHERE {condition}')  # noqa: S608
        contents.columns[table] = columns
        contents.tables[table] = {
            (row["id"] if "id" in row else json.dumps(row, default=str, sort_keys=True)): row
            for row in (dict(zip(columns, values, strict=True)) for values in rows)
        }
    return contents


def tables_of(store: Store) -> list[str]:
    if isinstance(store, PostgresStore):
        rows = store.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    else:
        # Those of the full-text search belong to its index.
        rows = store.query("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
    return sorted(name for (name,) in rows if name not in IGNORED_TABLES)


def columns_of(store: Store, table: str) -> list[str]:
    if isinstance(store, PostgresStore):
        query = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY 1"  # noqa: S608
        return [name for (name,) in store.query(query)]
    return sorted(row[1] for row in store.query(f'PRAGMA table_info("{table}")'))


def lost(before: Contents, after: Contents) -> Iterator[str]:
    """What was there and is not, or differs. New tables, columns and rows are what an upgrade is for."""
    for table, rows in before.tables.items():
        if table not in after.tables:
            yield f"{table}: no longer there, with {len(rows):,} rows"
            continue
        columns = set(before.columns[table]) - IGNORED_COLUMNS.get(table, set())
        missing_columns = columns - set(after.columns[table])
        yield from (f"{table}.{column}: no longer there" for column in sorted(missing_columns))
        missing_rows = [key for key in rows if key not in after.tables[table]]
        if missing_rows:
            yield f"{table}: {len(missing_rows):,} of {len(rows):,} rows are missing: {missing_rows[:SHOWN]}"
        changes: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for key, row in rows.items():
            if (now := after.tables[table].get(key)) is None:
                continue
            for column in columns - missing_columns:
                if row[column] != now[column]:
                    changes[column] += 1
                    examples.setdefault(column, f"{key}: {row[column]!r:.200} → {now[column]!r:.200}")
        for column, count in sorted(changes.items()):
            yield f"{table}.{column}: {count:,} of {len(rows):,} rows differ, such as {examples[column]}"


def wrong_hashes(contents: Contents) -> Iterator[str]:
    """Definitions whose hash is not that of their body: approvals are bound to it."""
    for key, row in contents.tables.get("tools_app_definition", {}).items():
        body = json.loads(row["body"]) if isinstance(row["body"], str) else row["body"]
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if hashlib.sha256(canonical).hexdigest() != row["hash"]:
            yield f"tools_app_definition {key}: its hash is not that of its body"


if __name__ == "__main__":
    os.chdir(CHECKOUT.anchor)
    main()
