"""A hub that the earlier version has filled, and copies of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrade import base, filling
from tests.upgrade.base import Unavailable, Version
from tests.upgrade.filling import OldHub


@pytest.fixture(scope="session")
def version(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Version]:
    try:
        with base.base_version(tmp_path_factory.mktemp("base")) as made:
            yield made
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def calls(request: pytest.FixtureRequest) -> int:
    """How many calls the hub has: decided by the test."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def template(calls: int, version: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldHub]:
    with filling.filled(tmp_path_factory.mktemp("filled"), version, calls) as made:
        yield made


@pytest.fixture
def hub(template: OldHub, tmp_path: Path) -> Iterator[OldHub]:
    """A hub of its own for each test."""
    with template.copied(tmp_path) as made:
        yield made
