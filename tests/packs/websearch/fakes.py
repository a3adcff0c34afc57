"""Search engines on loopback, which answer what a test tells them: DuckDuckGo's three places, and a SearXNG."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.faultd import Faultd, Names, Wire
from tests.support.faultd.faults import FAULTS
from tools_app.http import ApiClient, WebClient
from tools_app.packs.websearch._work.duckduckgo import Places
from tools_app.packs.websearch._work.searcher import Searcher
from tools_app.packs.websearch.settings import Settings

PAGES = Path(__file__).parent / "pages"
# For addresses of tests: what is reached there stands for the open web.
HOSTS = ("html_ddg_test", "lite_ddg_test", "api_ddg_test", "page_test")


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


class FakeWeb:
    """An outcome is a file of `pages`, a fault of faultd, or text and its type; each with its status if not 200."""

    def __init__(self, server: Faultd) -> None:
        self.server = server
        self.changes: dict[str, Any] = {"pace_seconds": 0.0, "timeout": 2.0, "engines": ("duckduckgo",)}
        self.places = Places(*(f"http://{name}.ddg.test:{server.port}/{name}/" for name in ("html", "lite", "api")))
        # How long it takes for an answer.
        self.seconds = 0.0
        self._outcomes: dict[str, list[Any]] = {}
        for place in ("html", "lite", "api", "search", "page"):
            server.answer(place, self._answer)

    def say(self, place: str, *outcomes: Any) -> None:
        """What a place answers, one after the other, and the last one from then on."""
        self._outcomes[place] = list(outcomes)

    def asked(self, place: str) -> list[dict[str, str]]:
        """The parameters of the requests there, however they were sent."""
        return list(self._parameters(place))

    def searcher(self, chosen: Settings) -> Searcher:
        web = WebClient(
            timeout=5.0,
            user_agent=chosen.user_agent,
            resolver=Names(**{name: [["127.0.0.1"]] for name in HOSTS}, inside_test=[["127.0.0.2"]]),
            allowed=lambda address: str(address) == "127.0.0.1",
            ports=frozenset({80, 443, self.server.port}),
        )
        searxng = ApiClient(self.server.url, name="SearXNG", user_agent=chosen.user_agent)
        return Searcher(replace(chosen, **self.changes), web, searxng, self.places)

    def _parameters(self, place: str) -> Iterator[dict[str, str]]:
        for seen in self.server.requests:
            target = urlsplit(seen.target)
            if target.path.strip("/").split("/")[0] == place:
                yield _single(seen.body.decode() or target.query)

    async def _answer(self, wire: Wire) -> None:
        place = urlsplit(wire.seen.target).path.strip("/").split("/")[0]
        outcomes = self._outcomes.get(place)
        if outcomes is None:
            await (index(wire) if place == "search" else wire.answer(status="404 Not Found"))
            return
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        await asyncio.sleep(self.seconds)
        if isinstance(outcome, str) and "." not in outcome:
            name, *figures = outcome.split(":")
            await FAULTS[name](replace(wire, figures=figures))
            return
        given, more, *status = outcome if isinstance(outcome, tuple) else (outcome, 200)
        if isinstance(more, str):
            body = given if isinstance(given, bytes) else given.encode()
            code = HTTPStatus(status[0] if status else 200)
            await wire.answer(body, status=f"{code} {code.phrase}", kind=more)
            return
        kind = "application/x-javascript" if given.endswith(".json") else "text/html; charset=utf-8"
        await wire.answer(page(given).encode(), status=f"{more} {HTTPStatus(more).phrase}", kind=kind)


async def index(wire: Wire) -> None:
    """A SearXNG that finds 25 pages for everything but `nothing`, ten at a time."""
    asked = _single(urlsplit(wire.seen.target).query)
    if not asked.get("q"):
        await wire.answer(b'{"error": "No query"}', status="400 Bad Request")
        return
    if asked.get("format") != "json":
        await wire.answer(page("searxng_403_format_off.html").encode(), status="403 Forbidden", kind="text/html")
        return
    first = 10 * (int(asked.get("pageno", "1")) - 1)
    numbers = range(first + 1, min(first + 10, 25) + 1) if asked["q"] != "nothing" else ()
    results = [
        {
            "url": f"https://example.test/{number}?a=1&b=2",
            "title": f"{asked['q']} {number}",
            "content": f"Words {number}",
        }
        for number in numbers
    ]
    said = {"query": asked["q"], "results": results, "answers": [], "unresponsive_engines": []}
    await wire.answer(json.dumps(said).encode())


@contextmanager
def web_for_processes() -> Iterator[FakeWeb]:
    """The same for other processes, which find it by executing `REPLACEMENT`."""
    with Faultd() as server:
        yield FakeWeb(server)


REPLACEMENT = """
import os
from urllib.parse import urlsplit

from tools_app.http import ApiClient, WebClient
from tools_app.packs.websearch._work import searcher
from tools_app.packs.websearch._work.duckduckgo import Places

URL = os.environ["WEB_OF_THE_TEST"]


def make(chosen):
    web = WebClient(allowed=lambda address: address.is_loopback, ports=frozenset({urlsplit(URL).port}))
    places = Places(*(f"{URL}/{place}/" for place in ("html", "lite", "api")))
    return searcher.Searcher(chosen, web, ApiClient(URL, name="SearXNG"), places)


searcher.make = make
"""


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
