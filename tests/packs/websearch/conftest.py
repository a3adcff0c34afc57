from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.packs.websearch.fakes import FakeWeb
from tests.support.faultd import Faultd
from tests.support.tools import Hub
from tools_app import engine, governance
from tools_app.packs.websearch import pack
from tools_app.packs.websearch._work import searcher
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints

Ask = Callable[..., str]
Read = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


@pytest.fixture
def web(server: Faultd, monkeypatch: pytest.MonkeyPatch) -> FakeWeb:
    """Every engine, and nothing asked of them yet."""
    server.requests.clear()
    fake = FakeWeb(server)
    monkeypatch.setattr(searcher, "make", fake.searcher)
    return fake


@pytest.fixture
def ask(hub: Hub, web: FakeWeb, alice: Caller) -> Iterator[Ask]:
    """Calls a tool of the pack through the engine, and returns its text; one attempt, unless a test says otherwise."""

    @tool(hints=Hints(read_only=True, open_world=False))
    async def hang_up() -> None:
        """Close what belongs to the engine's loop."""
        await searcher.close()

    hub.add(*pack.tools, hang_up)

    def call(name: str, *, retries: int = 0, **arguments: Any) -> str:
        options = engine.Options(retries=retries, retry_delay_ms=100)
        return engine.call_sync(name, arguments, alice, door="code", options=options).answer.text

    yield call
    engine.call_sync("hang_up", {}, alice, door="code")


@pytest.fixture
def read(ask: Ask, web: FakeWeb) -> Read:
    """Reads pages, as an operator lets it."""
    governance.set_enabled(["read_page"], enabled=True, actor=governance.trusted("test"))

    def call(url: str = "/page/", **options: Any) -> str:
        return ask(
            "read_page", url=f"http://page.test:{web.server.port}{url}" if url.startswith("/") else url, **options
        )

    return call


def body_of(answer: str) -> str:
    """The text between the marks, without the page's title and address."""
    return answer.partition(": begin]")[2].rpartition("[untrusted ")[0].strip().split("\n\n", 2)[2]
