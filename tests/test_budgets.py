"""The check that keeps rooms small: what it counts, and what it says."""

from __future__ import annotations

import sys

import pytest

from scripts import budgets

SOURCE = '''"""A module
with a docstring."""

# a comment
import os  # and one behind code


def path(
    name: str,
) -> str:
    """A docstring."""
    text = """no
docstring"""
    return os.path.join(name, text)
'''


def test_counts_neither_comments_nor_docstrings_nor_blank_lines() -> None:
    assert budgets.lines_of_code(SOURCE) == 7


def test_names_what_is_over_its_budget_and_what_has_none() -> None:
    allowed = {"rooms": {"engine": 10, "text": 5}, "core": {"lines": 100}, "call": {"modules": 3}}
    figures = {"rooms.engine": 11, "rooms.text": 5, "rooms.new": 1, "core.lines": 100, "call.modules": 3}
    first, second = budgets.excess(figures, allowed)
    assert first.startswith("rooms.engine is 11, its budget is 10")
    assert second.startswith("rooms.new has no budget")


def test_a_call_needs_what_the_engine_imports_inside_functions_too() -> None:
    sizes = budgets.module_sizes()
    needed = budgets.import_closure("tools_app.engine", sizes)
    assert {"tools_app.engine.calls", "tools_app.journal.writer", "tools_app.sdk.errors"} <= needed
    assert "tools_app.http.addresses" in needed, "which only a function of the connections imports"
    assert "tools_app.http.client" not in needed, "which the engine asks a port for"
    assert not {module for module in needed if module.startswith(("tools_app.admin", "tools_app.api"))}


def test_the_command_accepts_the_project_and_prints_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["budgets.py", "--show"])
    assert budgets.main() == 0
    shown = capsys.readouterr().out
    assert "rooms.engine" in shown
    assert "call.modules" in shown
