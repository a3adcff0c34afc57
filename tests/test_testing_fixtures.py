"""The kit's fixtures, asked for by name as authors ask for them."""

from __future__ import annotations

import httpx

from toolhub.testing import fixtures

upstream = fixtures.upstream


def test_upstreams_answer_until_the_test_ends(upstream: fixtures.Starts) -> None:
    first, second = upstream({"GET /a": 1}), upstream({"GET /a": 2})
    assert [httpx.get(f"{one.url}/a").json() for one in (first, second)] == [1, 2]
