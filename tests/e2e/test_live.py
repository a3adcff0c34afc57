"""The event stream of the admin, with a hub as people start it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.support.admin import creation, sign_in
from tests.support.processes import Home, Server
from tools_app.admin.live import feed, stream

SOON = 20.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("live"))
    assert made.run("addkey", "agent").returncode == 0
    done = made.run("shell", "-c", creation(("vera", "viewer"), ("otto", "operator"), ("rita", "admin")))
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@contextmanager
def browser(server: Server, user: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=SOON) as client:
        sign_in(client, user)
        yield client


def news(lines: Iterator[str]) -> dict[str, int]:
    """The next event."""
    for line in lines:
        if line.startswith("data: "):
            return dict(json.loads(line.removeprefix("data: ")))
    raise AssertionError("the stream has ended")


def until(lines: Iterator[str], topic: str) -> dict[str, int]:
    while topic not in (event := news(lines)):
        pass
    return event


def test_says_what_has_changed_to_whom_may_know(server: Server, home: Home) -> None:
    with browser(server, "vera") as client, client.stream("GET", stream.PATH) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        first = news(lines)
        assert "calls" in first
        assert "connections" not in first, "a viewer cannot see connections"
        begun = time.time() * 1000
        assert home.run("calltool", "echo", '{"message": "hello"}').returncode == 0
        event = until(lines, "calls")
        assert event["calls"] >= begun
        assert "tools" not in event, "only what has changed"


def test_a_browser_that_takes_compressed_answers_can_follow_everything(server: Server) -> None:
    with browser(server, "rita") as client:
        headers = {"Accept-Encoding": "gzip, deflate, br"}
        with client.stream("GET", stream.PATH, headers=headers) as answer:
            assert answer.status_code == 200
            assert news(answer.iter_lines()).keys() == feed.TOPICS.keys()


def test_ends_with_the_session(server: Server) -> None:
    with browser(server, "vera") as client, client.stream("GET", stream.PATH) as answer:
        lines = answer.iter_lines()
        news(lines)
        form = {"csrfmiddlewaretoken": client.cookies["toolhub_csrf"]}
        assert client.post("/admin/logout/", data=form).status_code in (200, 302)
        begun = time.monotonic()
        rest = list(lines)
        assert "event: end" in rest, "the browser must not connect again by itself"
        assert not [line for line in rest if "calls" in line]
        assert time.monotonic() - begun < SOON
        assert client.get(stream.PATH).status_code == 302


def test_ends_when_permissions_may_have_changed(server: Server, home: Home) -> None:
    with browser(server, "vera") as client, client.stream("GET", stream.PATH) as answer:
        lines = answer.iter_lines()
        news(lines)
        done = home.run(
            "shell", "-c",
            "from tools_app import governance; governance.create_admin('second', 'a long password', "
            "actor=governance.trusted('test'))",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        list(lines)  # until its end


def test_refuses_strangers_and_a_session_with_too_many(server: Server) -> None:
    assert httpx.get(f"{server.url}{stream.PATH}").status_code == 302
    with browser(server, "otto") as client, ExitStack() as open_streams:
        answers = [open_streams.enter_context(client.stream("GET", stream.PATH)) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * stream.MOST_OF_SESSION + [429]


def test_a_shutdown_waits_for_no_stream(home: Home) -> None:
    with home.serving() as other, browser(other, "vera") as client, client.stream("GET", stream.PATH) as answer:
        news(answer.iter_lines())
        begun = time.monotonic()
        assert other.end() == 0
        assert time.monotonic() - begun < 8
