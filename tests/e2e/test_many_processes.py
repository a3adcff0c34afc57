"""Servers of one hub, as on several machines: limits that they count together, and changes that reach them all."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support import redis_server, stores
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in
from tests.support.tools import eventually

CHANGED = "notifications/tools/list_changed"
LISTEN = {"notifications": {"toolsListChanged": True}}
MOST = 25


def statuses(client: httpx.Client, servers: list[Server], times: int) -> Counter[int]:
    def call(number: int) -> int:
        address = f"{servers[number % len(servers)].url}/v1/tools/echo/call"
        return client.post(address, json={"message": "hi"}).status_code

    with ThreadPoolExecutor(8) as threads:
        return Counter(threads.map(call, range(times)))


def test_a_limit_is_that_of_all_servers_and_goes_on_while_redis_is_killed_and_started_again(tmp_path: Path) -> None:
    with redis_server.running() as redis, ExitStack() as running:
        variables = {
            "TOOLHUB_REDIS_URL": redis.url,
            "TOOLHUB_RATE_CALLS": str(MOST),
            # A day, so that nothing is refilled meanwhile.
            "TOOLHUB_RATE_SECONDS": "86400",
            "TOOLHUB_KEY_RATE_CALLS": "0",
        }
        home = Home(tmp_path / "home", variables, patience=180)
        servers = [running.enter_context(home.serving()) for _ in range(2)]
        first, second = (key_in(home.run("addkey", name).stdout) for name in ("one", "two"))
        client = running.enter_context(httpx.Client(headers={"X-API-Key": first}, timeout=60, trust_env=False))

        before = statuses(client, servers, 2 * MOST + 10)
        assert before == {200: MOST, 429: MOST + 10}
        assert client.get(f"{servers[0].url}/health").json()["limits"] == "hub"

        redis.kill()
        client.headers["X-API-Key"] = second
        away = statuses(client, servers, 6 * MOST)
        assert away == {200: 2 * MOST, 429: 4 * MOST}, "no call fails, and each process counts for itself"
        doctor = home.run("doctor")
        assert "cannot be used" in doctor.stdout
        assert f"limits count in each of 2 processes; in total: 20 calls of one upstream at once, {2 * MOST}" in (
            doctor.stdout
        )

        redis.start()
        health = [f"{server.url}/health" for server in servers]

        def are_together() -> bool:
            statuses(client, servers, 2)
            return all(client.get(address).json()["limits"] == "hub" for address in health)

        assert eventually(are_together)
        assert statuses(client, servers, 4 * MOST)[200] <= MOST
        errors = "".join("".join(server.errors) for server in servers)
        assert errors.count("cannot be used, so each process counts for itself") == 2, "each of them says so once"


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_what_an_operator_decides_at_one_server_reaches_agents_at_the_other(tmp_path: Path, era: str) -> None:
    with stores.fresh(tmp_path) as store:
        home = Home(tmp_path / "home", store.environment, patience=180)
        with home.serving() as one, home.serving() as other:
            boss, key = (key_in(home.run("addkey", name, "--scope", "admin:*").stdout) for name in ("boss", "agent"))
            client = httpx.Client(headers={"X-API-Key": boss}, timeout=60, trust_env=False)
            with client, HttpAgent(other.url, key, era) as agent:
                if era == LEGACY:
                    agent.connect()
                with agent.stream(agent.message("subscriptions/listen", LISTEN) if era == MODERN else None) as told:
                    if era == MODERN:
                        next(told)
                    for enabled in (False, True):
                        client.patch(f"{one.url}/v1/tools/echo", json={"enabled": enabled}).raise_for_status()
                        assert next(told)["method"] == CHANGED
                    (number,) = (
                        each["id"]
                        for each in client.get(f"{one.url}/v1/keys").json()["keys"]
                        if each["name"] == "agent"
                    )
                    client.post(f"{one.url}/v1/keys/{number}/revoke", json={}).raise_for_status()
                    assert not [each for each in told if each.get("method") == CHANGED], "its stream ends"
