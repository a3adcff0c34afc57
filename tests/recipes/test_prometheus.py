"""Prometheus of Debian scrapes a real hub with the files of docs/recipes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.recipes.proxies import RECIPES, recipe
from tests.support.processes import Home, free_port
from tests.support.tools import eventually

RULES = "prometheus-rules.yml"

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")), reason="Prometheus is not on this machine"
)


@contextmanager
def scraping(directory: Path, target: str) -> Iterator[httpx.Client]:
    """Prometheus, which reads the target every second."""
    changes = {"127.0.0.1:3000": target, "scrape_interval: 30s": "scrape_interval: 1s"}
    (directory / "prometheus.yml").write_text(recipe("prometheus.yml", **changes))
    (directory / RULES).write_text(recipe(RULES))
    subprocess.run(["promtool", "check", "config", str(directory / "prometheus.yml")], check=True, capture_output=True)
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False, timeout=30) as client,
    ):
        try:
            yield client
        finally:
            process.terminate()


def query(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    try:
        answer = prometheus.get("query", params={"query": expression})
    except httpx.TransportError:
        return []  # It has just been started.
    if answer.status_code == 503:
        return []
    assert answer.status_code == 200, f"{expression}: {answer.text}"
    result: list[dict[str, Any]] = answer.json()["data"]["result"]
    return result


def test_it_reads_the_figures_of_the_hub_without_a_key(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.run("calltool", "echo", '{"message": "x"}').returncode == 0
    with home.serving() as server, scraping(tmp_path, f"127.0.0.1:{server.port}") as prometheus:
        counted = 'toolhub_calls_total{job="toolhub", tool="echo", status="succeeded"}'
        assert eventually(lambda: any(row["value"][1] == "1" for row in query(prometheus, counted)), 60)
        assert [row["value"][1] for row in query(prometheus, 'up{job="toolhub"}')] == ["1"]
        assert query(prometheus, 'toolhub_tools{state="callable"} > 0')
        # Every chart and rule is a valid query, of metrics that there are.
        dashboard = json.loads((RECIPES / "grafana.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        rules = prometheus.get("rules").json()["data"]["groups"][0]["rules"]
        assert (len(expressions) > 15, len(rules)) == (True, 6)
        names = set(prometheus.get("label/__name__/values").json()["data"]) | {
            # Only with a backup, an error, a disk that was measured.
            *("toolhub_last_backup_timestamp_seconds", "toolhub_errors_total", "toolhub_disk_free_bytes"),
            "up",
        }
        for expression in (*expressions, *(rule["query"] for rule in rules)):
            query(prometheus, expression.replace("$job", ".*"))
            assert set(re.findall(r"\b(?:toolhub|process)_\w+", expression)) <= names, expression
