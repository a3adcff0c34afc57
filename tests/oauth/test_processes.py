"""Tokens and real processes: fifty calls in four of them when the token ends, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from tests.oauth.conftest import by_person, look, sign_in, token_of
from tests.oauth.test_tokens import expired
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tests.support.processes import CHECKOUT
from tests.support.tools import database_url, eventually
from tools_app.models import UpstreamToken
from tools_app.sdk.hub_errors import UpstreamSignInError

# Calls once if it is told to, waits for a line, calls so often at once, and prints the errors, and which modules of
# the SDK of MCP the event loop had to import.
CALLS = """
import asyncio, json, os, sys, threading, time
import django

class Imports:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("mcp") and threading.current_thread().name == "toolhub-engine":
            on_the_loop.append(name)

on_the_loop = []
sys.meta_path.insert(0, Imports())
django.setup()
from tools_app import engine
from tools_app.sdk.context import Caller
from tools_app.sdk.reach import Reach

BY = Caller("key", "key:7", "caller", frozenset({"tools:execute"}), Reach(connections=frozenset({"ann"})))

async def one(number):
    try:
        await engine.call("acme_look", {"text": str(number)}, BY, door="code")
    except Exception as error:
        return f"{type(error).__name__}: {error}"

async def main(number, is_warm):
    if is_warm:
        assert await one(0) is None
    await asyncio.to_thread(wait)
    errors = [error for error in await asyncio.gather(*map(one, range(number))) if error]
    await engine.close(5)
    return errors + on_the_loop

def wait():
    from tools_app.catalog import catalog
    catalog.current()
    print("ready", flush=True)
    sys.stdin.readline()

print(json.dumps(asyncio.run(main(int(sys.argv[1]), len(sys.argv) > 2))), flush=True)
"""


def caller_process(tmp_path: Path, number: int, *, is_warm: bool = False) -> subprocess.Popen[str]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    own = {
        "TOOLHUB_HOME": str(tmp_path),
        "TOOLHUB_ENV_FILE": os.devnull,
        "DATABASE_URL": database_url(),
        "SECRET_KEY": settings.SECRET_KEY,
        "TOOLHUB_ENCRYPTION_KEY": settings.TOOLHUB_ENCRYPTION_KEY,
        "DJANGO_SETTINGS_MODULE": "toolhub.settings",
        "PYTHONPATH": str(CHECKOUT),
    }
    return subprocess.Popen(
        [sys.executable, "-c", CALLS, str(number), *(["warm"] if is_warm else [])],
        env={**environment, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", process.communicate()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize("is_warm", [True, False])
def test_fifty_calls_in_four_processes_when_the_token_ends_cause_one_renewal(
    server: McpUpstream, oauth: OAuthServer, tmp_path: Path, is_warm: bool
) -> None:
    """Cold processes also import the SDK of MCP first, beside the event loop, which answers other calls."""
    by_person()
    sign_in(oauth)
    processes = [caller_process(tmp_path, number, is_warm=is_warm) for number in (13, 13, 12, 12)]
    try:
        for process in processes:
            ready(process)
        # In memory the token is valid for long: the source says that it is not.
        server.calls.clear()
        expired()
        oauth.expire()
        oauth.fail("/token", delay=0.5)
        for process in processes:
            go(process)
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [error for out, _ in outputs for error in json.loads(out)] == [], outputs
    assert (oauth.count("refresh_token"), token_of().version, len(server.calls)) == (1, 2, 50)


def test_a_process_that_is_killed_between_the_answer_and_the_store_costs_one_sign_in(
    server: McpUpstream, oauth: OAuthServer, tmp_path: Path
) -> None:
    by_person()
    sign_in(oauth)
    process = caller_process(tmp_path, 1)
    try:
        ready(process)
        expired()
        # The server has renewed the token, and its answer does not arrive.
        fault = oauth.fail("/token", lost=True, holds=5)
        go(process)
        assert fault.done.wait(60)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert oauth.count("refresh_token") == 1
    row = token_of()
    assert row.refreshing_until is not None
    assert row.version == 1
    # Half a minute later:
    UpstreamToken.objects.update(refreshing_until=timezone.now())
    for _ in range(3):
        with pytest.raises(UpstreamSignInError, match="sign in again"):
            look()
    asked = [form for path, form in oauth.requests if form.get("grant_type") == "refresh_token"]
    assert len(asked) == 2, "once by the process that died, once by its successor"
    sign_in(oauth)
    look()


def test_a_process_that_is_killed_before_it_asks_costs_nothing(
    server: McpUpstream, oauth: OAuthServer, tmp_path: Path
) -> None:
    by_person()
    sign_in(oauth)
    process = caller_process(tmp_path, 1)
    try:
        ready(process)
        expired()
        fault = oauth.fail("/token", status=503, delay=5)
        go(process)
        assert eventually(lambda: fault.times == 0, 60)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert token_of().refreshing_until is not None
    UpstreamToken.objects.update(refreshing_until=timezone.now())
    look()
    assert (oauth.count("refresh_token"), token_of().version) == (1, 2)
