"""The narrow place in front of Django, with bodies that lie about their size."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tools_app.api import intake
from tools_app.api.intake import Intake
from tools_app.base.asgi import SENDER, Message

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

    def run(self, seconds: float = 5, uploads: re.Pattern[str] | None = None) -> tuple[int, bytes]:
        taken_in = Intake(self.application, LIMIT, seconds, uploads)
        asyncio.run(asyncio.wait_for(taken_in(self.scope, self.receive, self.send), 10))
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


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/up", 200), ("POST", "/up/more", 413), ("PATCH", "/up", 413)]
)
def test_only_uploads_may_be_larger(method: str, path: str, status: int) -> None:
    conversation = Conversation(b"x" * 2 * LIMIT)
    conversation.scope |= {"method": method, "path": path}

    assert conversation.run(uploads=re.compile("/up"))[0] == status


def test_an_upload_has_a_limit_too() -> None:
    conversation = Conversation(b"x", length=str(intake.MOST_UPLOAD + 1).encode())
    conversation.scope["path"] = "/up"

    status, body = conversation.run(uploads=re.compile("/up"))
    assert (status, b"at most 8,388,608 bytes" in body) == (413, True)


@pytest.mark.parametrize("length", [b"1001", b"9" * 5000, b"1048577"])
def test_a_body_that_is_announced_too_large_is_never_shown_to_the_application(length: bytes) -> None:
    conversation = Conversation(b"x" * 2000, length=length)

    status, body = conversation.run()

    told = json.loads(body)
    assert (status, told["code"], told["success"]) == (413, "BODY_TOO_LARGE", False)
    assert told["error"] == "The request body is too large: at most 1,000 bytes are accepted"
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


@pytest.mark.parametrize("query", [b"tag=\xff", b"tag=%ff", b"tag=%c3%28"])
def test_a_query_that_is_not_utf_8_is_refused(query: bytes) -> None:
    status, body = Conversation(b"", query=query).run()

    assert (status, json.loads(body)["error"]) == (400, "The query string is not UTF-8")


def test_a_slow_body_is_refused_at_the_time_limit() -> None:
    class Dripping(Conversation):
        async def receive(self) -> Message:
            await asyncio.sleep(0.05)
            return {"type": "http.request", "body": b" ", "more_body": True}

    status, body = Dripping().run(seconds=0.3)

    told = json.loads(body)
    assert (status, told["code"], told["retryable"]) == (408, "BODY_TIMEOUT", True)
    assert told["error"] == "The request did not arrive in 0.3 seconds"


def test_the_end_of_the_body_ends_the_hurry() -> None:
    class Patient(Conversation):
        async def application(self, scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await asyncio.wait_for(asyncio.gather(receive(), asyncio.sleep(0.3)), 10)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

        async def receive(self) -> Message:
            if self.left:
                return await super().receive()
            await asyncio.sleep(0.3)
            return {"type": "http.disconnect"}

    assert Patient(b"x").run(seconds=0.1) == (200, b"ok")


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"raw_path": b"/" + b"a" * intake.MOST_ADDRESS_BYTES}, 414, "ADDRESS_TOO_LONG"),
        ({"query_string": b"a" * (intake.MOST_ADDRESS_BYTES + 1)}, 414, "ADDRESS_TOO_LONG"),
        ({"headers": [(b"a", b"b")] * (intake.MOST_HEADERS + 1)}, 431, "HEADERS_TOO_LARGE"),
        ({"headers": [(b"a", b"b" * intake.MOST_HEADER_BYTES)]}, 431, "HEADERS_TOO_LARGE"),
    ],
)
def test_a_request_with_too_much_in_front_of_its_body_is_refused(
    changed: dict[str, Any], status: int, code: str
) -> None:
    conversation = Conversation(b"")
    conversation.scope |= changed

    answered, body = conversation.run()

    assert (answered, json.loads(body)["code"]) == (status, code)
    assert conversation.seen == b""


def test_as_much_as_is_allowed_in_front_of_a_body_passes() -> None:
    conversation = Conversation(b"", query=b"a" * (intake.MOST_ADDRESS_BYTES - 1))
    conversation.scope["raw_path"] = b"/"
    conversation.scope["headers"] = [(b"name", b"v" * 300)] * intake.MOST_HEADERS

    assert conversation.run() == (200, b"ok")


def test_everything_that_is_no_request_passes() -> None:
    passed = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    asyncio.run(Intake(application, LIMIT, 5)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert passed == ["lifespan"]


class Crowd:
    """Requests to one intake, whose application holds every body until `ending` is set."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self.intake = Intake(self.holding, LIMIT, 5)
        self.running: list[asyncio.Task[None]] = []

    async def holding(self, scope: Any, receive: Any, send: Any) -> None:
        message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
        await self.ending.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(self, conversation: Conversation, sender: str) -> Conversation:
        """Begin a request, and go on when nothing more happens with it."""
        conversation.scope[SENDER] = sender
        serving = self.intake(conversation.scope, conversation.receive, conversation.send)
        self.running.append(asyncio.create_task(serving))
        for _ in range(20):
            await asyncio.sleep(0)
        return conversation

    async def end(self) -> None:
        self.ending.set()
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


