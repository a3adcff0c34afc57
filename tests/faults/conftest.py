"""Hubs that a test may crash, starve and cut off from their database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import hubs, stores
from tests.support.hubs import TrialHub


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialHub]:
    """A hub that is set up, to be copied."""
    folder = tmp_path_factory.mktemp("trials")
    (folder / "home").mkdir(mode=0o700)
    with stores.fresh(folder / "home") as store, hubs.prepared(folder, store) as made:
        yield made


@pytest.fixture
def trial(template: TrialHub, tmp_path: Path) -> Iterator[TrialHub]:
    """A hub of the test's own."""
    with hubs.copied(template, tmp_path) as made:
        yield made
