"""Shipped definitions change only together with their version: an unchanged hash keeps approvals and open requests.

`python -m tests.e2e.test_shipped_definitions` renews the recorded hashes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.support.agents import MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import CHECKOUT, Home, key_in
from tests.support.stores import SQLiteStore

RECORDED = CHECKOUT / "tests" / "data" / "definition_hashes.json"
RENEW = "then run `python -m tests.e2e.test_shipped_definitions`"
# Prompts and resources of a pack are offered when it has an account. No test asks these addresses.
ACCOUNTS = {
    "N8N_URL": "http://127.0.0.1:1",
    "N8N_API_KEY": "key-of-a-test-1",
    "REDMINE_HOST": "http://127.0.0.1:1",
    "REDMINE_API_KEY": "key-of-a-test-2",
    "REDMINE_USER_ADMINISTRATION": "true",
}
LISTS = (
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
)

# By kind and name: version, hash of the definition, digest of the entry in its MCP list.
Hashes = dict[str, dict[str, dict[str, str]]]


def current_hashes(folder: Path) -> Hashes:
    """What a new hub with all shipped packs shows."""
    home = Home(folder / "home", dict(ACCOUNTS))
    key = key_in(home.run("addkey", "reader", "--scope", "admin:*").stdout)
    # Tools that write arrive switched off, and are not listed.
    SQLiteStore(home.database).query("UPDATE tools_app_toolrecord SET enabled = 1")
    hashes: Hashes = {kind: {} for _, kind, _ in LISTS}
    with (
        home.serving() as server,
        HttpAgent(server.url, key, MODERN) as agent,
        httpx.Client(base_url=server.url, headers={"X-API-Key": key}, trust_env=False, timeout=30) as client,
    ):
        page = client.get("/v1/tools", params={"limit": 100}).raise_for_status().json()
        assert page["pagination"]["totalPages"] == 1
        for item in page["tools"]:
            tool = client.get(f"/v1/tools/{item['name']}").raise_for_status().json()
            hashes["tools"][tool["name"]] = {"version": tool["version"], "hash": tool["definitionHash"]}
        for method, kind, identifier in LISTS:
            result = agent.ask(method)
            assert "nextCursor" not in result
            for entry in result[kind]:
                recorded = hashes[kind].setdefault(entry[identifier], {})
                recorded["listed"] = hashlib.sha256(wire_form(entry)).hexdigest()
                if version := entry.get("_meta", {}).get("toolhub/version"):
                    recorded["version"] = version
    return {kind: dict(sorted(entries.items())) for kind, entries in hashes.items()}


def wire_form(entry: dict[str, Any]) -> bytes:
    """In the order in which it was sent."""
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()


def differences(recorded: Hashes, current: Hashes) -> list[str]:
    """What to do about each entry that is not as recorded."""
    advice = []
    for kind in recorded.keys() | current.keys():
        before, now = recorded.get(kind, {}), current.get(kind, {})
        for name in sorted(before.keys() | now.keys()):
            old, new = before.get(name), now.get(name)
            if old is None or old == new:
                continue  # Nothing depends on a new one yet.
            if new is None:
                advice.append(f"{kind} {name}: no longer there: {RENEW}")
            elif old.get("version") != new.get("version"):
                advice.append(f"{kind} {name}: has version {new.get('version')}: {RENEW}")
            else:
                what = "hash" if old.get("hash") != new.get("hash") else "entry in the MCP list"
                advice.append(f"{kind} {name}: its {what} changed. If intended, raise the version of its pack, {RENEW}")
    return advice


def test_shipped_definitions_change_only_with_their_version(tmp_path: Path) -> None:
    recorded: Hashes = json.loads(RECORDED.read_text())
    assert len(recorded["tools"]) > 50
    assert recorded["prompts"]
    assert recorded["resources"]
    assert differences(recorded, current_hashes(tmp_path)) == []


def test_a_changed_hash_names_the_version() -> None:
    recorded = {"tools": {name: {"version": "1", "hash": "a", "listed": "b"} for name in ("x", "y", "z")}}
    current = {"tools": {"x": {"version": "1", "hash": "c", "listed": "d"}, "y": {"version": "2", "hash": "c"}}}
    changed, raised, gone = differences(recorded, current)
    assert changed.startswith("tools x: its hash changed. If intended, raise the version")
    assert raised.startswith("tools y: has version 2: then run")
    assert gone.startswith("tools z: no longer there")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        RECORDED.write_text(json.dumps(current_hashes(Path(directory)), indent=1) + "\n")