class Unfinished(Conversation):
    """Sends some of its body, and never the rest."""

    async def receive(self) -> Message:
        if self.left:
            return {"type": "http.request", "body": self.left.pop(0), "more_body": True}
        return await super().receive()


def told(conversation: Conversation) -> tuple[int, str]:
    """What was answered; nothing where it is still waited for."""
    if not conversation.sent:
        return 0, ""
    body = b"".join(message.get("body", b"") for message in conversation.sent[1:])
    return conversation.sent[0]["status"], json.loads(body)["code"] if body.startswith(b"{") else ""


@pytest.mark.parametrize("header", [(b"content-length", b"1000"), (b"transfer-encoding", b"chunked")])
def test_bodies_that_are_only_announced_take_no_room(monkeypatch: pytest.MonkeyPatch, header: Any) -> None:
    monkeypatch.setattr(intake, "MOST_AT_ONCE", LIMIT)
    monkeypatch.setattr(intake, "MOST_OF_ONE", LIMIT)

    async def story() -> tuple[int, str]:
        crowd = Crowd()
        for _ in range(50):
            idle = Unfinished()
            idle.scope["headers"] = [header]
            await crowd.send(idle, "idle")
        crowd.ending.set()
        served = await crowd.send(Conversation(b"x" * LIMIT, length=b"1000"), "busy")
        await crowd.end()
        return told(served)

    assert asyncio.run(story()) == (200, "")


def test_a_body_that_never_ends_gives_way_to_one_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_AT_ONCE", 2 * LIMIT)
    monkeypatch.setattr(intake, "MOST_OF_ONE", 2 * LIMIT)

    async def story() -> list[tuple[int, str]]:
        crowd = Crowd()
        oldest = await crowd.send(Unfinished(b"x" * (LIMIT - 1)), "slow")
        younger = await crowd.send(Unfinished(b"x" * (LIMIT - 1)), "slow")
        crowd.ending.set()
        served = await crowd.send(Conversation(b"x" * LIMIT), "quick")
        answers = [told(one) for one in (oldest, younger, served)]
        await crowd.end()
        return answers

    assert asyncio.run(story()) == [(503, "OVERLOADED"), (0, ""), (200, "")]


def test_one_sender_has_a_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_AT_ONCE", 4 * LIMIT)
    monkeypatch.setattr(intake, "MOST_OF_ONE", 2 * LIMIT)

    async def story() -> list[tuple[int, str]]:
        crowd = Crowd()
        requests = [await crowd.send(Conversation(b"x" * LIMIT), "greedy") for _ in range(3)]
        requests.append(await crowd.send(Conversation(b"x" * LIMIT), "modest"))
        refused = told(requests[2])
        crowd.ending.set()
        await asyncio.wait_for(asyncio.gather(*crowd.running), 10)
        later = await crowd.send(Conversation(b"x" * LIMIT), "greedy")
        await crowd.end()
        assert refused == told(requests[2])
        return [told(one) for one in (*requests, later)]

    assert asyncio.run(story()) == [(200, ""), (200, ""), (429, "RATE_LIMIT_EXCEEDED"), (200, ""), (200, "")]


def test_more_bodies_than_there_is_room_for_are_asked_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_AT_ONCE", 2 * LIMIT)

    async def story() -> list[tuple[int, str]]:
        crowd = Crowd()
        requests = [await crowd.send(Conversation(b"x" * LIMIT), f"sender {number}") for number in range(3)]
        crowd.ending.set()
        await asyncio.wait_for(asyncio.gather(*crowd.running), 10)
        await crowd.end()
        return [told(one) for one in requests]

    assert asyncio.run(story()) == [(200, ""), (200, ""), (503, "OVERLOADED")]


def test_an_answer_that_does_not_need_the_body_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LINGER_SECONDS", 0.05)

    class Refusing(Unfinished):
        async def application(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

    conversation = Refusing(b"x", length=b"1000")
    assert conversation.run() == (401, b"no")
    assert headers(conversation)[b"connection"] == b"close"


def test_a_body_that_came_along_with_a_refused_request_does_not_cost_the_connection() -> None:
    class Refusing(Conversation):
        async def application(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

    conversation = Refusing(b"x" * 1000, length=b"1000")
    assert conversation.run() == (401, b"no")
    assert b"connection" not in headers(conversation)


def test_a_request_for_which_there_is_no_memory_gets_an_answer() -> None:
    async def full(scope: Any, receive: Any, send: Any) -> None:
        raise MemoryError

    conversation = Conversation(b"x")
    conversation.application = full  # type: ignore[method-assign]
    status, body = conversation.run()
    assert (status, json.loads(body)["code"]) == (503, "OVERLOADED")
