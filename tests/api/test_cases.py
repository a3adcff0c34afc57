"""Thousands of requests that schemathesis generates, against a real hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support import api_cases

pytestmark = pytest.mark.skipif(
    os.environ.get("TOOLHUB_TEST_DATABASE") == "postgres", reason="the hub that is asked has a database of its own"
)

# `make test-api` asks until the time is over; in the tests it is a few seconds.
SECONDS = os.environ.get("TOOLHUB_TEST_API_SECONDS")
LONG = ("--max-time", f"{SECONDS}")
SHORT = ("--phases", "fuzzing", "--max-examples", "1", "--seed", "1")


def test_every_response_matches_the_description(tmp_path: Path) -> None:
    outcomes = api_cases.run(tmp_path, *(LONG if SECONDS else SHORT))

    sys.stdout.write(f"{sum(outcome.cases for outcome in outcomes):,} cases\n")
    for outcome in outcomes:
        assert not outcome.failed, outcome.report
        assert outcome.cases >= 4
