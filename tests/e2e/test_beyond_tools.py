"""Prompts, resources and completion over real pipes and real HTTP, in both eras, while others change the hub."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.processes import Home, Server, key_in

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
DOORS = pytest.mark.parametrize("door", ["stdio", "http"])
OFFERS = '''
from toolhub import Hints, Included, Message, prompt, resource, tool

@tool(hints=Hints(read_only=True))
def count() -> int:
    """Count."""
    return 1

@prompt(tools=["count"])
def tally(what: str) -> list[Message]:
    """Count something."""
    print("printed by a prompt")
    return [Message(f"Count {what}."), Message(Included("shelf://books/1")), Message(Included("toolhub://tools/count"))]

@resource("shelf://books/{number}")
def book(number: int) -> str:
    """A book."""
    print("printed by a resource")
    return f"Book {number}"

@tool
def rewrite() -> str:
    """Write a book anew."""
    book.changed(number=1)
    return "done"
'''


class Asking(Protocol):
    """An agent over either transport."""

    era: str

    def connect(self) -> dict[str, Any]: ...


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder: Path = tmp_path_factory.mktemp("beyond")
    (folder / "tools").mkdir()
    (folder / "tools" / "shelf.py").write_text(OFFERS)
    made = Home(folder / "home", {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), "TOOLHUB_KEY_RATE_CALLS": "0"})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return key_in(home.run("addkey", "agent").stdout)


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@contextmanager
def agent(door: str, era: str, home: Home, request: pytest.FixtureRequest) -> Iterator[Asking]:
    if door == "stdio":
        with Agent(home, era) as piped:
            piped.connect()
            yield piped
        return
    server: Server = request.getfixturevalue("server")
    with HttpAgent(server.url, request.getfixturevalue("key"), era) as remote:
        remote.connect()
        yield remote


def ask(asking: Asking, method: str, **params: Any) -> dict[str, Any]:
    """The whole answer, whether it is a result or an error."""
    if isinstance(asking, Agent):
        return asking.answer(asking.ask(method, params))
    assert isinstance(asking, HttpAgent)
    return answer(asking.send(asking.message(method, params)))


def switch(home: Home, name: str, *, on: bool) -> None:
    with closing(sqlite3.connect(home.database, timeout=5)) as database, database:
        database.execute("UPDATE tools_app_toolrecord SET enabled = ? WHERE name = ?", [on, name])


@ERAS
@DOORS
def test_answer_alike_through_every_door(door: str, era: str, home: Home, request: pytest.FixtureRequest) -> None:
    with agent(door, era, home, request) as asking:
        prompts = ask(asking, "prompts/list")["result"]
        assert [one["name"] for one in prompts["prompts"]] == [
            *("diagnose_failures", "research_question", "tally", "websearch")
        ]
        assert prompts["prompts"][2]["arguments"] == [{"name": "what", "description": "", "required": True}]
        assert ("ttlMs" in prompts, "resultType" in prompts) == (era == MODERN, era == MODERN)

        said = ask(asking, "prompts/get", name="tally", arguments={"what": "sheep"})["result"]
        texts = [one["content"].get("text") or one["content"]["resource"]["text"] for one in said["messages"]]
        assert texts[:2] == ["Count sheep.", "Book 1"]
        assert texts[2].startswith("# count")

        read = ask(asking, "resources/read", uri="shelf://books/7")["result"]
        assert read["contents"] == [{"uri": "shelf://books/7", "mimeType": "text/plain", "text": "Book 7"}]
        assert read.get("cacheScope") == ("private" if era == MODERN else None)

        ref = {"type": "ref/resource", "uri": "toolhub://tools/{name}"}
        found = ask(asking, "completion/complete", ref=ref, argument={"name": "name", "value": "COU"})["result"]
        assert found["completion"] == {"values": ["count"], "total": 1, "hasMore": False}

        missing = ask(asking, "resources/read", uri="shelf://books")["error"]
        assert missing["code"] == (-32602 if era == MODERN else -32002)
        assert missing["data"] == {"uri": "shelf://books"}
        assert ask(asking, "prompts/get", name="nope")["error"]["code"] == -32602


@ERAS
def test_subscribers_over_pipes_are_notified(era: str, home: Home) -> None:
    with Agent(home, era) as asking:
        resources = asking.connect()["capabilities"]["resources"]
        assert resources == {"subscribe": True, "listChanged": True}
        uris = ["shelf://books/1", "toolhub://tools/count"]
        if era == MODERN:
            notifications = {"resourceSubscriptions": [*uris, "shelf://nothing"], "promptsListChanged": True}
            listening = asking.ask("subscriptions/listen", {"notifications": notifications})
            told = asking.told("notifications/subscriptions/acknowledged")["params"]
            assert told["notifications"] == {"promptsListChanged": True, "resourceSubscriptions": uris}
        else:
            for uri in uris:
                assert asking.result(asking.ask("resources/subscribe", {"uri": uri})) == {}
        asking.call("rewrite")
        updated = notified_in(asking, "notifications/resources/updated")
        assert updated["uri"] == "shelf://books/1"
        if era == MODERN:
            assert updated["_meta"]["io.modelcontextprotocol/subscriptionId"] == listening
        switch(home, "count", on=False)
        try:
            methods = {asking.next()["method"] for _ in range(2 if era == MODERN else 3)}
            assert methods - {"notifications/tools/list_changed"} == {
                "notifications/prompts/list_changed",
                "notifications/resources/updated",
            }
        finally:
            switch(home, "count", on=True)


def notified_in(asking: Agent, method: str) -> dict[str, Any]:
    """What was told of this kind already, or will be next."""
    for message in asking.seen:
        if message.get("method") == method:
            params: dict[str, Any] = message["params"]
            return params
    told: dict[str, Any] = asking.told(method)["params"]
    return told


def test_a_session_over_http_is_notified_on_its_stream(home: Home, server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as asking:
        asking.connect()
        assert asking.ask("resources/subscribe", {"uri": "shelf://books/1"}) == {}
        with asking.stream(None) as told:
            asking.call("rewrite")
            assert next(told)["params"] == {"uri": "shelf://books/1"}


def test_without_sessions_nothing_is_promised(home: Home, key: str) -> None:
    with home.serving(TOOLHUB_MCP_SESSIONS="0") as server:
        with HttpAgent(server.url, key, LEGACY) as asking:
            capabilities = asking.connect()["capabilities"]
            assert capabilities["prompts"] == {"listChanged": False}
            assert capabilities["resources"] == {"subscribe": False, "listChanged": False}
            assert len(asking.ask("prompts/list")["prompts"]) == 4
            refused = asking.send(asking.message("resources/subscribe", {"uri": "shelf://books/1"}))
            assert answer(refused)["error"]["code"] == -32601
        with HttpAgent(server.url, key, MODERN) as asking:
            assert asking.connect()["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
            assert asking.ask("resources/read", {"uri": "shelf://books/2"})["contents"][0]["text"] == "Book 2"
