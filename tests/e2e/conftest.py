"""Tests of whole processes take seconds each: `make test-e2e` runs them, and `make test` those within one."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("mcp") is None:
            item.add_marker("e2e")
