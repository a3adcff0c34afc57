"""The hub before a real n8n: the tools are asked the same as before the fake one, and must say the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import KEY, N8n
from tests.real.n8n.server import LINES, Server, running
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app.packs.n8n import (  # noqa: F401 - these declare the tools
    changes,
    edits,
    execution_files,
    executions,
    files,
    lists,
    node_docs,
    resources,
    tables,
    triggers,
    versions,
    workflows,
)


@pytest.fixture(scope="module", params=os.environ.get("TOOLHUB_TEST_N8N_LINES", "2 1").split())
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def n8n(line: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that has just been started: nobody has used it before."""
    with running(LINES[line], tmp_path_factory.mktemp(f"n8n-{line}")) as server:
        yield server


@pytest.fixture
def ask(n8n: Server, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("N8N_URL", n8n.url)
    monkeypatch.setenv("N8N_API_KEY", n8n.key)
    return Ask(hub)


@pytest.fixture
def fake(line: str) -> Iterator[N8n]:
    with N8n(line) as running:
        yield running


@pytest.fixture
def turned(fake: N8n, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called, the hub speaks to the fake one."""

    def turn() -> None:
        monkeypatch.setenv("N8N_URL", fake.url)
        monkeypatch.setenv("N8N_API_KEY", KEY)
        rebuild_catalog()

    return turn


@pytest.fixture
def settled(n8n: Server) -> partial[None]:
    return partial(until_it_listens, n8n)


def until_it_listens(n8n: Server, path: str) -> None:
    """n8n 2 says that it has activated a workflow a moment before it answers at its webhooks."""
    for _ in range(100):
        # It knows the path, and wants another method.
        if "Did you mean" in n8n.web.get(f"/webhook/{path}").text:
            return
        n8n.pause()
    raise AssertionError(f"n8n does not listen at {path}")
