"""Django's own list of what a site for others must have, asked with the settings of one."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.processes import Home

HTTPS = {"TOOLHUB_HTTPS": "1", "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1", "ALLOWED_HOSTS": "hub.example.org"}


def test_nothing_is_missing_for_others(tmp_path: Path) -> None:
    done = Home(tmp_path / "home").run("check", "--deploy", "--fail-level", "WARNING", **HTTPS)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "System check identified no issues (0 silenced).\n"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"SECRET_KEY": "short"}, "tools_app.E001"),
        ({"DEBUG": "1"}, "security.W018"),
        ({"TOOLHUB_HTTPS": "0"}, "security.W008"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changed: dict[str, str], found: str) -> None:
    done = Home(tmp_path / "home").run("check", "--deploy", "--fail-level", "WARNING", **(HTTPS | changed))

    assert done.returncode == 1
    assert found in done.stderr


def test_visitors_come_over_https_through_the_proxy_that_is_named(tmp_path: Path) -> None:
    forwarded = {"X-Forwarded-Proto": "https"}
    with Home(tmp_path / "home").serving(**HTTPS | {"ALLOWED_HOSTS": "127.0.0.1"}) as server:
        there = httpx.get(f"{server.url}/health", headers=forwarded, timeout=30)
        away = httpx.get(f"{server.url}/v1/tools", timeout=30)
        assert server.end() == 0

    assert there.status_code == 200
    assert there.headers["Strict-Transport-Security"].startswith("max-age=31536000")
    assert (away.status_code, away.headers["Location"]) == (301, f"{server.url.replace('http', 'https')}/v1/tools")
    assert "redirect loop" not in "".join(server.output)


def test_a_missing_proxy_setting_is_reported(tmp_path: Path) -> None:
    with Home(tmp_path / "home").serving(TOOLHUB_HTTPS="1") as server:
        answer = httpx.get(f"{server.url}/v1/tools", headers={"X-Forwarded-Proto": "https"}, timeout=30)
        assert server.end() == 0

    assert answer.status_code == 301
    assert "TOOLHUB_TRUSTED_PROXIES" in "".join(server.output)
