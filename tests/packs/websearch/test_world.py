"""The engines themselves: `make test-live-web` asks DuckDuckGo, `make test-real-web` a SearXNG of yours."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tools_app.http import ApiClient, WebClient
from tools_app.packs.websearch import settings
from tools_app.packs.websearch._work import answers
from tools_app.packs.websearch._work.searcher import Searcher
from tools_app.sdk.errors import ApiError

SEARXNG = os.environ.get("TOOLHUB_TEST_SEARXNG_URL", "")


@pytest.fixture(autouse=True)
def only_loopback() -> None:
    """Here the way out is the point."""


@asynccontextmanager
async def searching(engine: str) -> AsyncIterator[Searcher]:
    chosen = replace(settings.current(), engines=(engine,))
    api = ApiClient(SEARXNG, name="SearXNG", allow_http=True) if SEARXNG else None
    searcher = Searcher(chosen, WebClient(), api)
    try:
        yield searcher
    finally:
        await searcher.close()


def seconds() -> float:
    return 30.0


@pytest.mark.real_web
@pytest.mark.skipif(not SEARXNG, reason="set TOOLHUB_TEST_SEARXNG_URL to the address of a SearXNG")
def test_a_real_searxng_finds_something() -> None:
    async def story() -> None:
        async with searching("searxng") as searcher:
            found = await searcher.search("toolhub", 12, seconds)
            assert 1 <= len(found.hits) <= 12
            assert len({hit.url for hit in found.hits}) == len(found.hits)
            assert re.search(r"_Source: SearXNG \(\d+ results\)_$", answers.of_search("toolhub", found))

    asyncio.run(story())


@pytest.fixture
def internet() -> None:
    try:
        socket.create_connection(("html.duckduckgo.com", 443), timeout=5).close()
    except OSError as error:
        pytest.skip(f"no way to DuckDuckGo from here: {error}")


@pytest.mark.live_web
def test_duckduckgo_is_still_understood(internet: None) -> None:
    async def story() -> None:
        async with searching("duckduckgo") as searcher:
            try:
                found = await searcher.search("python programming language", 5, seconds)
            except ApiError as error:
                pytest.skip(f"DuckDuckGo does not want to be asked from here: {error.message}")
            assert len(found.hits) == 5
            nothing = await searcher.search("qwzxqwzx0kjhgf7 zzqqxxw91", 5, seconds)
            assert len(nothing.hits) <= 5
            said = await searcher.instant("Python (programming language)", seconds)
            assert said.words or said.topics

    asyncio.run(story())


@pytest.mark.live_web
def test_a_page_of_the_open_web_is_read(internet: None) -> None:
    async def story() -> str:
        async with searching("duckduckgo") as searcher:
            return await searcher.read("https://duckduckgo.com/about", seconds)

    assert "# " in asyncio.run(story())
