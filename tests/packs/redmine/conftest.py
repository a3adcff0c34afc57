from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.packs.redmine.office import Office
from tests.support.redmine import KEYS, FakeRedmine


@pytest.fixture
def redmine() -> Iterator[FakeRedmine]:
    with FakeRedmine() as upstream:
        yield upstream


@pytest.fixture
def office(redmine: FakeRedmine) -> Office:
    return Office(redmine.url, {login: key for key, login in KEYS.items()})
