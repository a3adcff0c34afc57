"""Fixtures for authors who test with pytest. In a test or a `conftest.py`:

    from toolhub.testing.fixtures import upstream

    def test_knows_kyoto(upstream):
        upstream({"GET /kyoto": {"degrees": 21.5}}, pack=pack)
        assert testing.call(forecast, city="Kyoto")["degrees"] == 21.5

They are imported by name and not a plugin, so that they do not slow down other tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from toolhub.testing.upstream import FakeUpstream, fake_upstream

Starts = Callable[..., FakeUpstream]


@pytest.fixture
def upstream() -> Iterator[Starts]:
    """Starts fake upstreams, as `fake_upstream` does; they stop with the test."""
    with contextlib.ExitStack() as running:

        def start(answers: object, **options: object) -> FakeUpstream:
            return running.enter_context(fake_upstream(answers, **options))  # type: ignore[arg-type]  # checked there

        yield start
