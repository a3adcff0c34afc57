"""Tests of the files of docs/recipes: `make test-recipes` installs the programs and runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("image") is None:
            item.add_marker("recipes")
