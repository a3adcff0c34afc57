"""The demo: what somebody sees who has two minutes."""

from __future__ import annotations

import subprocess
import sys

from tests.support.processes import CHECKOUT


def test_fills_a_hub_that_is_worth_looking_at() -> None:
    command = [sys.executable, "-m", "tests.demo", "--fill-only"]
    filled = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert filled.returncode == 0, filled.stderr
    numbers = [int(word.replace(",", "")) for word in filled.stdout.split() if word[0].isdigit()]
    tools, calls, errors, callers = numbers
    assert tools >= 30
    assert calls >= 5_000
    assert (errors, callers) >= (5, 5)
