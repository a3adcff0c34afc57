"""Lets schemathesis ask a real hub what the description of its REST door allows, and what it does not.

`make test-api` runs it for long, and the tests a little of it. What a check cannot know is in `CONFIGURATION`.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.processes import Home, key_in

# The first key cannot be revoked by a case: whatever came after that would only be refused.
OWN_KEY = "1"
# `POST /v1/tools/call` shares its address with the tool that is called so; the tests look at `Allow` themselves.
UNUSED_CHECK = "allow_header_conformance"
# The tools first: the cases of the other one switch them off.
DESCRIPTIONS = ("/v1/tools/openapi.json", "/v1/openapi.json")
ENVIRONMENT = {
    "TOOLHUB_RATE_CALLS": "0",
    "TOOLHUB_KEY_RATE_CALLS": "0",
    "TOOLHUB_ANONYMOUS_RATE_CALLS": "0",
    "LOG_LEVEL": "fatal",
}
TOOLS = '''
from toolhub import Hints, tool


@tool(hints=Hints(read_only=True, open_world=False))
def break_down(word: str = "") -> str:
    """Fail at a word that no case comes upon."""
    if word == "abracadabra":
        raise RuntimeError(word)
    return word
'''
CONFIGURATION = """
hooks = "hooks.py"

[auth.openapi.bearer]
bearer = "{key}"
[auth.openapi.apiKey]
api_key = "{key}"

[dictionaries.tools]
values = ["echo", "calculate", "break_down"]
[dictionaries.errors]
values = ["{error}"]
[dictionaries.calls]
values = ["{call}"]

# Refused everywhere, which a description would have to say of every text.
[generation]
allow-x00 = false

[parameters]
"path.name" = {{ dictionary = "tools", probability = 0.5 }}
"path.group_id" = {{ dictionary = "errors", probability = 0.5 }}
"path.call_id" = {{ dictionary = "calls", probability = 0.5 }}

# Cases switch all tools off: a hub that is of no use says so.
[[operations]]
include-operation-id = "show_health"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]

# A description cannot say which arguments a tool takes where any tool can be named. That of the tools does.
[[operations]]
include-operation-id = ["call_tool", "call_named_tool"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "4xx"]

# … nor which toolsets, packs, documents and addresses there are, which names are free, which parts of an alert rule its
# channel needs, which users resolve issues, what time it is, or that a tool that writes has no cache,
[[operations]]
include-operation-id = [
  "create_key", "change_key", "change_tool", "create_connection", "change_connection", "add_source", "change_source",
  "preview_document", "replace_document", "select_operations", "create_alert_rule", "change_alert_rule", "assign_error",
  "snooze_error",
]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409"]

# … nor what a cursor looks like,
[[operations]]
include-operation-id = ["list_calls", "list_errors", "list_audit", "list_keys"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403"]

# … nor which Idempotency-Keys were used, or that 1 cannot be divided by 0.
[[operations]]
include-path-regex = "^/v1/tools/(echo|break_down|calculate)/call$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "409", "422"]
"""
HOOKS = f'''
import schemathesis


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    return not path_parameters or path_parameters.get("key_id") != "{OWN_KEY}"
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    cases: int
    failed: bool
    report: str


def run(directory: Path, *options: str) -> list[Outcome]:
    """Start a hub in an empty directory and ask it, once for each description. `options` go to schemathesis."""
    tools = directory / "tools"
    tools.mkdir()
    (tools / "breaking.py").write_text(TOOLS)
    home = Home(directory / "home", {**ENVIRONMENT, "TOOLHUB_TOOLS_DIR": str(tools)})
    key = key_in(home.run("addkey", "cases", "--scope", "admin:*").stdout)
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        # What asks the Internet would ask it: no test may.
        database.execute("UPDATE tools_app_toolrecord SET enabled = 0 WHERE pack = 'websearch'")
    with (
        home.serving() as server,
        httpx.Client(base_url=server.url, headers={"X-API-Key": key}, trust_env=False) as client,
    ):
        failed = client.post("/v1/tools/break_down/call", json={"word": "abracadabra"}).json()
        (error,) = client.get("/v1/errors").json()["errors"]
        (directory / "hooks.py").write_text(HOOKS)
        (directory / "schemathesis.toml").write_text(
            CONFIGURATION.format(key=key, error=error["id"], call=failed["callId"])
        )
        outcomes = []
        for address in DESCRIPTIONS:
            (directory / "description.json").write_text(client.get(address).text)
            outcomes.append(_ask(directory, server.url, options))
        return outcomes


def _ask(directory: Path, url: str, options: tuple[str, ...]) -> Outcome:
    report = directory / "report.json"
    report.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", "description.json", "--url", url),
        *("--checks", "all", "--exclude-checks", UNUSED_CHECK, "--max-response-time", "2"),
        *("--continue-on-failure", "--warnings", "off"),
        *("--report", "json", "--report-json-path", str(report), *options),
    ]
    # There it finds what it is to do, and leaves what it learns.
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    told = json.loads(report.read_text()) if report.exists() else {}
    cases = told.get("test_cases", {}).get("generated", 0)
    return Outcome(cases, done.returncode != 0, f"{done.stdout}\n{done.stderr}")
