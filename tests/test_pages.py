"""What surrounds Django's pages: they are complete before they are read, and visitors have a limit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from toolhub import pages
from toolhub.pages import Pages
from tools_app.base.asgi import Message, Receive, Scope, Send


class Visit:
    """A request of a visitor who takes what is sent only when `reading` is set."""

    def __init__(self, cookie: bytes = b"") -> None:
        self.scope: dict[str, Any] = {"type": "http", "headers": [(b"cookie", cookie)], "client": ("192.0.2.1", 1)}
        self.reading = asyncio.Event()
        self.sent: list[Message] = []
        self.left = [b"a=", b"1"]

    async def receive(self) -> Message:
        if not self.left:
            await asyncio.Future()
        return {"type": "http.request", "body": self.left.pop(0), "more_body": bool(self.left)}

    async def send(self, message: Message) -> None:
        await self.reading.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Site:
    """Answers with the body that it gets, `times` over."""

    def __init__(self, times: int = 1) -> None:
        self.times = times
        self.done = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for left in reversed(range(self.times)):
            await send({"type": "http.response.body", "body": body, "more_body": left > 0})
        self.done.set()


def test_a_page_is_done_before_its_visitor_reads_it() -> None:
    async def story() -> bytes:
        site, visit = Site(), Visit()
        serving = asyncio.create_task(Pages(site)(visit.scope, visit.receive, visit.send))
        await asyncio.wait_for(site.done.wait(), 10)
        assert visit.sent == []
        visit.reading.set()
        await serving
        return visit.body

    assert asyncio.run(story()) == b"a=1"


def test_what_is_too_large_to_keep_is_made_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_UNSENT", 10)

    async def story() -> bytes:
        site, visit = Site(times=100), Visit()
        serving = asyncio.create_task(Pages(site)(visit.scope, visit.receive, visit.send))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not site.done.is_set()
        visit.reading.set()
        await serving
        return visit.body

    assert asyncio.run(story()) == b"a=1" * 100


@pytest.mark.parametrize(("cookie", "status"), [(b"", 429), (b"toolhub_session=abc", 200)])
def test_visitors_who_have_not_signed_in_have_a_limit(settings: Any, cookie: bytes, status: int) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 1

    async def story() -> Visit:
        site = Pages(Site())
        for _ in range(11):
            visit = Visit(cookie)
            visit.reading.set()
            await site(visit.scope, visit.receive, visit.send)
        return visit

    last = asyncio.run(story())
    assert last.sent[0]["status"] == status
    if status == 429:
        assert json.loads(last.body)["code"] == "RATE_LIMIT_EXCEEDED"
