"""What the n8n pack saves an agent, and what it costs: the tables of docs/packs/n8n.md.

    python benchmarks/n8n.py           # tokens of every recorded execution, whole and summed up
    python benchmarks/n8n.py --real    # milliseconds of every tool on real n8n of both lines, which are installed first

Tokens are bytes of the answer as JSON, divided by three, as the hub reckons them: on one side all that n8n says of an
execution, on the other the summary with its wrapper. Milliseconds are those of calls through the engine, journal and
all, on SQLite, and what is left of them without the time for which the hub waited for n8n: the median of so many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

LINES = ("2", "1")
LARGEST = "wide"


# ---- tokens


def tokens(answer: Any) -> int:
    return math.ceil(len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")) / 3)


def reduction() -> None:
    from tests.packs.n8n.fake import recorded_executions
    from tools_app.packs.n8n.executions import get_execution
    from tools_app.packs.n8n.runs import Execution
    from tools_app.packs.n8n.summary import summary

    counted = {
        line: {
            name: (
                tokens(told),
                tokens({"success": True, "message": get_execution.done, "data": summary(Execution(told))}),
            )
            for name, told in recorded_executions(line).items()
        }
        for line in LINES
    }
    print("| execution | n8n 2: whole → summary | n8n 1: whole → summary |\n|---|---|---|")
    for name in sorted(set().union(*counted.values())):
        cells = [saved(counted[line][name], 1) if name in counted[line] else "–" for line in LINES]
        print(f"| `{name}` | {' | '.join(cells)} |")
    for title, left_out in (("**all**", ""), (f"all but `{LARGEST}`", LARGEST)):
        cells = [saved(together(counted[line], left_out), 2) for line in LINES]
        print(f"| {title} | {' | '.join(cells)} |")


def together(counted: dict[str, tuple[int, int]], left_out: str) -> tuple[int, int]:
    kept = [figures for name, figures in counted.items() if name != left_out]
    return sum(whole for whole, _ in kept), sum(short for _, short in kept)


def saved(figures: tuple[int, int], digits: int) -> str:
    whole, short = figures
    return f"{whole:,} → {short:,} ({100 * (1 - short / whole):.{digits}f}%)"


# ---- milliseconds


class Clock:
    """Calls tools through the engine, and keeps what they took."""

    def __init__(self) -> None:
        from tools_app import engine
        from tools_app.access import access
        from tools_app.http import ApiClient

        self._caller = access.caller_of_process()
        self._call = engine.call_sync
        self.took: dict[str, list[tuple[float, float]]] = {}
        # What the call under way has waited for n8n.
        self.clients: list[ApiClient] = []
        for_call = ApiClient.for_call

        def noted(client: ApiClient, *arguments: Any) -> ApiClient:
            self.clients.append(for_call(client, *arguments))
            return self.clients[-1]

        ApiClient.for_call = noted  # type: ignore[assignment,method-assign]

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        self.clients.clear()
        began = time.perf_counter()
        data = self.unmeasured(name, **arguments)
        whole = time.perf_counter() - began
        waited = sum(client.seconds for client in self.clients)
        self.took.setdefault(name, []).append((1000 * whole, 1000 * (whole - waited)))
        return data

    def unmeasured(self, name: str, /, **arguments: Any) -> Any:
        return self._call(name, arguments, self._caller, door="code").answer.value["data"]


def hook(path: str) -> dict[str, Any]:
    there = {"id": "w", "name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "position": [0, 0]}
    return {**there, "webhookId": path, "parameters": {"httpMethod": "POST", "path": path, "options": {}}}


def code(script: str) -> dict[str, Any]:
    there = {"id": "c", "name": "Code", "type": "n8n-nodes-base.code", "typeVersion": 2, "position": [240, 0]}
    return {**there, "parameters": {"jsCode": script}}


LINK = {"Webhook": {"main": [[{"node": "Code", "type": "main", "index": 0}]]}}


def until(found: Callable[[], Any]) -> Any:
    for _ in range(150):
        if told := found():
            return told
        time.sleep(0.2)
    raise RuntimeError("n8n does not do what it should")


def measured(line: str, times: int, home: Path) -> dict[str, list[tuple[float, float]]]:
    """Every tool, so many times, on an n8n of its own."""
    from tests.real.n8n.server import LINES as RELEASES
    from tests.real.n8n.server import running
    from tools_app.base import hub
    from tools_app.catalog.catalog import CatalogState

    folder = home / f"n8n-{line}"
    folder.mkdir()
    with running(RELEASES[line], folder) as server:
        os.environ.update(N8N_URL=server.url, N8N_API_KEY=server.key)
        hub.current().drop(CatalogState)
        ask = Clock()
        for number in range(times + 1):
            if number == 1:
                # The first of each has paid for connections.
                ask.took.clear()
            changes(ask, home)
        failing(ask, server, times)
        if line == "2":
            stopping(ask, server, times)
        return ask.took


def changes(ask: Clock, home: Path) -> None:
    nodes = [hook("figures"), code("return [];")]
    (home / "figures.json").write_text(json.dumps({"name": "x", "nodes": nodes, "connections": LINK, "settings": {}}))
    one = ask("create_workflow", name="figures", nodes=nodes, connections=LINK, settings={})["id"]
    for call in ("get_workflow", "get_workflow_connections"):
        ask(call, id=one)
    ask("get_workflow_node", workflowId=one, nodeId="Code")
    ask("list_workflows")
    ask("list_executions")
    ask("update_workflow", id=one, name="figures, renamed")
    ask("replace_workflow_from_file", id=one, filePath="figures.json")
    ask("activate_workflow", id=one)
    ask("deactivate_workflow", id=one)
    time.sleep(1)  # n8n 2 has something to do yet; how long is not the hub's affair
    ask("delete_workflow", id=one)
    made = ask("create_workflow_from_file", filePath="figures.json")["id"]
    ask.unmeasured("delete_workflow", id=made)


def active(ask: Clock, path: str, script: str) -> str:
    """A workflow that does so whenever its webhook is called."""
    nodes = [hook(path), code(script)]
    one = ask.unmeasured("create_workflow", name=path, nodes=nodes, connections=LINK, settings={})["id"]
    ask.unmeasured("activate_workflow", id=one)
    time.sleep(3)  # n8n 2 says so before it listens
    return str(one)


def failing(ask: Clock, server: Any, times: int) -> None:
    one = active(ask, "failing", "throw new Error('no');")
    server.web.post("/webhook/failing", json={})
    found = until(lambda: ask.unmeasured("list_executions", workflowId=one, status="error")["executions"])
    execution = found[0]["id"]
    for _ in range(times):
        ask("get_execution", id=execution)
        ask("get_execution_by_node", id=execution, nodeName="Code")
        ask("explain_execution", id=execution)
        ask("retry_execution", id=execution)


def stopping(ask: Clock, server: Any, times: int) -> None:
    import httpx

    one = active(ask, "slow", "await new Promise(done => setTimeout(done, 60000)); return [];")

    def begin() -> None:
        with suppress(httpx.HTTPError):
            httpx.post(f"{server.url}/webhook/slow", json={}, timeout=1)

    for _ in range(times):
        threading.Thread(target=begin, daemon=True).start()
        found = until(lambda: ask.unmeasured("list_executions", workflowId=one, status="running")["executions"])
        ask("stop_execution", id=found[0]["id"])


def milliseconds(times: int, home: Path) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="toolhub.settings",
        TOOLHUB_HOME=str(home / "hub"),
        TOOLHUB_ENV_FILE=os.devnull,
        TOOLHUB_FILE_ROOT=str(home),
        TOOLHUB_RATE_CALLS="1000000",
        LOG_LEVEL="error",
    )
    import django

    django.setup()
    from tests.real.n8n.server import LINES as RELEASES
    from tools_app import engine
    from tools_app.setup import installation
    from tools_app.sources import sync

    # The pack needs an account to be loaded; which one, every measurement says for itself.
    os.environ.update(N8N_URL="http://127.0.0.1:9", N8N_API_KEY="none yet")
    installation.require_ready(lambda line: None)
    sync.sync()
    took = {line: measured(line, times, home) for line in LINES}
    asyncio.run(engine.close(2))
    titles = [f"n8n {RELEASES[line].version}: call · hub's own" for line in LINES]
    print(f"| tool | {' | '.join(titles)} |")
    print("|---|---|---|")
    for name in sorted(set().union(*took.values())):
        cells = []
        for line in LINES:
            samples = took[line].get(name)
            middle = [statistics.median(each) for each in zip(*samples, strict=True)] if samples else []
            cells.append(" · ".join(f"{each:.1f}" for each in middle) or "–")
        print(f"| `{name}` | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--real", action="store_true", help="measure milliseconds on real n8n")
    parser.add_argument("--times", type=int, default=15)
    arguments = parser.parse_args()
    if not arguments.real:
        reduction()
        return
    with tempfile.TemporaryDirectory() as home:
        milliseconds(arguments.times, Path(home))


if __name__ == "__main__":
    main()
