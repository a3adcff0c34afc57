"""Politeness: few requests at once to a host, and what its robots.txt asks for, if the operator follows it."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.packs.websearch.conftest import Read, body_of
from tests.packs.websearch.fakes import FakeWeb
from tests.packs.websearch.test_guards import Time
from tests.packs.websearch.test_read_page import HTML
from tools_app.packs.websearch._work import visits
from tools_app.packs.websearch._work.pace import Pace
from tools_app.packs.websearch._work.robots import MOST_RULES, Rule, permits, rules_for
from tools_app.packs.websearch._work.visits import Hosts
from tools_app.sdk.errors import ToolError

TEXT = "text/plain"


def targets(web: FakeWeb) -> list[str]:
    return [request.target for request in web.server.requests]


class TestHosts:
    def test_two_at_once_are_the_most_for_a_host_and_others_do_not_wait(self) -> None:
        async def visited() -> tuple[int, bool]:
            hosts, leave = Hosts(0.0), asyncio.Event()
            inside = most = 0

            async def visit(name: str) -> None:
                nonlocal inside, most
                async with hosts.turn(name):
                    inside += name == "a.test"
                    most = max(most, inside)
                    await leave.wait()
                    inside -= name == "a.test"

            visits_of_a = [asyncio.ensure_future(visit("a.test")) for _ in range(5)]
            async with hosts.turn("b.test"):
                # All that can begin has begun.
                for _ in range(20):
                    await asyncio.sleep(0)
                other_was_let_in = not any(one.done() for one in visits_of_a)
            leave.set()
            await asyncio.gather(*visits_of_a)
            return most, other_was_let_in

        assert asyncio.run(visited()) == (2, True)

    def test_a_host_has_an_interval_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        time = Time()
        monkeypatch.setattr(visits, "Pace", lambda seconds: Pace(seconds, time, time.sleep))

        async def begun() -> list[tuple[str, float]]:
            hosts = Hosts(1.0)
            begun_at = []
            for name in ("a.test", "b.test", "a.test", "a.test", "b.test"):
                async with hosts.turn(name):
                    begun_at.append((name, time.now - 1_000))
            return begun_at

        assert asyncio.run(begun()) == [
            ("a.test", 0.0),
            ("b.test", 0.0),
            ("a.test", 1.0),
            ("a.test", 2.0),
            ("b.test", 2.0),
        ]

    def test_hosts_are_forgotten_when_there_are_too_many_but_none_that_is_visited(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(visits, "MOST_HOSTS", 3)

        async def known() -> tuple[int, int]:
            hosts = Hosts(0.0)
            async with hosts.turn("first.test"):
                for number in range(10):
                    async with hosts.turn(f"{number}.test"):
                        pass
                during = len(hosts)
                assert "first.test" in hosts._hosts
            return during, len(hosts)

        assert asyncio.run(known()) == (3, 3)

    def test_a_visit_that_fails_or_is_cancelled_gives_its_place_back(self) -> None:
        async def visited() -> bool:
            hosts = Hosts(0.0)
            for _ in range(5):
                with pytest.raises(ZeroDivisionError):
                    async with hosts.turn("a.test"):
                        raise ZeroDivisionError
            async with asyncio.timeout(10), hosts.turn("a.test"), hosts.turn("a.test"):
                waiting = asyncio.ensure_future(hosts.turn("a.test").__aenter__())
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            async with asyncio.timeout(10), hosts.turn("a.test"), hosts.turn("a.test"):
                return True

        assert asyncio.run(visited())

    def test_pages_of_one_call_wait_for_their_host(self, read: Read, web: FakeWeb) -> None:
        web.changes["pace_seconds"] = 0.01
        web.say("page", ("<p>text", HTML))
        base = f"http://page.test:{web.server.port}/page/"
        answer = read("/page/0", more_urls=[f"{base}{number}" for number in range(1, 5)])
        assert answer.count("text\n") == 5
        assert len(targets(web)) == 5


class TestRobotsTxt:
    @pytest.fixture(autouse=True)
    def following(self, web: FakeWeb) -> None:
        web.changes["follows_robots"] = True
        web.server.answer("robots.txt", web._answer)
        web.say("page", ("<p>text", HTML))

    def test_a_page_that_may_be_read_is_read_and_the_file_fetched_once(self, read: Read, web: FakeWeb) -> None:
        web.say("robots.txt", ("User-agent: *\nDisallow: /private/", TEXT))
        for number in range(3):
            assert body_of(read(f"/page/{number}")) == "text"
        assert targets(web) == ["/robots.txt", "/page/0", "/page/1", "/page/2"]

    def test_a_page_that_must_not_be_read_is_not_requested(self, read: Read, web: FakeWeb) -> None:
        web.say("robots.txt", ("User-agent: *\nDisallow: /page/secret", TEXT))
        with pytest.raises(ToolError, match=re.escape("page.test asks programs not to read it (robots.txt)")) as caught:
            read("/page/secret?a=1")
        assert caught.value.next_step == "Look for another page."
        assert targets(web) == ["/robots.txt"]
        assert body_of(read("/page/open")) == "text"

    def test_the_name_of_the_user_agent_counts(self, read: Read, web: FakeWeb) -> None:
        web.say("robots.txt", ("User-agent: *\nDisallow: /\n\nUser-agent: WebSearch-MCP\nAllow: /page/", TEXT))
        assert body_of(read()) == "text"

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
    def test_without_a_file_every_page_may_be_read(self, read: Read, web: FakeWeb, status: int) -> None:
        web.say("robots.txt", f"status:{status}")
        assert body_of(read()) == "text"

    @pytest.mark.parametrize("outcome", ["status:429", "status:500", "status:503", "reset", "garbage"])
    def test_a_file_that_cannot_be_fetched_forbids_everything_for_a_while(
        self, read: Read, web: FakeWeb, outcome: str
    ) -> None:
        web.say("robots.txt", outcome)
        for number in range(2):
            with pytest.raises(ToolError, match=re.escape("robots.txt of page.test cannot be fetched")):
                read(f"/page/{number}")
        assert targets(web).count("/robots.txt") == 1
        assert not [target for target in targets(web) if target.startswith("/page")]

    def test_where_a_page_redirects_to_is_checked_too(self, read: Read, web: FakeWeb) -> None:
        web.say("robots.txt", ("User-agent: *\nDisallow: /page/secret", TEXT))
        assert "text" in read("/redirect:302?to=%2Fpage%2Fopen")
        with pytest.raises(ToolError, match="asks programs not to read it"):
            read("/redirect:302?to=%2Fpage%2Fsecret")

    def test_nothing_inside_is_asked_for_a_file(self, read: Read, web: FakeWeb) -> None:
        with pytest.raises(ToolError):
            read(f"http://inside.test:{web.server.port}/page/")
        for url in ("http://[::1", "javascript:x", "http://"):
            with pytest.raises(ToolError, match="^The URL "):
                read(url)
        assert targets(web) == []

    def test_an_operator_who_does_not_follow_it_fetches_no_file(self, read: Read, web: FakeWeb) -> None:
        web.changes["follows_robots"] = False
        web.say("robots.txt", ("User-agent: *\nDisallow: /", TEXT))
        assert body_of(read()) == "text"
        assert targets(web) == ["/page/"]


# The examples of RFC 9309, and those of common crawlers.
GROUPS = """\ufeff# comment
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Crawl-delay: 5
Disallow: /example/page.html

