"""Two processes of one hub: what an operator decides holds in both, and what was approved runs in one of them, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, key_in

AT_ONCE = 50
TOOLS = '''
import os
from toolhub import Hints, tool

@tool(category="test", hints=Hints(read_only=False, idempotent=False, open_world=False))
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    with open({path!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{amount}}\\n")
    return {{"paid": amount}}
'''


def test_an_approved_call_runs_once_and_a_stop_holds_everywhere(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    paid = tmp_path / "paid"
    (tmp_path / "tools" / "pay.py").write_text(TOOLS.format(path=str(paid)))
    home = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tmp_path / "tools"), "TOOLHUB_RATE_CALLS": "0"})
    with home.serving() as one, home.serving() as other:
        keys = {
            name: key_in(home.run("addkey", name, *(part for scope in scopes for part in ("--scope", scope))).stdout)
            for name, scopes in {"agent": ["tools:list", "tools:execute"], "boss": ["admin:*"]}.items()
        }

        def client(name: str) -> httpx.Client:
            limits = httpx.Limits(max_connections=AT_ONCE)
            return httpx.Client(headers={"X-API-Key": keys[name]}, trust_env=False, timeout=60, limits=limits)

        with client("agent") as agent, client("boss") as boss:

            def pay(number: int, amount: int, **headers: str) -> dict[str, Any]:
                url = (one, other)[number % 2].url
                asked = {"name": "pay", "parameters": {"amount": amount}}
                told: dict[str, Any] = agent.post(f"{url}/v1/tools/call", json=asked, headers=headers).json()
                return told

            boss.patch(f"{one.url}/v1/tools/pay", json={"ask": True}).raise_for_status()
            with ThreadPoolExecutor(AT_ONCE) as pool:

                def together(work: Callable[[int], Any]) -> list[Any]:
                    return list(pool.map(work, range(AT_ONCE)))

                told = together(lambda number: pay(number, 1))
                assert Counter(one["code"] for one in told) == {"APPROVAL_REQUIRED": AT_ONCE}
                (approval_id,) = {one["context"]["approvalId"] for one in told}
                own = agent.post(f"{one.url}/v1/approvals/{approval_id}/approve", json={})
                assert own.status_code == 403
                decided = together(
                    lambda number: (
                        boss.post(
                            f"{(one, other)[number % 2].url}/v1/approvals/{approval_id}/approve", json={}
                        ).status_code
                    )
                )
                assert Counter(decided) == {200: 1, 409: AT_ONCE - 1}, "it is decided once, too"

                told = together(lambda number: pay(number, 1, **{"Toolhub-Approval": approval_id}))
                assert Counter(one.get("code", "done") for one in told) == {"done": 1, "APPROVAL_INVALID": AT_ONCE - 1}
                assert len(paid.read_text().splitlines()) == 1

                # Without the id, too: those who come too late ask anew, all for the same.
                second = pay(0, 2)["context"]["approvalId"]
                boss.post(f"{other.url}/v1/approvals/{second}/approve", json={}).raise_for_status()
                told = together(lambda number: pay(number, 2))
                codes = Counter(one.get("code", "done") for one in told)
                assert codes == {"done": 1, "APPROVAL_REQUIRED": AT_ONCE - 1}
                assert len({one["context"]["approvalId"] for one in told if "code" in one}) == 1
                assert len(paid.read_text().splitlines()) == 2
            boss.patch(f"{one.url}/v1/tools/pay", json={"ask": False}).raise_for_status()

            # Stopped in one process, refused by the next call at every door of every process.
            with (
                HttpAgent(other.url, keys["agent"], MODERN) as modern,
                HttpAgent(other.url, keys["agent"], LEGACY) as legacy,
                Agent(home) as local,
            ):
                for each in (modern, legacy, local):
                    each.connect()
                doors = {
                    "REST": lambda: pay(1, 3),
                    "MCP": lambda: over_http(modern),
                    "MCP before 2026": lambda: over_http(legacy),
                    "stdio": lambda: local.answer(local.ask_tool("pay", amount=3)),
                    "shell": lambda: home.run("calltool", "pay", '{"amount": 3}').stderr,
                }
                kinds: list[tuple[dict[str, str], set[str]]] = [
                    ({"kind": "hub"}, set()),
                    ({"kind": "key", "name": "agent"}, {"stdio", "shell"}),
                ]
                for stop, free in kinds:
                    for door, call in doors.items():
                        paid.write_text("")
                        boss.post(f"{one.url}/v1/stops", json={**stop, "reason": "fire drill"}).raise_for_status()
                        heard = str(call())
                        assert bool(paid.read_text()) is (door in free), (stop, door, heard)
                        assert ("fire drill" in heard) is (door not in free), (stop, door, heard)
                        boss.post(f"{other.url}/v1/stops/resume", json=stop).raise_for_status()
                        call()
                        assert paid.read_text(), (stop, door)
                    actions = boss.get(f"{one.url}/v1/audit", params={"limit": 100}).json()["entries"]
                    counted = Counter(entry["action"] for entry in actions)
                    assert counted[f"{stop['kind']}.stop"] == counted[f"{stop['kind']}.resume"] == len(doors)


def over_http(agent: HttpAgent) -> str:
    asked = agent.message("tools/call", {"name": "pay", "arguments": {"amount": 3}})
    return agent.send(asked).text
