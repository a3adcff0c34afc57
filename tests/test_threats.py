"""The list of threats names modules and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "threats.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| T")]
NUMBERS = [int(row[0].removeprefix("T")) for row in ROWS]


@cache
def functions(path: Path) -> frozenset[str]:
    """The names of the functions of a file, also of those in classes."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_number_is_given_once() -> None:
    assert len(NUMBERS) == len(set(NUMBERS)) > 50
    # New ones continue the count, so that none is used again.
    new = sorted(number for number in NUMBERS if number > 85)
    assert all(after == before + 1 for before, after in pairwise(new))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_exists(row: list[str]) -> None:
    assert len(row) == 5
    _, attack, stops, shown, remains = row
    assert attack
    assert remains
    modules = re.findall(r"`([^`]+)`", stops)
    assert modules
    for module in modules:
        assert (ROOT / "tools_app" / module).is_file() or (ROOT / module).is_file(), module
    tests = re.findall(r"`([^`]+)`", shown)
    assert tests or shown == "no test"
    for test in tests:
        path, name = test.split("::")
        assert name in functions(ROOT / "tests" / path), test
