"""Rotation of the log by logrotate, while the hub writes."""

from __future__ import annotations

import getpass
import grp
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.recipes.proxies import missing, recipe
from tests.support.processes import Home, key_in


def test_the_hub_continues_in_a_new_file_and_nothing_is_lost(tmp_path: Path) -> None:
    if reason := missing("logrotate"):
        pytest.skip(reason)
    logs = tmp_path / "log"
    logs.mkdir(mode=0o700)
    user = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    rules = tmp_path / "logrotate"
    rules.write_text(recipe("logrotate", **{"toolhub toolhub\n": f"{user}\n", "/var/log/toolhub": str(logs)}))
    rules.chmod(0o644)
    home = Home(tmp_path / "home", {"TOOLHUB_LOG_FILE": str(logs / "toolhub.log")})
    key = key_in(home.run("addkey", "root", "--scope", "admin:*").stdout)
    with home.serving() as server, httpx.Client(base_url=server.url, headers={"X-API-Key": key}) as rest:

        def call() -> str:
            called = rest.post("/v1/tools/echo/call", json={"message": "hi"})
            # The log has the beginning of the id.
            return f"call={called.json()['callId'][:8]}"

        before = call()
        done = subprocess.run(
            ["/usr/sbin/logrotate", "--force", "--state", str(tmp_path / "state"), str(rules)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        after = call()
    assert before in (logs / "toolhub.log.1").read_text()
    assert after not in (logs / "toolhub.log.1").read_text()
    assert after in (logs / "toolhub.log").read_text()
    assert (logs / "toolhub.log").stat().st_mode & 0o777 == 0o600
