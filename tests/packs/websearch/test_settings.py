"""What operators set is checked when the hub starts, and every fault names its variable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes import Home
from tools_app.packs.websearch.settings import SearchOptions, Settings

FAULTY = {
    "WEBSEARCH_ENGINES": ["google", "duckduckgo,bing", "searxng"],
    "WEBSEARCH_SEARXNG_URL": [
        "searx",
        "ftp://a.test",
        "https://me:secret@a.test",
        "https://a.test/?q=1",
        "https://a.test/search",
    ],
    "WEBSEARCH_MAX_RESULTS": ["0", "31", "ten"],
    "WEBSEARCH_TIMEOUT_SECS": ["0", "61", "1.5"],
    "WEBSEARCH_USER_AGENT": ["a\nb", "x" * 201, "Grüße"],
    "WEBSEARCH_CACHE_TTL_SECS": ["-1", "86401"],
    "WEBSEARCH_RATE_LIMIT_MS": ["-1", "60001"],
    "WEBSEARCH_MAX_RETRIES": ["-1", "4"],
    "WEBSEARCH_REGION": ["germany", "de_DE"],
    "WEBSEARCH_SAFE_SEARCH": ["on"],
    "WEBSEARCH_TIME_RANGE": ["decade"],
    "WEBSEARCH_ROBOTS_TXT": ["maybe", "2"],
}


def test_every_wrong_value_is_named_at_the_start(tmp_path: Path) -> None:
    """All at once, because starting a process takes time; each variable's first wrong value represents the rest."""
    for turn in range(max(map(len, FAULTY.values()))):
        wrong = {name: values[min(turn, len(values) - 1)] for name, values in FAULTY.items()}
        done = Home(tmp_path / "home", wrong).run("check")
        assert done.returncode != 0
        named = set(re.findall(r"(WEBSEARCH_[A-Z_]+): expected", done.stderr))
        # An engine that has no address is named by the address that it lacks.
        assert named | {"WEBSEARCH_SEARXNG_URL", "WEBSEARCH_ENGINES"} == FAULTY.keys()
        assert "secret" not in done.stderr


def test_an_operator_s_choice_is_the_tools_definition_and_policy(tmp_path: Path) -> None:
    chosen = {
        "WEBSEARCH_MAX_RESULTS": "7",
        "WEBSEARCH_CACHE_TTL_SECS": "0",
        "WEBSEARCH_MAX_RETRIES": "1",
        "WEBSEARCH_TIMEOUT_SECS": "5",
        "WEBSEARCH_SEARXNG_URL": "http://10.0.0.5:8080/searx",
    }
    home = Home(tmp_path / "home", chosen)
    code = (
        "import json; from django.conf import settings; from tools_app.packs.websearch import web_search as t;"
        "print(json.dumps([t.input_schema['properties']['max_results']['default'], t.cache_seconds, t.pack.retries,"
        "t.pack.timeout, settings.WEBSEARCH_ENGINES]))"
    )
    done = home.run("shell", "--no-imports", "-c", code)
    assert json.loads(done.stdout) == [7, 0, 1, 22.5, ["searxng", "duckduckgo"]], done.stderr


@pytest.mark.parametrize(
    ("timeout", "retries", "pace", "deadline"), [(10, 2, 1.0, 45.5), (10, 0, 0.0, 11.0), (60, 3, 60.0, 120.0)]
)
def test_the_deadline_fits_all_attempts(timeout: float, retries: int, pace: float, deadline: float) -> None:
    chosen = Settings(("duckduckgo",), "", 10, timeout, "test", 300, pace, retries, SearchOptions())
    assert chosen.deadline == deadline
