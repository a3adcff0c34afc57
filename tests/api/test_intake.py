"""The narrow place in front of Django, with bodies that lie about their size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tools_app.api import intake
from tools_app.api.intake import Intake, Message

LIMIT = 1000


class Conversation:
    """One request as a server would hand it on, and what came back."""

    def __init__(self, *chunks: bytes, length: bytes | None = None, query: bytes = b"") -> None:
        headers = [(b"content-length", length)] if length is not None else []
        self.scope: dict[str, Any] = {"type": "http", "method": "POST", "headers": headers, "query_string": query}
        self.left = list(chunks)
        self.sent: list[Message] = []
        self.seen = b""

    async def receive(self) -> Message:
        if self.left:
            return {"type": "http.request", "body": self.left.pop(0), "more_body": bool(self.left)}
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        """Reads everything before it answers, as Django does."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.seen += message["body"]
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    def run(self) -> tuple[int, bytes]:
        asyncio.run(asyncio.wait_for(Intake(self.application, LIMIT)(self.scope, self.receive, self.send), 10))
        assert [message["type"] for message in self.sent[:2]] == ["http.response.start", "http.response.body"]
        assert not self.sent[-1].get("more_body")
        return self.sent[0]["status"], b"".join(message.get("body", b"") for message in self.sent[1:])


def headers(conversation: Conversation) -> dict[bytes, bytes]:
    return dict(conversation.sent[0]["headers"])


@pytest.mark.parametrize("chunks", [[b""], [b"x" * LIMIT], [b"x" * 400, b"x" * 600], [b"x"] * LIMIT])
def test_a_body_within_the_limit_passes(chunks: list[bytes]) -> None:
    conversation = Conversation(*chunks)

    assert conversation.run() == (200, b"ok")
    assert conversation.seen == b"".join(chunks)


@pytest.mark.parametrize("length", [b"1001", b"9" * 5000, b"1048577"])
def test_a_body_that_is_announced_too_large_is_never_shown_to_the_application(length: bytes) -> None:
    conversation = Conversation(b"x" * 2000, length=length)

    status, body = conversation.run()

    told = json.loads(body)
    assert (status, told["code"], told["success"]) == (413, "BODY_TOO_LARGE", False)
    assert told["error"] == "The request body is too large: at most 1,000 bytes are taken"
    assert headers(conversation)[b"content-type"] == b"application/json"
    assert headers(conversation)[b"content-length"] == str(len(body)).encode()
    assert headers(conversation)[b"connection"] == b"close"
    assert conversation.seen == b""


@pytest.mark.parametrize("length", [None, b"10", b"-1", b"x"])
def test_a_body_that_grows_too_large_is_cut_off(length: bytes | None) -> None:
    conversation = Conversation(*[b"x" * 300] * 20, length=length)

    status, _ = conversation.run()

    assert status == 413
    assert len(conversation.seen) == 900
    assert conversation.left == []  # Read to its end and thrown away, so that the client gets to read the answer.


def test_a_body_without_end_is_not_read_for_ever() -> None:
    class Endless(Conversation):
        async def receive(self) -> Message:
            return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    assert Endless().run()[0] == 413


def test_a_body_that_stops_coming_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LINGER_SECONDS", 0.05)

    class Stalling(Conversation):
        async def receive(self) -> Message:
            return {"type": "http.request", "body": b"x" * 2000, "more_body": True} if not self.sent else await stall()

    async def stall() -> Message:
        await asyncio.sleep(60)
        return {}

    assert Stalling().run()[0] == 413


def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    class Hasty(Conversation):
        async def application(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await receive()
            await send({"type": "http.response.body", "body": b"ok"})

    assert Hasty(b"x" * 2000).run() == (200, b"ok")


def test_a_query_that_is_not_utf_8_is_refused() -> None:
    status, body = Conversation(b"", query=b"tag=\xff").run()

    assert (status, json.loads(body)["error"]) == (400, "The query string is not UTF-8")


def test_everything_that_is_no_request_passes() -> None:
    passed = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    asyncio.run(Intake(application, LIMIT)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert passed == ["lifespan"]