Sitemap: https://a.test/sitemap.xml
User-Agent: quxbot

User-agent: barbot
disallow: /more # comment
"""


@pytest.mark.parametrize(
    ("token", "path", "allowed"),
    [
        ("other", "/a.gif", False),
        ("other", "/a.gif?x", True),
        ("other", "/example/", False),
        ("other", "/example", True),
        ("other", "/publications/a.gif", True),
        ("foobot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/page.htm", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("barbot", "/example/", True),
        ("barbot", "/more", False),
        ("bazbot", "/more", True),
        ("quxbot", "/more", False),  # It has the rules of the group that follows.
        ("", "/example/", False),
    ],
)
def test_the_rules_of_a_program_are_those_of_its_groups(token: str, path: str, allowed: bool) -> None:
    assert permits(rules_for(token, GROUPS.removeprefix("\ufeff")), path) is allowed


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/fish", "/fish.html", True),
        ("/fish", "/Fish", False),
        ("/fish*", "/fishheads/yummy.html", True),
        ("/fish/", "/fish", False),
        ("/*.php", "/folder/any.php.file.html", True),
        ("/*.php$", "/folder/filename.php", True),
        ("/*.php$", "/filename.php?parameters", False),
        ("/*.php$", "/.php.php", True),
        ("/fish*.php", "/fishheads/catfish.php?x", True),
        ("/fish*.php", "/Fish.PHP", False),
        ("/a*b*c", "/a-c-b-c", True),
        ("/a*b*c$", "/abcb", False),
        ("/$", "/", True),
        ("/$", "/a", False),
        ("/a$", "/a", True),
        ("/ab*b$", "/ab", False),
        ("*", "/anything", True),
        ("/%7Euser/", "/~user/a", True),
        ("/ä", "/%c3%a4", True),
        ("/a%2fb", "/a%2Fb", True),
        ("/a%2Fb", "/a/b", False),
        ("/" + "*a" * 5_000 + "$", "/" + "a" * 4_999, False),
    ],
)
def test_patterns_match_as_the_standard_says(pattern: str, path: str, matches: bool) -> None:
    (rule,) = rules_for("x", f"User-agent: *\nDisallow: {pattern}")
    assert permits([rule], path) is not matches


def test_of_equal_rules_the_one_that_allows_wins_and_the_file_itself_is_never_forbidden() -> None:
    assert permits([Rule("/a", False), Rule("/a", True)], "/a")
    assert not permits([Rule("/", False)], "/a")
    assert permits([Rule("/", False)], "/robots.txt")
    assert permits([], "/a")


def test_a_file_without_end_is_read_up_to_a_limit() -> None:
    source = "User-agent: *\n" + "Disallow: /a\n" * (MOST_RULES + 100)
    assert len(rules_for("x", source)) == MOST_RULES
    assert rules_for("x", "Disallow: /\nnonsense\n:\n\x00: \x00") == []
