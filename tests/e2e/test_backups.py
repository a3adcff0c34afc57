"""A hub that serves is backed up, and a hub that serves is not replaced."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support import stores
from tests.support.processes import Home, Server, key_in

pytestmark = pytest.mark.e2e


def call(server: Server, key: str, message: str) -> httpx.Response:
    body = {"name": "echo", "parameters": {"message": message}}
    return httpx.post(f"{server.url}/v1/tools/call", json=body, headers={"X-API-Key": key}, timeout=30, trust_env=False)


def test_a_serving_hub_is_backed_up_and_replaced_only_when_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with stores.fresh(tmp_path / "home") as store:
        home = Home(tmp_path / "home", {**store.environment, "LOG_LEVEL": "error"})
        key = key_in(home.run("addkey", "agent").stdout)
        with home.serving() as server:
            first = call(server, key, "before").json()["callId"]
            assert httpx.get(f"{server.url}/health", trust_env=False).json()["backupAgeSeconds"] is None
            done = home.run("backup", str(tmp_path / "hub.backup"))
            assert done.returncode == 0, done.stderr
            second = call(server, key, "after").json()["callId"]
            assert httpx.get(f"{server.url}/health", trust_env=False).json()["backupAgeSeconds"] < 3_600
            refused = home.run("restore", str(tmp_path / "hub.backup"), "--replace")
            assert refused.returncode == 2
            assert "stop the hub" in refused.stderr
            assert call(server, key, "still").status_code == 200
            assert second in store.calls()
        done = home.run("restore", str(tmp_path / "hub.backup"), "--replace")
        assert done.returncode == 0, done.stdout + done.stderr
        assert first in store.calls()
        assert second not in store.calls()
        with home.serving() as server:
            assert call(server, key, "off").status_code == 403
            assert home.run("resume", "key", "agent").returncode == 0
            assert call(server, key, "on").status_code == 200
        if isinstance(store, stores.PostgresStore):
            kept = done.stdout.partition("is kept as ")[2].partition(". Delete")[0]
            store.query(f'DROP DATABASE "{kept}"')
